"""Raw records as readers give them: the input of decoders."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import Conversion, same_type
from kedro_lakehouse.changes.events import POSITION, RAW, column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

Load = Literal["full_load", "changes"]
FILE: Final = "__file"
MALFORMED_RECORD: Final = "__malformed"
FAILED: Final = "__failed"
BEFORE: Final = "__before"
CARRIED: Final = (POSITION, RAW, FILE, MALFORMED_RECORD)
"""Columns that a reader adds: a record's position, its text, its file, and whether it is malformed."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How a table's columns are made from its source's: chosen, renamed and typed.

    ``types`` has the type of every column that the table is to have, by the table's names, and of the
    ``carried`` columns, which order and time need but the table does not store. ``order`` is the type of
    ``_order`` that the table has already. ``base64``: bytes come as text in base64. A text equal to the
    ``unset_marker`` means that the value was not sent.
    """

    types: Mapping[str, T.DataType]
    rename: Mapping[str, str] = field(default_factory=dict)
    control: frozenset[str] = frozenset()
    date_format: str | None = None
    timestamp_format: str | None = None
    base64: bool = False
    carried: frozenset[str] = frozenset()
    order: T.StructType | None = None
    unset_marker: str | None = None

    def name_of(self, source: str) -> str:
        """The table's name for a source column."""
        return self.rename.get(source, source)

    def conversions(self, available: Mapping[str, T.DataType]) -> list[Conversion]:
        """The conversions of the columns that a group of records has."""
        return [
            self.conversion(s, k)
            for s, k in available.items()
            if s not in self.control and self.name_of(s) in self.types
        ]

    def conversion(self, source: str, kind: T.DataType) -> Conversion:
        """The conversion of one source column of this type."""
        wanted = self.types[self.name_of(source)]
        return Conversion(
            source=source,
            name=self.name_of(source),
            kind=wanted,
            same_type=same_type(kind, wanted),
            source_kind=kind,
            date_format=self.date_format,
            timestamp_format=self.timestamp_format,
            base64=self.base64,
            unset_marker=self.unset_marker,
        )


@dataclass(frozen=True, kw_only=True)
class RecordGroup:
    """Records of one shape: source columns + ``CARRIED``; ``facts`` are for the decoder's own use."""

    records: DataFrame
    load: Load
    columns: Mapping[str, T.DataType]
    files: Sequence[str]
    facts: Any = None


def place_order() -> Column:
    """The order of records that have no other: (file name, row number)."""
    place = column(POSITION)
    return F.struct(place["file"].alias("file_name"), place["row"].alias("row_number"))


def computed_once(frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
    """Add (or replace) columns that Spark computes once, however many later steps use them.

    Spark pushes a filter below a projection by copying the projection's expressions into the filter. So a
    filter on the reasons of events would parse every message once for each use of each of its columns.
    Spark does not push a filter below a generator (``explode``).
    """
    kept = [column(c) for c in frame.columns if c not in values]
    box = F.explode(F.array(F.struct(*[v.alias(n) for n, v in values.items()])))
    return frame.select(*kept, box.alias("__once")).select(
        *kept, *[column("__once")[n].alias(n) for n in values]
    )


def complete(frames: Sequence[DataFrame], layout: Columns) -> DataFrame:
    """Union the records of all groups and add, as nulls, the table's columns that none of them has."""
    union = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    missing = {c: F.lit(None).cast(t) for c, t in layout.types.items() if c not in union.columns}
    return union.withColumns(missing) if missing else union
