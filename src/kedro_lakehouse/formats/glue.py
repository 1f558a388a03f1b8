"""Register Delta and Hudi tables in the Glue Data Catalog, where Athena and others find and read them."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.aws import client, code_of
from kedro_lakehouse.errors import AwsRefusedError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.names import TableName

Provider = Literal["delta", "hudi", "hudi_mor"]

_PARQUET: Final = (
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
# Input format, output format, serialiser. Engines read a Delta table by its own log, so its three are
# placeholders.
_CLASSES: Final[Mapping[Provider, tuple[str, str, str]]] = {
    "delta": (
        "org.apache.hadoop.mapred.SequenceFileInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
    "hudi": ("org.apache.hudi.hadoop.HoodieParquetInputFormat", *_PARQUET),
    "hudi_mor": ("org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat", *_PARQUET),
}
# Glue uses Hive's types. These types of Spark have another name in Hive, or do not exist there.
_HIVE: Final = {"timestamp_ntz": "timestamp", "timestamp_ltz": "timestamp", "void": "string"}


@dataclass(frozen=True, kw_only=True)
class GlueTable:
    """A table as it is to be registered in the catalog.

    Schema:
        columns: Spark's types by name, as ``DataType.simpleString`` writes them, in the table's order.
    """

    name: TableName
    provider: Provider
    columns: Mapping[str, str]
    location: str
    partition_by: Sequence[str] = ()
    parameters: Mapping[str, str] | None = None

    def table_input(self) -> dict[str, Any]:
        """The table as Glue's API takes it; Hudi's partition columns are listed apart from the others."""
        apart = set(self.partition_by) if self.provider != "delta" else set()
        reads, writes, serde = _CLASSES[self.provider]
        kind = "delta" if self.provider == "delta" else "hudi"
        kinds = {"table_type": kind.upper(), "spark.sql.sources.provider": kind, "classification": kind}
        columns = {name: hive_type(kind) for name, kind in self.columns.items()}
        return {
            "Name": self.name.table,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE", **kinds, **(self.parameters or {})},
            "PartitionKeys": _columns({name: columns[name] for name in self.partition_by if name in apart}),
            "StorageDescriptor": {
                "Columns": _columns({name: kind for name, kind in columns.items() if name not in apart}),
                "Location": self.location,
                "InputFormat": reads,
                "OutputFormat": writes,
                "SerdeInfo": {
                    "SerializationLibrary": serde,
                    "Parameters": {"path": self.location, "serialization.format": "1"},
                },
            },
        }


def hive_type(kind: str) -> str:
    """Translate a type of Spark into Hive's names of types, at any depth.

    Example:
        >>> hive_type("struct<a:timestamp_ntz,b:array<bigint>>")
        'struct<a:timestamp,b:array<bigint>>'
    """
    # A word before a colon is the name of a field and stays as it is.
    return re.sub(r"\b(?:" + "|".join(_HIVE) + r")\b(?!:)", lambda found: _HIVE[found[0]], kind)


def register_table(table: GlueTable) -> bool:
    """Register the table in the catalog as it is now; True if the catalog had to be changed.

    Guarantees:
        Idempotent: a table that is registered in just this form already gets no new version.

    Raises:
        UnsupportedError: An Iceberg table has the name.
        AwsRefusedError: Glue refuses the call.
    """
    from botocore.exceptions import ClientError

    glue = client("glue")
    try:
        return _register(glue, table)
    except ClientError as error:
        what = f"the table {table.name} of Glue's catalog"
        raise AwsRefusedError(what=what, reason=code_of(error)) from error


def _register(glue: Any, table: GlueTable) -> bool:
    wanted, space = table.table_input(), table.name.namespace
    try:
        found = glue.get_table(DatabaseName=space, Name=table.name.table)["Table"]
    except glue.exceptions.EntityNotFoundException:
        with suppress(glue.exceptions.AlreadyExistsException):
            glue.create_database(DatabaseInput={"Name": space})
        try:
            glue.create_table(DatabaseName=space, TableInput=wanted)
        except glue.exceptions.AlreadyExistsException:  # another run of the same table was faster
            glue.update_table(DatabaseName=space, TableInput=wanted)
        return True
    if found.get("Parameters", {}).get("table_type", "").upper() == "ICEBERG":
        raise UnsupportedError(
            what=f"The name {table.name} is an Iceberg table's in Glue's catalog.",
            remedy="Name this table otherwise, or `kedro lakehouse drop` the other one.",
        )
    if _same(wanted, found):
        return False
    glue.update_table(DatabaseName=space, TableInput=wanted)
    return True


def _same(wanted: Any, found: Any) -> bool:
    """Whether ``found`` has everything in ``wanted``; the catalog adds fields of its own."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_same(value, found.get(key)) for key, value in wanted.items())
    return bool(wanted == found) or (not wanted and not found)


def _columns(columns: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Name": name, "Type": kind} for name, kind in columns.items()]
