"""Sample rows, a sample bookmark and functions that read rows, for the table format contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.names import quote
from kedro_lakehouse.ops.report import CommitReport, now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.formats.base import TableFormat, TableState
    from kedro_lakehouse.names import TableName

COLUMNS: Final[Mapping[str, T.DataType]] = {
    "id": T.LongType(),
    "word": T.StringType(),
    "n": T.IntegerType(),
}
FIRST: Final = ((1, "one", 1), (2, "two", 2), (3, "three", 3))
"""The rows that the contract fills a table with."""
HOSTILE: Final = ("a b", "o'clock", "dot.ted", "back`tick", 'quo"te', "naïve ✓", "select", "(sum)=1;--")


def report(batch: int) -> CommitReport:
    """The bookmark of a commit."""
    return CommitReport(
        table="contract.table",
        stage="current",
        batch=batch,
        batches=1,
        content_hash=f"hash{batch}",
        run_id="contract",
        committed_at=now(),
        counts={"inserted": batch},
    )


def rows_of(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """A frame's rows, sorted."""
    chosen = frame.select(*map(quote, names)) if names else frame
    return sorted((tuple(row) for row in chosen.collect()), key=repr)


def frame_of(
    session: SparkSession, *rows: tuple[Any, ...], columns: Mapping[str, T.DataType] = COLUMNS
) -> DataFrame:
    """A frame of these rows."""
    schema = T.StructType([T.StructField(name, kind) for name, kind in columns.items()])
    return session.createDataFrame(list(rows), schema)


def state_of(made: TableFormat, table: TableName) -> TableState:
    """The state of a table that must exist."""
    found = made.state(table)
    assert found is not None
    return found


def spark_types(columns: Mapping[str, T.DataType]) -> dict[str, str]:
    """The types of columns as SQL names them, which say nothing about nulls."""
    return {name: kind.simpleString() for name, kind in columns.items()}
