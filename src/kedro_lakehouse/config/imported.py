"""Declarations made from the configuration of AWS's own sample of this job.

Source:
    "Automate replication of relational sources into a transactional data lake with Apache Iceberg and AWS
    Glue", AWS Big Data Blog: the tables' parameter, ``{"schema.table": {"primaryKey": "a,b", "domain": "d",
    "partitionCols": "c"}}``. The sample itself calls its table ``<domain>.<schema>_<table>``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import ConfigurationError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOWED: Final = ("primaryKey", "domain", "partitionCols")
_OUTSIDE_BRACKETS: Final = re.compile(r",(?![^(]*\))")


def import_tables(
    text: str, *, origin: str, source: str, history: bool = False, with_schema: bool = False
) -> dict[str, dict[str, Any]]:
    """Turn the sample's JSON into checked entries of tables.yml, in its order.

    Args:
        text: The JSON object of tables.
        origin: Where it was read, for messages.
        source: Name of the source in sources.yml that the tables will have.
        history: Whether the tables keep their versions; the sample keeps none.
        with_schema: Whether a table is called ``<schema>_<table>``, as the sample does, or ``<table>``.

    Raises:
        ConfigurationError: The text is not such JSON, a key is unknown or missing, a name cannot be a
            table's, or two tables would have one name.
    """
    declared: dict[str, dict[str, Any]] = {}
    for key, entry in _tables(text, origin).items():
        schema, dot, table = key.partition(".")
        if not dot or not schema or not table or "." in table:
            raise _wrong(origin, key, "the key is not of the form schema.table.", "Write it so.")
        domain = _text(entry, "domain", origin, key)
        name = f"{domain}.{schema}_{table}".lower() if with_schema else f"{domain}.{table}".lower()
        if name in declared:
            problem = f"{name} stands for {declared[name]['entity']} already."
            remedy = "Name the tables with their schema: `kedro lakehouse import-config --with-schema`."
            raise _wrong(origin, key, problem, remedy)
        declared[name] = {
            "source": source,
            "entity": f"{schema}/{table}",
            "keys": _words(_text(entry, "primaryKey", origin, key)),
        }
        if partitions := _words(str(entry.get("partitionCols") or "")):
            declared[name]["partition_by"] = partitions
        if history:
            declared[name]["history"] = True
    load_declarations({source: {"type": "dms", "path": "."}}, declared, {"dms": DmsSourceConfig})
    return declared


def _tables(text: str, origin: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}, column {error.colno} is not JSON."
        raise _wrong(origin, "json", problem, "Correct it.") from error
    if not isinstance(found, dict) or not found:
        raise _wrong(origin, "json", "no object with tables.", 'Write {"schema.table": {...}}.')
    for key, entry in found.items():
        if not isinstance(entry, dict):
            raise _wrong(origin, key, "no object with keys.", f"Give it {listed(_ALLOWED)}.")
        for word in entry:
            if word not in _ALLOWED:
                near = did_you_mean(word, _ALLOWED)
                raise _wrong(origin, f"{key}.{word}", f"not a known key.{near}", f"Use {listed(_ALLOWED)}.")
    return found


def _text(entry: Mapping[str, Any], word: str, origin: str, key: str) -> str:
    value = entry.get(word)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(origin, f"{key}.{word}", "the text is missing.", "Add it.")
    return value.strip()


def _words(text: str) -> list[str]:
    """The names of a list with commas; a comma between brackets belongs to a transform."""
    return [word for part in _OUTSIDE_BRACKETS.split(text) if (word := part.strip())]


def _wrong(origin: str, key: str, problem: str, remedy: str) -> ConfigurationError:
    again = remedy if "`kedro " in remedy else f"{remedy} Then `kedro lakehouse import-config` again."
    return ConfigurationError(file=origin, key=key, problem=problem, remedy=again)
