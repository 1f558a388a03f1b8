"""Convert plain files to an Iceberg table, by copy or in place; each set of new files is one commit."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import cast_or_null, column, columns
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.decoders.records import MALFORMED_RECORD
from kedro_lakehouse.errors import (
    CommitConflictError,
    LandedFilesGoneError,
    UnreadableFileError,
    UnsupportedError,
)
from kedro_lakehouse.formats.base import Layout, enter_phase
from kedro_lakehouse.session.observation import observed
from kedro_lakehouse.sources.base import LOADS
from kedro_lakehouse.sources.files import list_files, shapes
from kedro_lakehouse.sources.read import read_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.ledger import Chain, Ledger
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)

STAGE = "convert"
"""Name of these commits in ``lake.ops.batches``, and of their lease."""


def convert(table: LakeTable) -> None:
    """Add the files that a table lacks: first those of planned batches after its bookmark, then new ones.

    Guarantees:
        Rows and bookmark are published in one commit: a run after a kill or a rollback adds each file once.

    Raises:
        LandedFilesGoneError: Files of a planned batch are gone or were replaced.
        UnreadableFileError: A file does not match its declaration; nothing of its batch was added.
        CommitConflictError: Other writers won every race until the deadline.
    """
    runner.planned_again(table, (STAGE,), lambda held: _convert(table, held))


def _convert(table: LakeTable, held: Lease) -> None:
    config, ledger = table.conversion, table.open_ledger()
    assert config is not None  # noqa: S101 - only such tables are converted
    name = table.name
    found = list_files(config.path, [config.pattern], table=name)
    while True:
        state = table.format.state(name)
        if runner.is_on_hold(state, str(table), table):
            return
        planned = _planned(name, ledger, ledger.chain(state.bookmark if state else None), found)
        if planned is None:
            return
        enter_phase("planned", name, STAGE, planned.batch)
        conversion = _Adoption if config.mode == "in_place" else _Copy
        runner.attempt([conversion(table, config, planned)], held)


def _planned(
    name: TableName, ledger: Ledger, chain: Chain, found: Sequence[LandedFile]
) -> PlannedFiles | None:
    """The plan that is to be finished, else a new plan of the new files; None if nothing is to be done."""
    if chain.open:
        planned = min(chain.open, key=lambda p: (-len(p.files), p.content_hash))
        if gone := [f.name for f in planned.files if f not in found]:
            raise LandedFilesGoneError(table=name, missing=gone, purpose="convert them")
        return planned
    new = chain.new(found)
    return ledger.plan(chain, new, {}) if new else None


class _Conversion(runner.Change):
    """The commit of one batch of files."""

    def __init__(self, table: LakeTable, config: ConvertConfig, planned: PlannedFiles) -> None:
        super().__init__(table, table.name, step=STAGE, batch=planned.batch)
        self._config, self._planned = config, planned

    @property
    def layout(self) -> Layout:
        config = self._config
        return Layout(
            partition_by=config.partition_by, sort_by=config.sort_by, properties=dict(config.properties)
        )

    def is_done(self, state: TableState | None) -> bool:
        held = state.bookmark if state else None
        if (held.content_hash if held else "") != self._planned.follows:
            raise CommitConflictError(table=self.table.name, attempts=1)
        return False

    def columns(self, _: TableState | None) -> dict[str, T.DataType]:
        return {f.name: f.dataType for f in self._rows.schema.fields if not f.name.startswith("__")}

    @cached_property
    def _rows(self) -> DataFrame:
        """The files' rows with their types; ``__wrong`` is true for a row that cannot be read."""
        config, load = self._config, LOADS[0]  # every file contains whole rows
        options, headers = {load: config.csv}, {load: config.csv.header is not False}
        looked = shapes(
            [(file, load) for file in self._planned.files],
            file_format=config.file_format,
            options=options,
            table=self.table.name,
            headers=headers,
            fallback={load: list(config.types)},
        )
        groups = read_groups(
            self.table.session, looked, file_format=config.file_format, options=options, headers=headers
        )
        if not groups:
            raise self._unreadable("no file of the batch has rows")
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

    def _unreadable(self, detail: str) -> UnreadableFileError:
        return UnreadableFileError(table=self.table.name, file=self._planned.files[0].name, detail=detail)

    def _report(self, rows: int) -> CommitReport:
        return self.report_of(self._planned, counts={"inserted": rows})


class _Copy(_Conversion):
    """Appends the rows of a batch of files to the table."""

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        facts = (F.count(F.lit(1)).alias("rows"), F.count(F.when(column("__wrong"), 1)).alias("wrong"))
        names, seen = list(self.columns(state)), Observation()
        with ExitStack() as cached:
            # A write that sorts reads its rows twice, so an observation would count them twice.
            stored = cache(self._rows, cached) if self._config.sort_by else None
            written = self._rows.observe(seen, *facts) if stored is None else stored
            stage.append(written.select(*columns(names)))
            found = observed(seen) if stored is None else stored.agg(*facts).collect()[0].asDict()
        stage.expect(state.rows + found.get("rows", 0))
        if wrong := found.get("wrong"):
            raise self._unreadable(f"{wrong} rows of its batch are malformed, or do not fit `types`")
        return self._report(found.get("rows", 0))


class _Adoption(_Conversion):
    """Adds a batch of files to the table where they lie, with the bookmark, in one commit; starts no job."""

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        del stage, state
        return self._report(sum(_rows_of(file) for file in self._planned.files))

    def publish(self, _: Stage, report: CommitReport, state: TableState) -> int | None:
        lake: Any = self.format
        paths = [f.path for f in self._planned.files]
        try:
            snapshot: int | None = lake.adopt(self.table.name, paths, report, planned_on=state)
        except (ValueError, NotImplementedError) as error:
            raise UnsupportedError(
                what=f"The files of {self.table} cannot be adopted in place: {error}",
                remedy="Use `mode: copy` in convert.yml, then `kedro run --pipelines=convert`.",
            ) from error
        return snapshot


def _rows_of(file: LandedFile) -> int:
    import fsspec
    import pyarrow.parquet as pq

    with fsspec.open(file.path, "rb") as handle:
        return int(pq.ParquetFile(handle).metadata.num_rows)
