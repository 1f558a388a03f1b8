"""Plain files that become an Iceberg table: by copy, or in place; each set of new files is one commit."""

from __future__ import annotations

import dataclasses
import logging
from contextlib import ExitStack
from functools import reduce
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from kedro.io import AbstractDataset

from kedro_lakehouse.errors import (
    LandedFilesGoneError,
    UnreadableFileError,
    UnsupportedError,
)
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import CommitReport, now
from kedro_lakehouse.project import active_project
from kedro_lakehouse.sources.files import list_files, shapes
from kedro_lakehouse.sources.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.files import FileShape, LandedFile, Load
    from kedro_lakehouse.sources.ledger import PlannedFiles

logger = logging.getLogger(__name__)

STAGE = "convert"
"""Name of these commits in ``lake.ops.batches``, and of the lease."""


def convert(project: Project, name: TableName) -> None:
    """Add the files that a table lacks: those of planned batches above its bookmark, then new ones.

    Guarantees:
        Rows and bookmark in one commit: a run after a kill or a rollback adds each file once.

    Raises:
        LandedFilesGoneError: Files of a planned batch are gone or were replaced.
        UnreadableFileError: A file is not what it is declared to be; nothing of its batch was added.
    """
    config = project.conversions[name]
    with project.lease(name, STAGE):
        ledger = Ledger(project.ops, name, project.run_id)
        found = list_files(config.path, [config.pattern], table=name)
        state = project.format_of(name).state(name)
        if state is not None and state.is_held:
            logger.warning(
                "%s: held since its rollback; `kedro lakehouse rollback %s --release` lets it go on",
                name,
                name,
            )
            return
        applied = state.batch if state else 0
        pending = [planned for planned in ledger.planned() if planned.batch > applied]
        for planned in pending:
            if gone := [f.name for f in planned.files if f not in found]:
                raise LandedFilesGoneError(table=name, missing=gone, purpose="convert them")
            _Conversion(project, name, config, planned).run()
        if new := ledger.new(found):
            last = ledger.last.batch if ledger.last else 0
            _Conversion(project, name, config, ledger.plan(last + 1, new, {})).run()


