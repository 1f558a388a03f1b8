"""Repair a table whose rows follow their references: look up again the events that a change concerns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, LOOKUP, OP, ORDER, UPSERT, all_of, column, columns
from kedro_lakehouse.changes.lookup import changed_keys, look_up, same_keys
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.ingest import STEP, IngestionCommit
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.session.observation import observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.changes.lookup import Lookup
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease


def repair(table: LakeTable) -> None:
    """Repair a table whose rows follow their references if one of these has changed since its last batch.

    The batch of a repair has no files. It names the references' new snapshots, and holds again, with other
    answers, the events whose answers differ. These are deleted from the batches that they came with, in the
    same commit. Current and history take them as they take late events: only their keys are folded again.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
    """
    if table.config.repairs_rows:
        planner = planner_of(table)
        runner.planned_again(table, (STEP,), lambda held: _repair(planner, held))


def _repair(planner: Planner, held: Lease) -> None:
    references, chain = planner.references, planner.chain(anew=True)
    now = references.snapshots()
    before = chain.last.references if chain.last else now
    if now is None or before is None or before == now:
        return
    planned = planner.ledger.plan(chain, (), {}, references=now, is_repair=True)
    enter_phase("planned", planner.table, STEP, planned.batch)
    token = planner.token(planned)
    IngestionCommit(planner.table, token, RepairedEvents(planner, token, before, now)).run(held)


class RepairedEvents:
    """The events of a change log whose answers of lookups differ between two states of the references."""

    def __init__(
        self, planner: Planner, token: BatchToken, before: Mapping[str, int], now: Mapping[str, int]
    ) -> None:
        """Take the snapshots of the references; nothing is read yet."""
        self._table, self._references, self._token = planner.table, planner.references, token
        self._before, self._now = before, now

    def columns(self) -> dict[str, T.DataType]:
        """The columns of the change log, those that come from references wide enough for new values."""
        state = self._table.state("changes")
        held = dict(state.columns) if state else {}
        return held | self._references.kinds(held)

    def rejected(self) -> Any:
        """None: the events were checked when they came."""
        return None

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: no landed file is read."""
        return contextlib.nullcontext()

    def write(self, stage: Stage, state: TableState) -> Staged:  # noqa: ARG002 - it is the newest
        """Stage the events with their new answers in place of those with the old ones.

        Events of one batch with the same key and order, of which one differs, are replaced together.
        """
        past = self._table.read("changes")
        lookups = self._answerable(past)
        if not lookups:
            return Staged(events_in=0, quarantined=0)
        identity = [*self._table.config.keys, ORDER, OP, BATCH]
        wrong = _differing(self._concerned(past, lookups), lookups).select(*columns(identity))
        wrong = wrong.distinct().localCheckpoint()
        if wrong.isEmpty():
            return Staged(events_in=0, quarantined=0)
        counted = Observation()
        fresh = look_up(past.join(wrong, identity, "left_semi"), lookups)
        fresh = fresh.withColumn(BATCH, F.lit(self._token.batch).cast("long"))
        rows = fresh.observe(counted, F.count(F.lit(1)).alias("n")).select(*columns(past.columns))
        stage.merge(wrong, rows, identity)
        applied = int(observed(counted).get("n", 0))
        return Staged(events_in=applied, quarantined=0, applied=applied, upserts=applied)

    def _answerable(self, past: DataFrame) -> list[Lookup]:
        """The lookups by columns that earlier events kept: one that was declared later answers new events."""
        if LOOKUP not in past.columns:
            return []
        kept = past.schema[LOOKUP].dataType.fieldNames()  # type: ignore[attr-defined]
        lookups = self._references.lookups(self._now, self.columns())
        return [one for one in lookups if set(one.on) <= set(kept) and set(one.kinds) <= set(past.columns)]

    def _concerned(self, past: DataFrame, lookups: Sequence[Lookup]) -> DataFrame:
        """The events whose rows of references have changed; of a reference without its old state, all."""
        events = past.where((column(OP) == UPSERT) & column(LOOKUP).isNotNull())
        if not self._references.holds(self._before):
            return events
        earlier = self._references.lookups(self._before, {})
        known = {(one.reference, *one.on, *one.columns): one for one in earlier}
        concerned = F.lit(False)
        for i, lookup in enumerate(lookups):
            old = known[lookup.reference, *lookup.on, *lookup.columns]
            changed = changed_keys(old, lookup, prefix=f"__{i}_")
            events = events.join(changed, same_keys(events, lookup, changed.columns), "left")
            concerned |= column(changed.columns[0]).isNotNull()
        return events.where(concerned).select(*columns(past.columns))


def _differing(events: DataFrame, lookups: Sequence[Lookup]) -> DataFrame:
    """The events that hold other answers than the lookups give now."""
    names = [name for lookup in lookups for name in lookup.columns.values()]
    held = {f"__held{i}": column(name) for i, name in enumerate(names)}
    again = look_up(events.withColumns(held), lookups)
    same = all_of(column(name).eqNullSafe(column(kept)) for kept, name in zip(held, names, strict=True))
    return again.where(~same)
