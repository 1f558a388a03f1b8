"""Bring quarantined events back: those that the present rules accept are applied and leave the quarantine."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from pyspark import StorageLevel
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, POSITION, REASONS, column
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.ingest import STEP, IngestionCommit
from kedro_lakehouse.commits.target import bring_pending
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.changes import LandedChanges
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.operations.quarantined import match_records, records_at, released

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.ingestion.extracts import LandedExtracts
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.base import GivesChanges
    from kedro_lakehouse.sources.files import LandedFile
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


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How landed batches become checked events: what the nodes of the pipeline ``ingestion`` do."""

    changes: Callable[[LandedChanges, TableContract], DataFrame]
    extracts: Callable[[LandedExtracts, TableContract], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Checked events that may be applied, and the quarantined rows that they come from.

    Schema:
        doomed: ``_batch``, ``_position`` of quarantined rows.
    """

    events: DataFrame
    doomed: DataFrame


class Replay:
    """One replay of one table's quarantine."""

    def __init__(self, table: LakeTable, decoding: Decoding) -> None:
        """Keep what the replay is about."""
        self.table, self.decoding = table, decoding
        self.contract = table.contract
        self.quarantine = table.quarantine
        self._planner: Planner | None = None
        self._chain: Chain | None = None
        self._held: Lease | None = None
        if table.config.write != "merge":
            raise UnsupportedError(
                what=f"{table} has no keys: rows that come back could not be told from new ones.",
                remedy="Deliver the corrected records as a new file.",
            )
        if table.config.source is None:
            raise UnsupportedError(
                what=f"{table} is derived: it has no records of its own to bring back.",
                remedy="Bring back those of its inputs, then run `kedro run`.",
            )

    def run(self) -> Replayed:
        """Apply what is valid now, take it out of quarantine, and bring current and history up to it.

        Guarantees:
            Killed at any point, the next replay or run ends in the same tables: an event that was
            applied and is still quarantined comes again as a duplicate.

        Raises:
            UnsupportedError: A batch of the table is not finished.
            LandedFilesGoneError: A later extract, which the result depends on, is gone.
        """
        done = runner.planned_again(self.table, (STEP,), self._replay)
        bring_pending(self.table)
        return done

    @property
    def planner(self) -> Planner:
        """The table's planner, which reads the ledger as it is in this attempt."""
        assert self._planner is not None  # noqa: S101 - made when an attempt begins
        return self._planner

    @property
    def chain(self) -> Chain:
        """The batches that were published when this attempt began."""
        assert self._chain is not None  # noqa: S101 - read when an attempt begins
        return self._chain

    def _replay(self, held: Lease) -> Replayed:
        self._held, self._planner = held, planner_of(self.table)
        self._chain = self._planner.chain(anew=True)
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
        """Apply what is valid now of the quarantined records of files; the batch, and how many came back."""
        if self.planner.source.gives == "extracts":
            from kedro_lakehouse.operations.replay_extracts import ready_extracts

            return ready_extracts(self, files)
        return self._changes(files)

    def _files(self) -> tuple[dict[LandedFile, int], tuple[str, ...]]:
        """The files with quarantined records and their batches, and the names of those that are gone."""
        rows = self.held().select(BATCH, column(POSITION)["file"].alias("file")).distinct().collect()
        plans = {p.batch: p for p in self.chain.published}
        there = set(self.planner.source.files())
        files: dict[LandedFile, int] = {}
        missing: list[str] = []
        for batch, name in sorted((r[BATCH], r["file"] or "") for r in rows):
            known = [f for f in (plans[batch].files if batch in plans else ()) if f.name == name]
            files |= {f: batch for f in known if f in there}
            if not known or not set(known) <= there:
                missing.append(name)
        return files, tuple(dict.fromkeys(missing))

    def held(self, files: Mapping[LandedFile, int] | None = None) -> DataFrame:
        """The quarantined rows, of these files where they are given."""
        rows = self.table.read("quarantine")
        if files is None:
            return rows
        names: dict[int, list[str]] = {}
        for file, batch in files.items():
            names.setdefault(batch, []).append(file.name)
        of_these = [(column(BATCH) == b) & column(POSITION)["file"].isin(n) for b, n in names.items()]
        return rows.where(reduce(lambda a, b: a | b, of_these))

    def _changes(self, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
        """Decode exactly the quarantined records of files of changes again, and apply the valid ones."""
        planner, source = self.planner, cast("GivesChanges", self.planner.source)
        looked = planner.reader.look(list(files))
        groups = planner.reader.read(looked)
        if not groups:
            return None, 0
        found = match_records(groups, self.held(files)).persist(StorageLevel.MEMORY_AND_DISK)
        head = self.chain.published[-1]  # a stand-in: the batch is planned below
        landed = LandedChanges(
            planned=head,
            token=planner.token(head),
            decoder=load_decoder(source.decoder),
            groups=[dataclasses.replace(g, records=records_at(g.records, found)) for g in groups],
            layout=source.layout(),
            columns=planner.reader.columns(looked),
        )
        events = self.decoding.changes(landed, self.contract).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            valid = events.where(F.size(REASONS) == 0)
            verdict = events.groupBy(POSITION).agg((F.max(F.size(REASONS)) == 0).alias("ok"))
            return self.commit(list(files), Ready(events=valid, doomed=released(found, verdict)))
        finally:
            events.unpersist()
            found.unpersist()

    def commit(
        self,
        files: Sequence[LandedFile],
        ready: Ready,
        apply: Callable[[DataFrame, BatchToken], None] | None = None,
    ) -> tuple[BatchToken | None, int]:
        """Plan a batch, apply it, and take its rows out of quarantine; nothing where nothing is ready."""
        # Spark takes no delete by a frame that numbers lines as it reads them: this one keeps its rows only.
        doomed = ready.doomed.localCheckpoint()
        facts = doomed.agg(
            F.count(F.lit(1)).alias("n"), F.bit_xor(F.xxhash64(BATCH, POSITION)).alias("digest")
        ).collect()[0]
        if not facts["n"]:
            return None, 0
        token = self.plan(files, json.dumps([facts["n"], facts["digest"]]))
        events = token.stamp(ready.events)
        if apply is None:
            self.ingest(events, token)
        else:
            apply(events, token)
        self.release(doomed, token.batch)
        return token, int(facts["n"])

    def plan(self, files: Sequence[LandedFile], what: str) -> BatchToken:
        """Write the batch of what comes back into the ledger."""
        planned = self.planner.ledger.plan_replay(self.chain, files, what)
        enter_phase("planned", self.table, STEP, planned.batch)
        return self.planner.token(planned)

    def ingest(self, events: Any, token: BatchToken) -> None:
        """Commit what comes back as a batch of its own."""
        rows = engine_of(self.table).events(self.table, events, events, token)
        IngestionCommit(self.table, token, rows).run(self.held_lease)

    @property
    def held_lease(self) -> Lease:
        """The lease of this attempt."""
        assert self._held is not None  # noqa: S101 - taken when an attempt begins
        return self._held

    def release(self, doomed: Any, batch: int) -> None:
        """Take rows out of quarantine in one commit; its bookmark stays where it was."""
        runner.run(self.table, "quarantine", lambda: _Release(self.table, doomed, batch))

    def _told(
        self, token: BatchToken | None, replayed: int = 0, *, missing: tuple[str, ...] = ()
    ) -> Replayed:
        state = self.table.state("quarantine")
        # Another run may have published the same plan, or this one before it lost the answer: no report then.
        planned = token.content_hash if token else None
        counts = next((r.counts for r in self.table.environment.reports if r.content_hash == planned), {})
        return Replayed(
            table=str(self.table), batch=token.batch if token else None, replayed=replayed,
            applied=counts.get("applied", 0), duplicates=counts.get("duplicates", 0),
            left=state.rows if state else 0, missing=missing,
        )  # fmt: skip


class _Release(runner.Change):
    """Takes rows out of quarantine."""

    def __init__(self, table: LakeTable, doomed: Any, batch: int) -> None:
        super().__init__(table, table.quarantine, step="quarantine")
        self._doomed, self._batch = doomed, batch

    @property
    def batch(self) -> int:
        return self._batch

    def is_done(self, state: TableState | None) -> bool:
        return state is None or state.bookmark is None

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        stage.merge(self._doomed, None, (BATCH, POSITION))
        assert state.bookmark is not None  # noqa: S101 - asked for before
        return state.bookmark
