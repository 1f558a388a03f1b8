"""Read and write one Hudi table through Hudi's Spark data source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.digest import canonical_text
from kedro_lakehouse.changes.events import column, columns
from kedro_lakehouse.formats.hudi.timeline import PREFIX, STATE, HudiTimeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.names import TableName

RECORD_KEY: Final = "_record_key"
"""Hudi's record key: a text that is equal for two rows if and only if their identities are equal."""
DELETED: Final = "_hoodie_is_deleted"
_OWN: Final = "_hoodie_"
SORT: Final = "hoodie.clustering.plan.strategy.sort.columns"
SETTINGS: Final = "spark.hoodie."
"""Settings of spark.yml that start with this are write options of every table."""

_WRITE: Final = {
    # The plan has already decided which event wins, so the row that is committed last is the right one.
    "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.datasource.write.commitmeta.key.prefix": PREFIX,
    "hoodie.embed.timeline.server": "false",
}


class HudiTable:
    """A table at a path."""

    def __init__(
        self, session: SparkSession, name: TableName, path: str, settings: Mapping[str, str]
    ) -> None:
        """Store where the table is, and the environment's write options."""
        self.session, self.name, self.path, self._settings = session, name, path, settings

    def timeline(self) -> HudiTimeline:
        """The table's metadata, as it is now."""
        return HudiTimeline(self.session, self.path)

    def option(self, name: str, timeline: HudiTimeline) -> str | None:
        """A write option: the table's own, from its metadata; else the environment's."""
        return timeline.state["properties"].get(name) or self._settings.get(name)

    def read(self, **options: str) -> DataFrame:
        """The table's columns as a lazy frame, without those that Hudi adds."""
        frame = self.session.read.format("hudi").options(**options).load(self.path)
        return frame.select(*columns([c for c in frame.columns if is_shown(c)]))

    def identity(self) -> tuple[str, ...]:
        """The columns that the record keys are made of; none if Hudi itself gives each row a key."""
        return tuple(self.timeline().made()["identity"])

    @property
    def adding(self) -> str:
        """The write operation that can commit without any rows."""
        return "upsert" if self.identity() else "insert"

    def keyed(self, rows: DataFrame, schema: T.StructType, deleted: Column) -> DataFrame:
        """The rows with the columns of a schema (null if a row lacks one), a record key and a deletion mark.

        A table without record keys gets neither key nor mark.
        """
        there = set(rows.columns)
        parts = [
            (column(f.name) if f.name in there else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in schema.fields
            if is_shown(f.name)
        ]
        identity = self.identity()
        if not identity:
            return rows.select(*parts)
        kinds = {f.name: f.dataType for f in schema.fields}
        key = canonical_text([column(c) for c in identity], [kinds[c] for c in identity])
        return rows.select(key.alias(RECORD_KEY), *parts, deleted.alias(DELETED))

    def none(self, schema: T.StructType) -> DataFrame:
        """A frame of a schema without rows, as ``keyed`` returns it."""
        return self.keyed(self.session.createDataFrame([], schema), schema, F.lit(False))

    def write(
        self,
        rows: DataFrame,
        operation: str,
        *,
        carried: Mapping[str, str],
        state: Mapping[str, Any],
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Commit rows that have the table's columns.

        Args:
            rows: The result of ``keyed``.
            operation: Hudi's write operation: upsert, insert, bulk_insert, insert_overwrite_table.
            carried: Entries to store in the commit's metadata.
            state: The table's row count and properties after the commit, which are stored there too.
            more: Further write options of this commit.
        """
        parallelism = str(self.session.conf.get("spark.sql.shuffle.partitions"))
        properties = {k: v for k, v in state["properties"].items() if k.startswith("hoodie.")}
        options = {
            **{f"hoodie.{o}.shuffle.parallelism": parallelism for o in ("upsert", "insert", "bulkinsert")},
            # A load writes one file for each partition, not one for each task.
            "hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION_AND_SORT",
            "hoodie.table.name": self.name.table,
            "hoodie.datasource.write.operation": operation,
            **self._settings,
            **properties,
            **_WRITE,
            **carried,
            STATE: json.dumps(state, sort_keys=True),
            **(more or {}),
        }
        rows.write.format("hudi").options(**options).mode("append").save(self.path)


def is_shown(name: str) -> bool:
    """Whether a column of a Hudi table is the project's, not Hudi's."""
    return not name.startswith(_OWN) and name != RECORD_KEY
