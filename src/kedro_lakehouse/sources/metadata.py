"""What a stream tells of its records beside their values, read into columns of Arrow.

The columns travel inside ``_position``, which each decoder hands on as it is: see ``decoders.metadata``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.schema_registries.records import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import types as T

    from kedro_lakehouse.config.metadata import Fact, MetadataColumn
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.schema_registries.records import RecordReader
    from kedro_lakehouse.sources.records import Record


def _header(record: Record, name: str) -> bytes | None:
    found = [value for known, value in record.headers if known == name]
    return found[-1] if found else None


_FACTS: Final[Mapping[Fact, Callable[[Record, str], Any]]] = {
    "key": lambda record, _: record.key,
    "time": lambda record, _: None if record.time is None else record.time * 1000,
    "partition": lambda record, _: record.file.split(":")[1],
    "partition_number": lambda record, _: int(record.file.split(":")[1]),
    "offset": lambda record, _: record.row,
    "sequence_number": lambda record, _: record.file.split(":")[2],
    "header": _header,
}
_BYTES: Final = ("key", "header")


@dataclass(frozen=True)
class Metadata:
    """The declared columns of one table; ``binary`` are those that keep bytes as they were sent."""

    columns: tuple[MetadataColumn, ...] = ()
    binary: frozenset[str] = frozenset()

    @classmethod
    def of(cls, columns: Sequence[MetadataColumn], table: TableConfig) -> Metadata:
        """The columns of a source, by the types that a table declares for them."""
        declared = {one.name: table.types.get(table.rename.get(one.name, one.name), "") for one in columns}
        binary = {name for name, kind in declared.items() if kind.strip().lower() == "binary"}
        return cls(tuple(columns), frozenset(binary))

    def kinds(self) -> dict[str, T.DataType]:
        """Spark's types of the columns."""
        from pyspark.sql import types as T

        named: Mapping[str, T.DataType] = {
            "time": T.TimestampType(), "partition_number": T.IntegerType(), "offset": T.LongType(),
        }  # fmt: skip
        return {
            one.name: T.BinaryType() if one.name in self.binary else named.get(one.fact, T.StringType())
            for one in self.columns
        }

    def arrays(self, records: Sequence[Record], reader: RecordReader | None) -> pa.StructArray:
        """The columns of records; ``reader`` reads keys in Avro."""
        import pyarrow as pa

        kinds: Mapping[str, pa.DataType] = {
            "time": pa.timestamp("us", "UTC"), "partition_number": pa.int32(), "offset": pa.int64(),
        }  # fmt: skip
        found = []
        for one in self.columns:
            fact_of, kind = _FACTS[one.fact], kinds.get(one.fact, pa.string())
            values = [fact_of(record, one.header) for record in records]
            if one.name in self.binary:
                kind = pa.binary()
                values = [v.encode() if isinstance(v, str) else v for v in values]
            elif one.fact in _BYTES:
                as_text = reader.key if reader is not None and one.fact == "key" else plain_text
                values = list(map(as_text, values))
            found.append(pa.array(values, kind))
        return cast("pa.StructArray", pa.StructArray.from_arrays(found, [one.name for one in self.columns]))
