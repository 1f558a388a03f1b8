"""Declarations for collections that a crawl found: blocks of tables.yml, with what was found as comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.config.documents import DocumentRules, parse_path
from kedro_lakehouse.decoders.bson.types import fields_of, type_of
from kedro_lakehouse.discovery.propose import commented, valid_yaml
from kedro_lakehouse.errors import InvalidNameError
from kedro_lakehouse.names import TableName, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.config.mongodb import MongoSourceConfig
    from kedro_lakehouse.discovery.crawl import Crawled
    from kedro_lakehouse.discovery.documents import FoundField

_MOST: Final = 12
"""So many fields are named in comments; the crawl's JSON has all."""
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_CHANGED: Final = re.compile(
    r"(updated|modified|changed|last_?(update|modified|changed))(_?(at|on|time|date))?", re.IGNORECASE
)


def proposed_tables(source: str, config: MongoSourceConfig, found: Sequence[Crawled]) -> str:
    """The text of tables.yml for all that was found; it is valid YAML."""
    head = f"# Proposed by `kedro lakehouse crawl {source}`: copy what you want into conf/base/tables.yml.\n"
    blocks = [_block(source, config, one) for one in found]
    return valid_yaml("\n".join([head, *blocks]))


def _block(source: str, config: MongoSourceConfig, one: Crawled) -> str:
    comments = list(_comments(one))
    try:
        name = str(TableName.parse(one.dataset.name))
    except InvalidNameError as error:
        return commented([*comments, f"No name for a table: {error.sentences()[0]}"], one.dataset.name, {})
    return commented(comments, name, {name: table_of(source, config, one)})


def table_of(source: str, config: MongoSourceConfig, one: Crawled) -> dict[str, Any]:
    """The keys of a table in tables.yml."""
    table: dict[str, Any] = {"source": source, "entity": one.entity}
    if one.dataset.kind == "collection" or any(f.path == "_id" and not f.missing for f in one.fields):
        table["keys"] = ["_id"]
    else:
        table["write"] = "replace"
    if one.maps:
        table["pull"] = {"maps": list(one.maps)}
    if config.document == "raw":
        return table
    rules = DocumentRules(
        flatten=config.document == "flatten",
        as_text=config.on_mixed == "string",
        maps=frozenset(map(parse_path, one.maps)),
    )
    try:
        found = fields_of(one.kinds, rules)
    except ValueError:  # two fields would be one column: ingestion refuses that by name
        return table
    columns = {name: type_of(kinds, rules, path) for name, (path, kinds) in found.items()}
    renamed = {name: f"source_{name.strip('_')}" for name in columns if is_reserved_column(name)}
    types = {renamed.get(n, n): t.simpleString() for n, t in columns.items() if _can_be_written(t)}
    return table | {key: value for key, value in (("types", types), ("rename", renamed)) if value}


def _can_be_written(kind: T.DataType) -> bool:
    """Whether the text of a type can be read again: names in it must be words."""
    if isinstance(kind, T.StructType):
        return all(_NAME.fullmatch(f.name) and _can_be_written(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _can_be_written(kind.elementType)
    if isinstance(kind, T.MapType):
        return _can_be_written(kind.valueType)
    return not isinstance(kind, T.NullType)


def _comments(one: Crawled) -> Iterator[str]:
    """What was found, without a value of a document; names of fields are shown."""
    rows = "a view" if one.dataset.rows is None else f"about {one.dataset.rows:,} documents"
    yield f"{one.dataset.location}: {rows}, {one.dataset.read:,} looked at, {len(one.fields):,} paths"
    yield from _named("Mixed", [f"{f.path}: {_counts(f)}" for f in one.fields if f.mixed])
    yield from _named("Missing", [f"{f.path} in {f.missing:,}" for f in one.fields if f.missing])
    if one.maps:
        yield f"Keys that look like data, so maps: {', '.join(one.maps)}"
    if (cursor := _cursor(one.fields)) is not None:
        yield f"If nothing is deleted: `mode: incremental`, `cursor: {cursor}`, which is always a date."


def _counts(field: FoundField) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in field.kinds.items())


def _named(word: str, found: Sequence[str]) -> Iterator[str]:
    yield from (f"{word}: {text}" for text in found[:_MOST])
    if len(found) > _MOST:
        yield f"{word}: and {len(found) - _MOST:,} more"


def _cursor(fields: Sequence[FoundField]) -> str | None:
    """A field of each document that tells when it was last changed."""
    for field in fields:
        if _CHANGED.fullmatch(field.path) and not field.missing and set(field.kinds) == {"date"}:
            return field.path
    return None
