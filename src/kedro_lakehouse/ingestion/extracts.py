"""Plan batches of extracts: many in one batch, each checked by the guards before it is accepted."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import (
    BATCH,
    OP,
    ORDER,
    POSITION,
    RAW,
    REASONS,
    TIME,
    UPSERT,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.extract import (
    EXTRACT,
    ORDER_TYPE,
    START,
    VALID_FROM,
    events_of_extracts,
    past_ends_of,
    renumber_extracts,
    rows_as_events,
    starts_by_column,
)
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.guard_counts import (
    count_changes,
    count_doubled_keys,
    count_in_scope,
    count_rows,
)
from kedro_lakehouse.changes.snapshot_diff import rows_before, snapshot_diff
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.commits.excluded import accepted_events
from kedro_lakehouse.commits.marks import last_move
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.commits.rows import QUARANTINE_COLUMNS
from kedro_lakehouse.decoders.extract import decode_extracts
from kedro_lakehouse.decoders.records import FILE
from kedro_lakehouse.errors import (
    MissingColumnError,
    RefusedExtractError,
    RefusedExtractsError,
    SnapshotOutOfOrderError,
)
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.guards import add_untouched, counts_by_extract, first_refused
from kedro_lakehouse.ingestion.small_results import compare_result
from kedro_lakehouse.sources.files import LandedFile, bounded
from kedro_lakehouse.sources.read import number_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.guards import ExtractCounts
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.ingestion.small_results import ComparedResult
    from kedro_lakehouse.ingestion.touched_keys import KeyCut
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.base import GivesExtracts
    from kedro_lakehouse.sources.extract import ExtractOrder
    from kedro_lakehouse.sources.files import FileShape
    from kedro_lakehouse.sources.ledger import Chain
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LandedExtracts:
    """A planned batch of accepted extracts: their checked rows, and the snapshot diff as ``differences``.

    ``differences`` is None for a table without keys, ``past_ends`` if no version's start depends on it.
    """

    planned: PlannedFiles
    token: BatchToken
    rows: DataFrame
    differences: DataFrame | None
    extracts: DataFrame
    past_ends: DataFrame | None

    def events(self, contract: TableContract) -> DataFrame:
        """The events of the batch: what changes from one extract to the next, or without keys each row."""
        return self.token.stamp(self.unstamped(contract))

    def unstamped(self, contract: TableContract) -> DataFrame:
        """The events without their batch number."""
        if self.differences is None:
            return rows_as_events(self.rows, contract, extracts=self.extracts)
        return events_of_extracts(
            self.rows, self.differences, contract, extracts=self.extracts, past_ends=self.past_ends
        )


@dataclass(frozen=True, kw_only=True)
class LandedResult:
    """A planned batch of a derived table of which few keys were computed, and compared without Spark.

    ``large`` makes the events with Spark, where they cannot be committed otherwise.
    """

    planned: PlannedFiles
    token: BatchToken
    compared: ComparedResult
    log: TableState
    order: ExtractOrder
    large: Callable[[TableContract], DataFrame]

    def events(self, contract: TableContract) -> DataFrame:
        """The checked events of the batch, made when something is first done with them."""
        return self.token.stamp_later(lambda: self.large(contract), self)

    def checked_without_spark(self) -> pa.Table:
        """The checked events of the batch."""
        time, name = self.order
        return self.compared.events(self.log, batch=self.planned.batch, time=time, name=name)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """Extracts with their snapshot diff, as applied one after the other, and the counts of each."""

    files: Sequence[LandedFile]
    rows: DataFrame
    differences: DataFrame | None
    counts: dict[int, ExtractCounts]

    @property
    def has_doubled_keys(self) -> bool:
        """Whether rows must be set aside because their key is in their extract more than once."""
        return any(c.doubled for c in self.counts.values())

    @property
    def has_rejected_rows(self) -> bool:
        """Whether rows go to quarantine."""
        return any(c.landed > c.rows for c in self.counts.values())


@dataclass(frozen=True, kw_only=True)
class _SeenResult:
    """A derived result of which few keys were computed, and what it changes."""

    files: Sequence[LandedFile]
    compared: ComparedResult
    counts: dict[int, ExtractCounts]


def late_extracts(
    new: Sequence[LandedFile],
    accepted: Sequence[LandedFile],
    order: Callable[[LandedFile], ExtractOrder],
    name: TableName,
) -> tuple[list[LandedFile], dict[LandedFile, RefusedExtractError]]:
    """The new extracts that are not later than the last accepted one, and the error of each.

    A second copy of an accepted extract (same name and size) is refused without an error.
    """
    if not accepted:
        return [], {}
    last = max(accepted, key=order)
    late = [f for f in new if order(f) <= order(last)]
    delivered = {(f.name, f.size) for f in accepted}
    return late, {
        file: SnapshotOutOfOrderError(table=name, extract=file.name, last=last.name)
        for file in late
        if (file.name, file.size) not in delivered
    }


class ExtractBatches:
    """Plans the batches of a table that is fed by extracts."""

    def __init__(self, planner: Planner, source: GivesExtracts) -> None:
        """Take the planner and the source; nothing is read yet."""
        self._planner, self._order = planner, source.order_of
        self._table, self._contract = planner.table, planner.table.contract
        self._guards = planner.table.config.guards
        self._refused: dict[LandedFile, RefusedExtractError] = {}
        self._waiting: dict[LandedFile, str] = {}
        self._chain: Chain | None = None
        self._cached = ExitStack()
        self._cut: KeyCut | None = None
        self._cut_cached = ExitStack()

    def next_batch(self, chain: Chain) -> LandedExtracts | LandedResult | None:
        """The unfinished batch of a dead run, or the next new one; frames stay cached until ``release``."""
        self._chain = chain
        # What these guards have refused in an earlier run stays refused, without a look at its rows.
        self._waiting |= {r.file: r.code for guards, r in chain.waiting if guards == self._guards}
        unfinished = self._planner.unfinished(chain)
        if unfinished is not None:
            files = [f for f in unfinished.files if f not in unfinished.refused]
            return self._given(unfinished, self._look(files, chain))
        for files in bounded(self._in_order(chain), *self._planner.limits):
            given = self._guarded(files, chain)
            if given is not None:
                return given
            self.release()
        return None

    def _look(self, files: Sequence[LandedFile], chain: Chain) -> _Seen | _SeenResult:
        """Read extracts and compare them."""
        self._cut = self._planner.cut(files, chain, self._cut_cached)
        if self._cut is not None and (compared := self._compared(self._cut)) is not None:
            counts = {1: compared.counts}
            add_untouched(counts, before=self._cut.rows)
            return _SeenResult(files=files, compared=compared, counts=counts)
        return self._look_with_spark(files)

    def _compared(self, cut: KeyCut) -> ComparedResult | None:
        """What few rows of a derived result change, compared without Spark; None if Spark must do it."""
        reader, table = self._planner.reader, self._table
        if table.erased_subjects() is not None:  # Spark looks for their rows
            return None
        settled = reader.columns(reader.look([cut.file]))
        self._require(settled)
        return compare_result(table, cut, settled, most_rows=table.environment.small_batch)

    def _look_with_spark(self, files: Sequence[LandedFile]) -> _Seen:
        """Read extracts and compare them, each line that they have in common once where that is a gain.

        They are read again, line by line, if a row is rejected, whose line must be known; and once more,
        sorted, if an extract has a key twice.
        """
        looked = self._planner.reader.look(files)
        group = self._runs(looked)
        if group is not None:
            runs = cache(self._decoded(files, looked, [group], marked=False), self._cached)
            seen = self._see(runs, files)
            if not (seen.has_doubled_keys or seen.has_rejected_rows):
                return seen
            self._cached.close()
        seen = self._see(self.read(files, looked, self._cached, sorts=False), files)
        if seen.has_doubled_keys:
            self._cached.close()
            seen = self._see(self.read(files, looked, self._cached), files)
        return seen

    def _runs(self, looked: Sequence[FileShape]) -> RecordGroup | None:
        """Runs of equal lines; None where there are no files, or rows count or may be stale one by one."""
        contract = self._contract
        if self._table.config.derive is not None:
            return None
        if not contract.keys or contract.order_by or contract.updated_at:
            return None
        return self._planner.reader.read_runs(looked)

    def read(
        self,
        files: Sequence[LandedFile],
        looked: Sequence[FileShape],
        cached: ExitStack,
        *,
        sorts: bool = True,
    ) -> DataFrame:
        """Every row of extracts, checked and cached.

        If it ``sorts``, Spark sorts all rows: to number their lines, and to mark the keys that an extract has
        more than once. Only rejected rows need the numbers, and few extracts have such keys.
        """
        sorts = sorts or not self._contract.keys or bool(self._contract.order_by)
        groups = self._planner.reader.read(looked, numbered=sorts)
        return cache(self._decoded(files, looked, groups, marked=sorts), cached)

    def release(self) -> None:
        """Release the cached frames of the last batch."""
        self._cached.close()
        self._cut_cached.close()

    def forget_refusals(self) -> None:
        """Forget the refusals of guards, which were decided against another state of the table."""
        for file in self._waiting:
            self._refused.pop(file, None)
        self._waiting.clear()

    def end(self) -> None:
        """Record what guards refused, and raise one error for all extracts that this run refused.

        Raises:
            RefusedExtractsError: Extracts were refused; all others are done.
        """
        if self._chain is not None:
            # An extract before one that was accepted is refused for good: it is no longer new.
            waiting = [f for f in self._chain.new(self._waiting) if f in self._refused]
            reasons = {f: (self._refused[f].code, self._refused[f].reason) for f in waiting}
            self._planner.ledger.wait(self._chain, reasons, self._guards)
        if self._refused:
            raise RefusedExtractsError(table=self._table.name, errors=list(self._refused.values()))

    def _in_order(self, chain: Chain) -> list[LandedFile]:
        """The new files that are later than the last accepted extract; earlier ones are refused for good."""
        new = [f for f in chain.new(self._planner.listed()) if f not in self._waiting]
        late, refused = late_extracts(new, chain.accepted(), self._order, self._table.name)
        self._refused |= refused
        if late:
            self._planner.ledger.refuse(chain, dict.fromkeys(late, SnapshotOutOfOrderError.code))
        return [f for f in new if f not in late]

    def _guarded(self, files: Sequence[LandedFile], chain: Chain) -> LandedExtracts | LandedResult | None:
        """Check extracts with the guards; the accepted ones become a batch.

        It takes a job, another one for each refusal, and one more where an extract has a key twice.
        """
        planner = self._planner
        seen = self._look(files, chain)
        rows = seen.rows if isinstance(seen, _Seen) else None
        accepted, refused = list(files), dict[LandedFile, RefusedExtractError]()
        while accepted:
            bad = first_refused(seen.counts, [f.name for f in accepted], self._table.config, self._table.name)
            if bad is None:
                break
            refused[accepted.pop(bad[0] - 1)] = bad[1]
            if accepted and rows is not None:  # a derived result is one extract
                numbers = [files.index(f) + 1 for f in accepted]
                seen = self._see(renumber_extracts(rows, numbers), accepted)
        self._refused |= refused
        self._waiting |= {f: e.code for f, e in refused.items()}
        if not accepted:
            return None
        newest = self._order(accepted[-1])
        # A refused extract that is older than an accepted one can never be applied: it is refused for good.
        superseded = {f: c for f, c in self._waiting.items() if self._order(f) < newest}
        planned = planner.ledger.plan(chain, [*accepted, *superseded], superseded)
        enter_phase("planned", planner.table, "ingestion", planned.batch)
        return self._given(planned, seen)

    def _see(self, rows: DataFrame, files: Sequence[LandedFile]) -> _Seen:
        """Compute the snapshot diff of extracts, cache it for its two uses, and count it; one job."""
        contract = self._contract
        extracts = self._numbered(files)
        counted, differences = [count_rows(rows, contract)], None
        if contract.keys and not contract.order_by:
            counted.append(count_doubled_keys(rows, contract))
        if contract.keys:
            state = self._state()
            if self._cut is not None and state is not None:
                state = self._cut.rows_before(state)
            before = None if state is None else rows_before(state, rows, contract)
            differences = snapshot_diff(rows, before, contract, extracts=extracts, count=len(files))
            differences = cache(differences, self._cached)
            counted.append(count_changes(differences))
            if contract.hard_deletes != "ignore":
                counted.append(count_in_scope(rows, differences, before, contract, extracts))
        with reading_errors(self._table.name, rows):
            found = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), counted).collect()
        counts = counts_by_extract(found)
        if self._cut is not None:
            add_untouched(counts, before=self._cut.rows)
        return _Seen(files=files, rows=rows, differences=differences, counts=counts)

    def _given(self, planned: PlannedFiles, seen: _Seen | _SeenResult) -> LandedExtracts | LandedResult:
        if isinstance(seen, _Seen):
            return self._landed(planned, seen)
        log, changes = self._planner.state(), seen.compared.changes.num_rows
        assert log is not None  # noqa: S101 - it was compared with what is published

        def large(contract: TableContract) -> DataFrame:
            return self._landed(planned, self._look_with_spark(seen.files)).unstamped(contract)

        return LandedResult(
            planned=planned,
            token=self._planner.token(planned, seen.counts[1].rows, None, changes),
            compared=seen.compared,
            log=log,
            order=self._order(seen.files[0]),
            large=large,
        )

    def _landed(self, planned: PlannedFiles, seen: _Seen) -> LandedExtracts:
        valid = sum(c.rows for c in seen.counts.values())
        stale = sum(c.stale for c in seen.counts.values())
        events = sum(c.upserts + c.deletes if self._contract.keys else c.rows for c in seen.counts.values())
        counted = {"changed_without_newer_timestamp": stale} if self._contract.updated_at else None
        return LandedExtracts(
            planned=planned,
            token=self._planner.token(planned, valid if self._contract.keys else None, counted, events),
            rows=number_lines(seen.rows, seen.rows) if seen.has_rejected_rows else seen.rows,
            differences=seen.differences,
            extracts=self._timed(self._numbered(seen.files).drop(FILE), planned),
            past_ends=self._past_ends(),
        )

    def _timed(self, extracts: DataFrame, planned: PlannedFiles) -> DataFrame:
        """Set the start of the first load's versions to the declared ``initial_valid_from``."""
        start = self._table.config.initial_valid_from
        first = F.lit("1970-01-01" if start == "epoch" else str(start)).cast("timestamp")
        declared = planned.batch == 1 and start != "event"
        own = F.when(column(EXTRACT) == 1, first) if declared else F.lit(None).cast("timestamp")
        return extracts.withColumn(START, own)

    def _past_ends(self) -> DataFrame | None:
        """When each key was last deleted; reads only the delete partition of the change log."""
        if not starts_by_column(self._contract) or self._planner.state() is None:
            return None
        return past_ends_of(accepted_events(self._table), self._contract)

    def _decoded(
        self,
        files: Sequence[LandedFile],
        looked: Sequence[FileShape],
        groups: Sequence[RecordGroup],
        *,
        marked: bool,
    ) -> DataFrame:
        """The checked rows of records."""
        planner = self._planner
        settled = planner.reader.columns(looked)
        self._require(settled)
        if not groups:
            return self._none(settled)
        start = starts_by_column(self._contract)
        if start and not any(settled.name_of(c) == start for g in groups for c in g.columns):
            logger.warning("%s: no extract of the batch has the column %s", planner.table, start)
        erased = self._table.erased_subjects()
        return decode_extracts(
            groups, self._numbered(files), settled, self._contract, marked=marked, erased=erased
        )

    def _require(self, settled: Columns) -> None:
        """Refuse declared columns that neither the table nor the extracts have."""
        named = {"valid_from": [self._contract.updated_at], "delete_scope": self._contract.delete_scope}
        for place, wanted in named.items():
            if missing := [c for c in wanted if c and c not in settled.types]:
                raise MissingColumnError(
                    table=self._table.name, missing=missing, found=sorted(settled.types), place=place
                )

    def _none(self, settled: Columns) -> DataFrame:
        schema = T.StructType([T.StructField(n, t) for n, t in settled.types.items()])
        keys = [T.StructField(k, T.StringType()) for k in self._contract.keys if k not in settled.types]
        more = [
            T.StructField(EXTRACT, T.IntegerType()),
            *[T.StructField(name, QUARANTINE_COLUMNS[name]) for name in (POSITION, REASONS, RAW)],
            T.StructField(VALID_FROM, T.TimestampType()),
        ]
        return self._table.session.createDataFrame([], T.StructType([*schema.fields, *keys, *more]))

    def _numbered(self, files: Sequence[LandedFile]) -> DataFrame:
        """One row per extract: ``__file``, ``_extract``, ``_order``, ``_time``."""
        import pandas as pd

        facts = pd.DataFrame(
            [(f.name, i, *self._order(f)) for i, f in enumerate(files, start=1)],
            columns=[FILE, EXTRACT, "extract_time", "extract_name"],
        )
        frame = self._table.session.createDataFrame(
            facts, f"{FILE} string, {EXTRACT} int, extract_time timestamp, extract_name string"
        )
        return frame.select(
            FILE,
            EXTRACT,
            F.struct("extract_time", "extract_name").cast(ORDER_TYPE).alias(ORDER),
            column("extract_time").alias(TIME),
        )

    def _state(self) -> DataFrame | None:
        """The rows that the change log folds to: the current table plus the batches that it lacks."""
        table = self._table
        changes = self._planner.state()
        if changes is None or changes.batch == 0:
            return None
        current = table.state("current") if table.config.current else None
        if current is None or current.batch == 0 or last_move(current):  # it may lack rows, or has none yet
            return current_rows(accepted_events(table), self._contract)
        held = table.read("current")
        held = held.select(*columns(value_columns(held)), ORDER)
        if current.batch == changes.batch:
            return held
        events = accepted_events(table).where(column(BATCH) > current.batch)
        kinds = {f.name: f.dataType for f in events.schema.fields}
        stood = held.withColumns({OP: F.lit(UPSERT), TIME: F.lit(None).cast(kinds[TIME])})
        pending = events.select(*columns(value_columns(events)), OP, ORDER, TIME)
        return current_rows(stood.unionByName(pending, allowMissingColumns=True), self._contract)
