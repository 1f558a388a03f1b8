"""Replay quarantined events: apply those that the present rules accept, and delete them from quarantine."""

from __future__ import annotations

import dataclasses
import json
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable_row
from kedro_lakehouse.changes.conversion import same_type
from kedro_lakehouse.changes.events import (
    BATCH,
    EVENT_COLUMNS,
    OP,
    ORDER,
    POSITION,
    REASONS,
    TIME,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.extract import ORDER_TYPE, past_ends_of, starts_by_column
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.snapshot_diff import rows_before, snapshot_diff
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.excluded import accepted_events
from kedro_lakehouse.commits.ingest import STEP, IngestionCommit
from kedro_lakehouse.commits.marks import REFOLD, horizon_of
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.commits.target import bring_pending
from kedro_lakehouse.decoders.records import FILE
from kedro_lakehouse.errors import AuditFailedError, LandedFilesGoneError, UnsupportedError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.extracts import ExtractBatches, LandedExtracts
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.ingestion.record_rules import RecordRules
from kedro_lakehouse.names import quote
from kedro_lakehouse.operations.quarantined import match_records, records_at, released
from kedro_lakehouse.session.observation import observed
from kedro_lakehouse.sources.base import lies_in
from kedro_lakehouse.sources.plans import PlannedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.base import GivesChanges, GivesExtracts
    from kedro_lakehouse.sources.files import FileShape, LandedFile
    from kedro_lakehouse.sources.ledger import Chain


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a replay did: ``left`` events are still quarantined; ``missing`` files could not be read."""

    table: str
    batch: int | None
    replayed: int
    applied: int
    duplicates: int
    left: int
    missing: tuple[str, ...] = ()


class Replay:
    """One replay of one table's quarantine."""

    # Each attempt begins with these: the table's planner, with the ledger as it is then; the batches that are
    # published; the snapshots of references that events are looked up in; and the lease.
    planner: Planner
    chain: Chain
    references: Mapping[str, int]
    lease: Lease

    def __init__(self, table: LakeTable) -> None:
        """Refuse a table without keys and a derived table; nothing is read yet."""
        self.table, self.contract = table, table.contract
        if table.config.write != "merge":
            raise UnsupportedError(
                what=f"{table} has no keys: rows that come back could not be distinguished from new ones.",
                remedy="Deliver the corrected records as a new file.",
            )
        if table.config.source is None:
            raise UnsupportedError(
                what=f"{table} is derived: it has no records of its own to bring back.",
                remedy="Bring back those of its inputs, then run `kedro run`.",
            )

    def run(self) -> Replayed:
        """Apply the events that are valid now, delete them from quarantine, and update current and history.

        Guarantees:
            If this is killed at any point, the next replay or run ends in the same tables: an event that was
            applied and is still quarantined is read again as a duplicate.

        Raises:
            UnsupportedError: A planned batch of the table is not finished.
            LandedFilesGoneError: A later extract, on which the result depends, is gone.
        """
        done = runner.planned_again(self.table, (STEP,), self._replay)
        bring_pending(self.table)
        return done

    def _replay(self, held: Lease) -> Replayed:
        self.lease, self.planner = held, planner_of(self.table)
        self.chain = self.planner.chain(anew=True)
        self.references = self.planner.references_after(self.chain)
        if (unfinished := self.planner.unfinished(self.chain)) is not None:
            raise UnsupportedError(
                what=f"{self.table}: batch {unfinished.batch} is planned and not finished.",
                remedy="Run `kedro run` first.",
            )
        state = self.table.state("quarantine")
        if state is None or state.rows == 0:
            return self._told(None)
        files, missing = self._files()
        if not files:
            return self._told(None, missing=missing)
        return self._told(*self._apply(files), missing=missing)

    def _apply(self, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
        """Apply the quarantined records of files that are valid now; return the batch, and their number."""
        if self.planner.source.gives == "extracts":
            return ready_extracts(self, files)
        return self._changes(files)

    def widen(self, looked: Sequence[FileShape]) -> None:
        """Give the change log the wider types that were declared since, before a plan reads it.

        Spark refuses to run a plan that reads a table whose types have changed since it was made.
        """
        state = self.table.state("changes")
        if state is None:
            return
        wanted, held = self.planner.reader.columns(looked).types, state.columns
        wider = {c: kind for c, kind in wanted.items() if c in held and not same_type(held[c], kind)}
        if wider:
            self.table.format.evolve(self.table.changes, wider, state)

    def _files(self) -> tuple[dict[LandedFile, int], tuple[str, ...]]:
        """The files with quarantined records, each with its batch, and the names of files that are gone."""
        rows = self.held().select(BATCH, column(POSITION)["file"].alias("file")).distinct().collect()
        plans = {p.batch: p for p in self.chain.published}
        files: dict[LandedFile, int] = {}
        missing: list[str] = []
        for batch, name in sorted((r[BATCH], r["file"] or "") for r in rows):
            known = [f for f in (plans[batch].files if batch in plans else ()) if lies_in(name, f)]
            gone = self.planner.gone(known)
            files |= {f: batch for f in known if f.name not in gone}
            if not known or gone:
                missing.append(name)
        return files, tuple(dict.fromkeys(missing))

    def held(self, files: Mapping[LandedFile, int] | None = None) -> DataFrame:
        """The quarantined rows; with ``files``, only those of these files."""
        rows = self.table.read("quarantine")
        if files is None:
            return rows
        names: dict[int, list[str]] = {}
        for file, batch in files.items():
            names.setdefault(batch, []).append(file.name)
        place = column(POSITION)["file"]
        of_these = [
            (column(BATCH) == b) & (place.isin(n) | reduce(or_, [place.startswith(f"{one}:") for one in n]))
            for b, n in names.items()
        ]
        return rows.where(reduce(or_, of_these))

    def _changes(self, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
        """Decode the quarantined records of change files again, only those, and apply the valid ones."""
        planner, source = self.planner, cast("GivesChanges", self.planner.source)
        with ExitStack() as cached:
            cached.callback(planner.reader.release)
            looked = planner.reader.look(list(files))
            groups = planner.reader.read(looked)
            planner.reader.keep_schemas(min(files.values()))
            if not groups:
                return None, 0
            head = self.chain.published[-1]  # a placeholder: the batch is planned below
            numbered = source.gives == "ranges"
            found = cache(match_records(groups, self.held(files), numbered=numbered), cached)
            resolved = planner.reader.columns(looked)
            rules = RecordRules(
                decoder=source.decoder,
                layout=source.layout(),
                columns=resolved,
                lookups=planner.lookups(self.references, resolved),
                keeps_lookups=planner.references.repairs,
                erased=planner.table.erased_subjects(),
            )
            again = [dataclasses.replace(g, records=records_at(g.records, found)) for g in groups]
            events = cache(planner.token(head).stamp(rules.events(again, self.contract)), cached)
            valid = events.where(F.size(REASONS) == 0)
            verdict = events.groupBy(POSITION).agg((F.max(F.size(REASONS)) == 0).alias("ok"))
            return self.commit(list(files), valid, released(found, verdict))

    def commit(
        self,
        files: Sequence[LandedFile],
        events: DataFrame,
        rows_to_delete: DataFrame,
        apply: Callable[[DataFrame, BatchToken], None] | None = None,
    ) -> tuple[BatchToken | None, int]:
        """Plan a batch of valid events, apply it, and delete from quarantine the rows that they come from.

        Does nothing if there are no such rows.

        Schema:
            rows_to_delete: ``_batch``, ``_position`` of quarantined rows.
        """
        # Spark refuses a delete by a frame that numbers lines as it reads them: the checkpoint has rows only.
        rows_to_delete = rows_to_delete.localCheckpoint()
        facts = rows_to_delete.agg(
            F.count(F.lit(1)).alias("n"), F.bit_xor(F.xxhash64(BATCH, POSITION)).alias("digest")
        ).collect()[0]
        if not facts["n"]:
            return None, 0
        token = self.plan(files, json.dumps([facts["n"], facts["digest"]]))
        (apply or self.ingest)(token.stamp(events), token)
        self.release(rows_to_delete, token.batch)
        return token, int(facts["n"])

    def plan(self, files: Sequence[LandedFile], what: str) -> BatchToken:
        """Write the plan of the replayed batch to the ledger."""
        planned = self.planner.ledger.plan(self.chain, files, {}, replayed=what, references=self.references)
        enter_phase("planned", self.table, STEP, planned.batch)
        return self.planner.token(planned)

    def ingest(self, events: Any, token: BatchToken) -> None:
        """Commit the replayed events as a batch of their own."""
        rows = engine_of(self.table).events(self.table, events, events, token)
        IngestionCommit(self.table, token, rows).run(self.lease)

    def release(self, rows_to_delete: Any, batch: int) -> None:
        """Delete rows from quarantine in one commit; its bookmark stays as it is."""
        runner.run(self.table, {"quarantine": lambda: _Release(self.table, rows_to_delete, batch)})

    def _told(
        self, token: BatchToken | None, replayed: int = 0, *, missing: tuple[str, ...] = ()
    ) -> Replayed:
        state = self.table.state("quarantine")
        # There is no report if another run published the same plan, or if this run did and lost the answer.
        planned = token.content_hash if token else None
        counts = next((r.counts for r in self.table.environment.reports if r.content_hash == planned), {})
        return Replayed(
            table=str(self.table),
            batch=token.batch if token else None,
            replayed=replayed,
            applied=counts.get("applied", 0),
            duplicates=counts.get("duplicates", 0),
            left=state.rows if state else 0,
            missing=missing,
        )


class _Release(runner.Change):
    """Deletes rows from quarantine."""

    def __init__(self, table: LakeTable, rows_to_delete: Any, batch: int) -> None:
        super().__init__(table, table.quarantine, step="quarantine", batch=batch)
        self._rows_to_delete = rows_to_delete

    def is_done(self, state: TableState | None) -> bool:
        return state is None or state.bookmark is None

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        stage.merge(self._rows_to_delete, None, (BATCH, POSITION))
        assert state.bookmark is not None  # noqa: S101 - asked for before
        return state.bookmark


def ready_extracts(replay: Replay, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
    """Diff the affected keys again, from the first extract with a row to replay to the last accepted one.

    The new diff may contradict events of the change log, such as a delete of a key that was there after all.
    Those events are deleted from the change log in the commit that appends the new ones. Targets that had
    applied them are refolded.

    Raises:
        LandedFilesGoneError: An accepted extract after the first affected one is gone.
    """
    planner = replay.planner
    source = cast("GivesExtracts", planner.source)
    files = _reachable(replay, files)
    if not files:
        return None, 0
    accepted = sorted(set(replay.chain.accepted()), key=source.order_of)
    first = min(files, key=source.order_of)
    needed = accepted[accepted.index(first) :]
    there = set(source.files())
    if gone := [f.name for f in needed if f not in there]:
        raise LandedFilesGoneError(
            table=replay.table.name, missing=gone, purpose="tell what later extracts changed"
        )
    batches = ExtractBatches(planner, source)
    looked = planner.reader.look(list(files))
    replay.widen(looked)
    with ExitStack() as cached:
        rows = batches.read(needed, planner.reader.look(needed), cached)
        groups = planner.reader.read(looked)
        found = cache(match_records(groups, replay.held(files)), cached)
        sound = cache(_sound_rows(replay, rows, found), cached)
        keys = sound.select(*columns(replay.contract.keys)).distinct()
        order = None if first == accepted[0] else _order(source, first)
        landed = _landed(replay, batches, rows, keys, files=needed, order=order)
        return replay.commit(
            needed,
            landed.events(replay.contract).where(F.size(REASONS) == 0),
            released(found, sound.select(POSITION, F.lit(True).alias("ok"))),
            lambda valid, token: _apply(replay, valid, token, _held_since(replay, keys, order)),
        )


def _landed(  # noqa: PLR0913 - what is known of the affected keys
    replay: Replay,
    batches: ExtractBatches,
    rows: DataFrame,
    keys: DataFrame,
    *,
    files: Sequence[LandedFile],
    order: Column | None,
) -> LandedExtracts:
    """The snapshot diff of some keys, given the change log's events before the first extract."""
    contract, planner = replay.contract, replay.planner
    # All rows of an extract show which parts of the table it covers, not only those of these keys.
    chosen = rows if contract.delete_scope else _of(rows, keys)
    past, before, ends = None, None, None
    if order is not None:
        changes = accepted_events(replay.table)
        past = changes if contract.delete_scope else _of(changes, keys)
        past = past.where(column(ORDER) < order)
        before = rows_before(current_rows(past, contract), chosen, contract)
        if starts_by_column(contract):
            ends = past_ends_of(past, contract)
    numbered = batches._numbered(files)  # noqa: SLF001
    differences = snapshot_diff(chosen, before, contract, extracts=numbered, count=len(files))
    first = PlannedFiles(1 if order is None else 2, (), "")
    head = replay.chain.published[-1]  # a placeholder until the batch is planned
    return LandedExtracts(
        planned=head,
        token=planner.token(head),
        rows=_of(rows, keys),
        differences=_of(differences, keys),
        extracts=batches._timed(numbered.drop(FILE), first),  # noqa: SLF001
        past_ends=ends,
    )


def _reachable(replay: Replay, files: Mapping[LandedFile, int]) -> dict[LandedFile, int]:
    """The files that are later than the horizon up to which the change log is compacted."""
    horizon = horizon_of(replay.planner.state())
    if horizon is None:
        return dict(files)
    limit = horizon if horizon.tzinfo else horizon.replace(tzinfo=UTC)
    source = cast("GivesExtracts", replay.planner.source)
    return {f: batch for f, batch in files.items() if source.order_of(f)[0] > limit}


def _sound_rows(replay: Replay, rows: DataFrame, found: DataFrame) -> DataFrame:
    """The rows that can be replayed.

    If a row that was accepted before would be refused now, its key is left alone: its accepted events stay in
    the change log, and its quarantined rows in quarantine.
    """
    keys, valid = list(replay.contract.keys), F.size(REASONS) == 0
    at = found.select(POSITION).distinct()
    quarantined = at.union(replay.held().select(POSITION)).distinct()
    spoiled = rows.where(~valid).join(quarantined, POSITION, "left_anti").select(*columns(keys)).distinct()
    back = rows.where(valid).join(at, POSITION, "left_semi")
    return back.join(spoiled, keys, "left_anti").select(POSITION, *columns(keys))


def _order(source: GivesExtracts, extract: LandedFile) -> Column:
    time, name = source.order_of(extract)
    fields = [F.lit(v).alias(f) for v, f in zip((time, name), ORDER_TYPE.fieldNames(), strict=True)]
    return F.struct(*fields).cast(ORDER_TYPE)


def _of(rows: DataFrame, keys: DataFrame) -> DataFrame:
    return rows.join(keys, keys.columns, "left_semi").select(*columns(rows.columns))


def _held_since(replay: Replay, keys: DataFrame, order: Column | None) -> DataFrame:
    """The events of these keys in the change log from ``order`` on; without an ``order``, all of them."""
    past = _of(replay.table.read("changes"), keys)
    return past if order is None else past.where(column(ORDER) >= order)


def _apply(replay: Replay, events: DataFrame, token: BatchToken, held: DataFrame) -> None:
    """Commit events; those of the change log that they contradict are deleted in the same commit."""
    values = [c for c in value_columns(held) if c in events.columns and c not in replay.contract.keys]
    fact = (ORDER, OP, TIME, *values)
    kinds = {f.name: f.dataType for f in events.schema.fields}
    held = held.withColumns({c: column(c).cast(kinds[c]) for c in values})  # a type may be wider now
    # Spark refuses a delete by a frame that numbers lines as it reads them: the checkpoint has rows only.
    wrong = _without(held, events, replay.contract.keys, fact).localCheckpoint()
    if wrong.isEmpty():
        replay.ingest(events, token)
        return
    fresh = _without(events, held, replay.contract.keys, fact)
    with reading_errors(replay.table.name, fresh):
        runner.attempt([_Correction(replay, token, events, fresh, wrong)], replay.lease)


def _without(rows: DataFrame, others: DataFrame, keys: Sequence[str], fact: Sequence[str]) -> DataFrame:
    """The rows that have no equal in ``others``: none with the same key and the same facts."""
    left = rows.withColumn("__fact", comparable_row(rows, fact)).alias("a")
    right = others.select(*columns(keys), comparable_row(others, fact).alias("__fact")).alias("b")
    alike = F.col("a.__fact").eqNullSafe(F.col("b.__fact"))
    for key in keys:
        alike &= F.col(quote("a", key)) == F.col(quote("b", key))
    return left.join(right, alike, "left_anti").drop("__fact")


class _Correction(IngestionCommit):
    """Appends events to the change log and deletes others, in one commit; targets are refolded after it."""

    def __init__(
        self, replay: Replay, token: BatchToken, events: DataFrame, fresh: DataFrame, wrong: DataFrame
    ) -> None:
        rows = engine_of(replay.table).events(replay.table, events, events, token)
        super().__init__(replay.table, token, rows)
        self._fresh, self._wrong = fresh, wrong
        self._identity = (*replay.contract.keys, ORDER, OP, BATCH)

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        if state is None:
            check = "the change log is there"
            raise AuditFailedError(
                table=self.target, batch=self.batch, check=check, expected="a table", found="none"
            )
        return super().columns(state)

    def write(self, stage: Stage, _: TableState) -> CommitReport:
        new = Observation()
        wanted = [*EVENT_COLUMNS, *value_columns(self._fresh)]
        rows = self._fresh.observe(new, F.count(F.lit(1)).alias("n")).select(*columns(wanted))
        stage.merge(self._wrong.select(*columns(self._identity)), rows, self._identity)
        applied = int(observed(new).get("n", 0))
        return self.report(Staged(events_in=applied, applied=applied, quarantined=0))

    def audit(self, stage: Stage, state: TableState) -> None:
        """Do nothing: the replayed events were checked when they were read."""

    def properties(self, _: TableState) -> Mapping[str, str]:
        return {REFOLD: str(self.batch)}
