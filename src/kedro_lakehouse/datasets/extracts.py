"""Plan extracts: many of them in one batch, each judged before it counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.current import current_rows
from kedro_lakehouse.changes.events import ORDER, TIME, column, columns, value_columns
from kedro_lakehouse.changes.extract import EXTRACT, ORDER_TYPE, count_extracts
from kedro_lakehouse.decoders.extract import decode_extracts
from kedro_lakehouse.decoders.records import FILE
from kedro_lakehouse.errors import (
    LakehouseError,
    RefusedExtractsError,
    SnapshotDeletesTooManyError,
    SnapshotEmptyError,
    SnapshotOutOfOrderError,
)
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.sources.files import LandedFile, bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.datasets.landing import Planner
    from kedro_lakehouse.datasets.token import BatchToken
    from kedro_lakehouse.decoders.records import Columns
    from kedro_lakehouse.sources.extract import ExtractOrder
    from kedro_lakehouse.sources.ledger import PlannedFiles

_JUDGED_FROM: Final = 100
"""Below so many rows in scope, the fraction of deletes says nothing."""


@dataclass(frozen=True, kw_only=True)
class LandedExtracts:
    """A planned batch of accepted extracts: their checked rows, and the rows that stood before."""

    token: BatchToken
    rows: DataFrame
    state: DataFrame | None
    extracts: DataFrame


class ExtractBatches:
    """Plans the batches of a table that is fed by extracts."""

    def __init__(self, planner: Planner, contract: TableContract, table: TableConfig) -> None:
        """Keep what planning needs."""
        self._planner, self._contract, self._table = planner, contract, table
        self._refused: list[LakehouseError] = []

    def batches(self) -> Iterator[LandedExtracts]:
        """Give out the batch that a dead run left, then new ones; name the refused extracts at the end."""
        unfinished = self._planner.unfinished()
        if unfinished is not None:
            accepted = [f for f in unfinished.files if f not in unfinished.refused]
            yield from self._given(unfinished, self._rows(accepted), accepted)
        config = self._planner.project.source(self._planner.name)
        for files in bounded(self._in_order(), config.max_files, config.max_bytes):
            yield from self._judged(files)
        if self._refused:
            raise RefusedExtractsError(table=self._planner.name, errors=self._refused)

    def _order(self, file: LandedFile) -> ExtractOrder:
        return self._planner.source.order_of(file)  # type: ignore[attr-defined, no-any-return]

    def _in_order(self) -> list[LandedFile]:
        """New files later than the last accepted extract; earlier ones are refused once and for all."""
        ledger = self._planner.ledger
        new = ledger.new(self._planner.source.files())
        accepted = ledger.accepted()
        if not accepted:
            return new
        last = max(accepted, key=self._order)
        late = [f for f in new if self._order(f) <= self._order(last)]
        delivered = {(f.name, f.size) for f in accepted}
        for file in late:
            if (file.name, file.size) not in delivered:
                self._refused.append(
                    SnapshotOutOfOrderError(table=self._planner.name, extract=file.name, last=last.name)
                )
        if late:
            ledger.refuse(dict.fromkeys(late, SnapshotOutOfOrderError.code))
        return [f for f in new if f not in late]

    def _judged(self, files: Sequence[LandedFile]) -> Iterator[LandedExtracts]:
        planner = self._planner
        rows = self._rows(files)
        try:
            accepted, refused, unchanged = self._judge(rows, files)
            self._refused += refused.values()
            if not accepted:
                return
            newest = self._order(accepted[-1])
            superseded = {f: e.code for f, e in refused.items() if self._order(f) < newest}
            planned = planner.ledger.plan(planner.next_batch(), [*accepted, *superseded], superseded)
            enter_phase("planned", planner.name, "ingestion", planned.batch)
            yield from self._given(planned, rows, accepted, files, unchanged)
        finally:
            rows.unpersist()

    def _given(
        self, planned: PlannedFiles, rows: DataFrame, accepted: Sequence[LandedFile],
        numbered: Sequence[LandedFile] | None = None, unchanged: int | None = None,
    ) -> Iterator[LandedExtracts]:  # fmt: skip
        if numbered is not None and len(accepted) < len(numbered):
            renumber = {numbered.index(f) + 1: i for i, f in enumerate(accepted, start=1)}
            number = reduce(
                lambda c, p: c.when(column(EXTRACT) == p[0], p[1]), renumber.items(), F.when(F.lit(False), 0)
            )
            rows = rows.withColumn(EXTRACT, number).where(column(EXTRACT).isNotNull())
        yield LandedExtracts(
            token=self._planner.token(planned, unchanged),
            rows=rows,
            state=self._state(),
            extracts=self._timed(self._numbered(accepted).drop(FILE), planned),
        )

    def _timed(self, extracts: DataFrame, planned: PlannedFiles) -> DataFrame:
        """Let the versions of the first load start when the declaration says."""
        start = self._table.initial_valid_from
        if planned.batch > 1 or start == "event":
            return extracts
        first = F.lit("1970-01-01" if start == "epoch" else str(start)).cast("timestamp")
        return extracts.withColumn(TIME, F.when(column(EXTRACT) == 1, first).otherwise(column(TIME)))

    def _rows(self, files: Sequence[LandedFile]) -> DataFrame:
        """Checked rows of extracts, kept for the two passes that need them: judging and diffing."""
        planner = self._planner
        looked = planner.look(files)
        settled = planner.columns(looked)
        groups = planner.read(looked)
        if not groups:
            return self._none(settled)
        rows = decode_extracts(groups, self._numbered(files), settled, self._contract)
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    def _none(self, settled: Columns) -> DataFrame:
        schema = T.StructType([T.StructField(n, t) for n, t in settled.types.items()])
        keys = [T.StructField(k, T.StringType()) for k in self._contract.keys if k not in settled.types]
        position = T.StructType([T.StructField("file", T.StringType()), T.StructField("row", T.LongType())])
        more = [
            T.StructField(EXTRACT, T.IntegerType()), T.StructField("_position", position),
            T.StructField("_reasons", T.ArrayType(T.StringType())), T.StructField("_raw", T.StringType()),
        ]  # fmt: skip
        return self._planner.project.session.createDataFrame([], T.StructType([*schema.fields, *keys, *more]))

    def _numbered(self, files: Sequence[LandedFile]) -> DataFrame:
        """One row an extract: ``__file``, ``_extract``, ``_order``, ``_time``."""
        import pandas as pd

        facts = pd.DataFrame(
            [(f.name, i, *self._order(f)) for i, f in enumerate(files, start=1)],
            columns=[FILE, EXTRACT, "extract_time", "extract_name"],
        )
        frame = self._planner.project.session.createDataFrame(
            facts, f"{FILE} string, {EXTRACT} int, extract_time timestamp, extract_name string"
        )
        return frame.select(
            FILE, EXTRACT, F.struct("extract_time", "extract_name").cast(ORDER_TYPE).alias(ORDER),
            column("extract_time").alias(TIME),
        )  # fmt: skip

    def _state(self) -> DataFrame | None:
        """The rows that the record of changes folds to: the current table where it is up to date."""
        project, name = self._planner.project, self._planner.name
        changes = self._planner.state()
        if changes is None or changes.batch == 0:
            return None
        current = project.iceberg.state(name) if self._table.current else None
        if current is not None and current.batch == changes.batch:
            rows = project.iceberg.read(name)
        else:
            rows = current_rows(project.iceberg.read(name.with_suffix("changes")), self._contract)
        return rows.select(*columns(value_columns(rows)))

    def _judge(
        self, rows: DataFrame, files: Sequence[LandedFile]
    ) -> tuple[list[LandedFile], dict[LandedFile, LakehouseError], int]:
        """Judge each extract against the accepted one before it: one job, and one more for each refusal."""
        accepted = list(range(1, len(files) + 1))
        refused: dict[LandedFile, LakehouseError] = {}
        state = self._state()
        while True:
            found = count_extracts(rows, state, self._contract, accepted).collect()
            counts = {r[EXTRACT]: (r["keys"], r["lost"]) for r in found}
            bad = self._first_refused(counts, accepted, files)
            if bad is None:
                kept = [files[i - 1] for i in accepted]
                return kept, refused, sum(r["rows"] for r in found if r[EXTRACT] in accepted)
            number, error = bad
            refused[files[number - 1]] = error
            accepted.remove(number)

    def _first_refused(
        self, counts: dict[int, tuple[int, int]], accepted: Sequence[int], files: Sequence[LandedFile]
    ) -> tuple[int, LakehouseError] | None:
        before = counts.get(0, (0, 0))[0]
        limit = self._table.max_delete_fraction
        for number in accepted:
            keys, lost = counts.get(number, (0, 0))
            name = files[number - 1].name
            if keys == 0 and not self._table.allow_empty_extract:
                return number, SnapshotEmptyError(table=self._planner.name, extract=name)
            if keys > 0 and before >= _JUDGED_FROM and lost > limit * before:
                return number, SnapshotDeletesTooManyError(
                    table=self._planner.name, extract=name, deletes=lost, rows=before, limit=limit
                )
            before = keys
        return None
