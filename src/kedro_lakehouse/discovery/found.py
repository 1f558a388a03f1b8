"""What is known of a dataset that was found: where it lies, what it holds, and how sure that is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, get_args

import pyarrow as pa

from kedro_lakehouse.pulls.protocol import EntityKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.config.discovery import DatasetKind
    from kedro_lakehouse.discovery.keys import Keys

    FoundKind = DatasetKind | EntityKind

CRAWLED: Final = get_args(EntityKind)
"""The kinds of what a crawl finds in a source; columns of documents are named by the path of a field."""
KEY: Final = "key"
"""Option of a dataset: the columns that are taken for its key; none if no candidate looks like one."""
WHY: Final = "why"
"""Option of a dataset: what speaks for each of its keys, in words."""
_SIGNS: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class FoundColumn:
    """A column, its type as Spark writes it, and why it looks personal (None: it does not).

    ``id`` is the number by which a table format knows the column under all its names; None without one.
    """

    name: str
    type: str
    partition: bool = False
    id: int | None = None
    personal: str | None = None


@dataclass(frozen=True, kw_only=True)
class FoundDataset:
    """One dataset: files of one schema, or a table of Iceberg, Delta or Hudi.

    Attributes:
        name: The table's name, ``namespace.table``.
        location: The folder of a table, or the folder or the file of files.
        pattern: Pattern of the base names of its files in that folder; empty for tables.
        identity: A text that stays the same when the dataset is moved or renamed.
        mark: A text that differs if anything of it differs: then it is looked at anew.
        rows: Number of rows; None if it is not known. ``rows_exact`` says whether it was counted.
        changed: When its files last changed, or when its last commit was.
        keys: Sets of columns that were unique and without null in all rows that were read; the likeliest
            first.
        read: How many rows that were.
        options: How its files are read, as `csv` of sources.yml says it; and what proposals have to know
            of its place.
        note: What could not be told of it, and why; empty if nothing.
    """

    name: str
    kind: FoundKind
    location: str
    columns: tuple[FoundColumn, ...]
    identity: str
    mark: str
    pattern: str = ""
    partitions: tuple[str, ...] = ()
    rows: int | None = None
    rows_exact: bool = True
    size: int = 0
    files: int = 0
    changed: datetime | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    read: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def named(self, name: str) -> Self:
        """The same dataset under another name."""
        return replace(self, name=name)


def key_options(keys: Keys) -> dict[str, Any]:
    """What is known of keys beside the candidates themselves, as options of a dataset."""
    return {KEY: list(keys.chosen), WHY: list(keys.why)}


def identifier_of(parts: Sequence[str], default: str = "data") -> str:
    """A table's name out of the parts of a path.

    Example:
        >>> identifier_of(["2024 Sales", "Orders.V2"])
        'sales_orders_v2'
    """
    text = "_".join(filter(None, (_SIGNS.sub("_", part.lower()).strip("_") for part in parts)))
    return text.lstrip("0123456789_") or f"{default}_{text}".strip("_")


def columns_of(schema: pa.Schema, *, partitions: Sequence[str] = ()) -> tuple[FoundColumn, ...]:
    """The columns of an Arrow schema, in Spark's words; a type that Spark has not keeps Arrow's name."""
    named = frozenset(partitions)
    return tuple(FoundColumn(name=f.name, type=type_of(f.type), partition=f.name in named) for f in schema)


def type_of(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type; Arrow's own where Spark has no such type.

    Example:
        >>> type_of(pa.int64()), type_of(pa.list_(pa.decimal128(10, 2))), type_of(pa.time64("us"))
        ('bigint', 'array<decimal(10,2)>', 'time64[us]')
    """
    from pyspark.errors import PySparkTypeError

    from kedro_lakehouse.session.arrow import spark_types, unread_by_spark

    schema = pa.schema([("value", kind)])
    if unread_by_spark(schema) is not None:
        return str(kind)
    try:
        return spark_types(schema)["value"].simpleString()
    except PySparkTypeError:
        return str(kind)