class _Conversion:
    """One batch of files."""

    def __init__(
        self, project: Project, name: TableName, config: ConvertConfig, planned: PlannedFiles
    ) -> None:
        self._project, self._name, self._config, self._planned = project, name, config, planned
        self._format: Any = project.format_of(name)

    def run(self) -> None:
        """Add the files to the table in one commit."""
        from kedro_lakehouse.datasets.publish import acknowledge
        from kedro_lakehouse.formats.base import enter_phase

        begun = perf_counter()
        enter_phase("planned", self._name, STAGE, self._planned.batch)
        looked = self._look()
        rows = self._rows(looked)
        columns = {f.name: f.dataType for f in rows.schema.fields if not f.name.startswith("__")}
        state = self._ensure(columns)
        report = self._report(0)
        if self._config.mode == "in_place":
            report, snapshot = self._adopt(report)
        else:
            report, snapshot = self._copy(rows, list(columns), state)
        enter_phase("published", self._name, STAGE, self._planned.batch)
        acknowledge(self._project, report, snapshot, seconds=perf_counter() - begun)

    def _look(self) -> list[FileShape]:
        load: Load = "full_load"  # every file holds whole rows
        csv = self._config.csv
        return shapes(
            [(file, load) for file in self._planned.files],
            file_format=self._config.file_format, options={load: csv}, table=self._name,
            headers={load: csv.header is not False}, fallback={load: list(self._config.types)},
        )  # fmt: skip

    def _rows(self, looked: Sequence[FileShape]) -> DataFrame:
        """The files' rows with their types, and in ``__wrong`` whether a row cannot be read."""
        from pyspark.sql import functions as F

        from kedro_lakehouse.changes.events import cast_or_null, column
        from kedro_lakehouse.decoders.records import MALFORMED_RECORD
        from kedro_lakehouse.sources.read import read_groups

        headers: dict[Load, bool] = {"full_load": self._config.csv.header is not False}
        groups = read_groups(
            self._project.session, looked, file_format=self._config.file_format,
            options={"full_load": self._config.csv}, headers=headers,
        )  # fmt: skip
        if not groups:
            raise UnreadableFileError(
                table=self._name, file=self._planned.files[0].name, detail="no file of the batch has rows"
            )
        parts = []
        for group in groups:
            typed, wrong = [], column(MALFORMED_RECORD)
            for name in group.columns:
                kind = self._config.types.get(name)
                value = cast_or_null(name, kind) if kind else column(name)
                wrong = wrong | (column(name).isNotNull() & value.isNull())
                typed.append(value.alias(name))
            parts.append(group.records.select(*typed, wrong.alias("__wrong")))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts).withColumn(
            "__wrong", F.coalesce(column("__wrong"), F.lit(False))
        )

    def _ensure(self, columns: dict[str, Any]) -> TableState:
        from kedro_lakehouse.formats.base import Layout

        config = self._config
        state = self._format.state(self._name)
        if state is None:
            layout = Layout(
                partition_by=config.partition_by, sort_by=config.sort_by, properties=dict(config.properties)
            )
            self._format.create(self._name, columns, layout)
        else:
            self._format.evolve(self._name, columns, state)
        found: TableState = self._format.state(self._name)
        return found

    def _copy(
        self, rows: DataFrame, names: Sequence[str], state: TableState
    ) -> tuple[CommitReport, int | None]:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        from kedro_lakehouse.changes.events import column, columns
        from kedro_lakehouse.datasets.kept import keep
        from kedro_lakehouse.formats.base import enter_phase
        from kedro_lakehouse.session.observation import observed

        facts = (
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(column("__wrong"), 1)).alias("wrong"),
        )
        seen = Observation()
        with ExitStack() as kept, self._format.stage(self._name, state) as stage:
            # A write that sorts reads its rows twice, and would count them twice.
            stored = keep(rows, kept) if self._config.sort_by else None
            written = rows.observe(seen, *facts) if stored is None else stored
            stage.append(written.select(*columns(names)))
            found = observed(seen) if stored is None else stored.agg(*facts).collect()[0].asDict()
            stage.expect(state.rows + found.get("rows", 0))
            if wrong := found.get("wrong"):
                raise UnreadableFileError(
                    table=self._name, file=self._planned.files[0].name,
                    detail=f"{wrong} rows of its batch are malformed, or do not fit `types`",
                )  # fmt: skip
            enter_phase("staged", self._name, STAGE, self._planned.batch)
            report = self._report(found.get("rows", 0))
            return report, stage.publish(report)

    def _adopt(self, report: CommitReport) -> tuple[CommitReport, int | None]:
        """Make the files the table's own, with the bookmark, in one commit of its metadata; no job."""
        rows = sum(_rows_of(file) for file in self._planned.files)
        report = dataclasses.replace(report, counts={"inserted": rows})
        try:
            snapshot = self._format.adopt(self._name, [f.path for f in self._planned.files], report)
        except (ValueError, NotImplementedError) as error:
            raise UnsupportedError(
                what=f"The files of {self._name} cannot be adopted in place: {error}",
                remedy="Use `mode: copy` in convert.yml, then `kedro run --pipelines=convert`.",
            ) from error
        return report, snapshot

    def _report(self, rows: int) -> CommitReport:
        return CommitReport(
            table=str(self._name), stage=STAGE, batch=self._planned.batch, batches=1,
            content_hash=self._planned.content_hash, run_id=self._project.run_id,
            correlation_id=self._project.correlation_id, committed_at=now(), counts={"inserted": rows},
        )  # fmt: skip


def _rows_of(file: LandedFile) -> int:
    import fsspec
    import pyarrow.parquet as pq

    with fsspec.open(file.path, "rb") as handle:
        return int(pq.ParquetFile(handle).metadata.num_rows)


class ConvertedDataset(AbstractDataset[Any, Any]):
    """A table of convert.yml: loading gives its rows, saving the signal of the node adds new files.

    Example:
        In YAML::

            "{namespace}.{table}.converted":
              type: kedro_lakehouse.datasets.ConvertedDataset
              table: "{namespace}.{table}"
    """

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders
    role: ClassVar[str] = "converted"

    def __init__(self, *, table: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the name: no declaration is read, no session or catalog opened."""
        self._name, self.metadata = TableName.parse(table), metadata

    def load(self) -> DataFrame:
        """The table as a lazy frame."""
        frame: DataFrame = active_project().format_of(self._name).read(self._name)
        return frame

    def save(self, data: bool) -> None:  # noqa: FBT001 - a dataset's save has one positional argument
        """Add the files that the table lacks."""
        if data:
            convert(active_project(), self._name)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._name), "role": self.role}

    def _exists(self) -> bool:
        return active_project().format_of(self._name).state(self._name) is not None
