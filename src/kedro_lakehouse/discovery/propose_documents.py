"""Declarations for collections that a crawl found: blocks of tables.yml, with what was found as comments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.config.documents import parse_path
from kedro_lakehouse.decoders.bson.types import fields_of, type_of
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.config.documents import DocumentRules
    from kedro_lakehouse.decoders.bson.kinds import Kinds
    from kedro_lakehouse.discovery.documents import FoundField
    from kedro_lakehouse.discovery.found import FoundDataset

_MOST: Final = 12
"""So many fields are named in comments; the crawl's JSON has all."""
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_CHANGED: Final = re.compile(
    r"(updated|modified|changed|last_?(update|modified|changed))(_?(at|on|time|date))?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class FoundDocuments:
    """A collection or view, with the kinds of its values at every path."""

    dataset: FoundDataset
    entity: str
    kinds: Kinds
    fields: Sequence[FoundField]
    maps: Sequence[str]


def table_of(source: str, rules: DocumentRules | None, one: FoundDocuments) -> dict[str, Any]:
    """The keys of a table in tables.yml; ``rules`` are the source's, None where documents stay bytes."""
    table: dict[str, Any] = {"source": source, "entity": one.entity}
    if one.dataset.kind == "collection" or any(f.path == "_id" and not f.missing for f in one.fields):
        table["keys"] = ["_id"]
    else:
        table["write"] = "replace"
    if one.maps:
        table["pull"] = {"maps": list(one.maps)}
    if rules is None:
        return table
    rules = replace(rules, maps=frozenset(map(parse_path, one.maps)))
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


def comments_on(one: FoundDocuments) -> Iterator[str]:
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
