"""Exclude the events of a batch that fail blocking expectations: a decision, recorded once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, OP, POSITION, UPSERT, all_of, column
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.plain import newest_extract
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.blocking import open_refusals
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.commits.excluded import accepted_events, event_digest, row_of_record, without
from kedro_lakehouse.commits.published import published
from kedro_lakehouse.commits.target import refold
from kedro_lakehouse.errors import BatchNotFoundError, NothingToWithdrawError
from kedro_lakehouse.ops.decisions import WITHDRAW, ExcludedEvent
from kedro_lakehouse.ops.store import DECISIONS
from kedro_lakehouse.quality.answers import OF_ROWS, failing_rows

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.lake_table import LakeTable


_FILE, _ROW, _DIGEST, _OTHER = "file", "row", "digest", "other"
_EXPECTATION, _BROUGHT = "expectation", "brought"

Search = Callable[["LakeTable", int], "dict[ExcludedEvent, str]"]
"""Finds the events of a batch behind failing rows, each with the expectation that it fails."""


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """What one decision excluded."""

    decision: str
    table: str
    batch: int
    withdrawn: int
    expectations: tuple[str, ...]


def blocked_batches(table: LakeTable) -> list[int]:
    """The batches with failing events that no decision has excluded yet; starts no JVM."""
    rows = table.ops.read(DECISIONS, of_table=str(table))
    decided = {(r["batch"], r["expectation"]): r["decided_at"] for r in rows}
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(
        {
            r["batch"]
            for r in open_refusals(table)
            if r["judged_at"] > decided.get((r["batch"], r["expectation"]), never)
        }
    )


def exclude(table: LakeTable, batch: int, *, search: Search | None = None) -> Exclusion:
    """Exclude the events of a batch that cause failing rows; the next run publishes the rest.

    The pending events are folded as the next commit would fold them, and the rows are validated. If the last
    event of a failing row belongs to the batch, it is excluded. Then the key's event before it counts, and
    its row is validated too. If rows share a value that must be unique, those that did not have it before the
    batch are excluded. Both halves of a key change are excluded together. If the batch failed an expectation
    of the whole table, the whole batch is excluded.

    Guarantees:
        One commit to ``lake.ops.decisions``. Targets that already contain the batch are refolded: now or, if
        this is killed or another run is faster, by the next run.

    Raises:
        BatchNotFoundError: The table has no such batch.
        NothingToWithdrawError: No event of the batch fails.
        CommitConflictError: Other writers changed the table again and again until the deadline.
    """
    withdrawn = runner.planned_again(
        table, ("ingestion",), lambda _: _decided(table, batch, search or (lambda *of: _Search(*of).run()))
    )
    for kind in table.targets:  # if this is killed, the next run does it
        state = table.state(kind)
        if state is not None and state.batch >= batch:
            refold(table, kind)
    return withdrawn


def _decided(table: LakeTable, batch: int, search: Search) -> Exclusion:
    """Find the events, and record the decision that excludes them."""
    lake, changes = table.format, table.changes
    change_log = lake.state(changes)
    last = change_log.batch if change_log else 0
    if not 1 <= batch <= last:
        raise BatchNotFoundError(table=table.name, batch=batch, last=last)
    with runner.lost_races(lake, {changes: change_log}):
        found = search(table, batch)
    if not found:
        raise NothingToWithdrawError(table=table.name, batch=batch, blocked_by=blocked_batches(table))
    decision, now = uuid.uuid4().hex[:12], datetime.now(UTC)
    facts: dict[str, Any] = {
        "decision": decision,
        "action": WITHDRAW,
        "table": str(table),
        "batch": batch,
        "run_id": table.run_id,
        "decided_at": now,
    }
    events = [{"file": w.file, "row": w.row, "digest": w.digest, "expectation": e} for w, e in found.items()]
    table.decisions.record([facts | event for event in events])
    return Exclusion(
        decision=decision,
        table=str(table),
        batch=batch,
        withdrawn=len(found),
        expectations=tuple(dict.fromkeys(found.values())),
    )


def _place() -> list[Column]:
    return [column(POSITION)["file"].alias(_FILE), row_of_record().alias(_ROW)]


class _Search:
    """Finds the events of a batch behind failing rows."""

    def __init__(self, table: LakeTable, batch: int) -> None:
        self._table, self._batch = table, batch
        self._contract = table.contract
        self._blocking = [e for e in table.config.expectations if e.severity == "block"]
        self._events = accepted_events(table)
        self._held = published(table)

    def run(self) -> dict[ExcludedEvent, str]:
        """The events, each with the first expectation that its row fails."""
        found: dict[ExcludedEvent, str] = {}
        # Without its last event, a key falls back to the event before it, which may fail too.
        while more := self._fail(without(self._events, list(found), self._table.config.keys)):
            found |= more
        if refused := self._refused_whole():
            found |= dict.fromkeys(self._files(), refused)
        return found

    def _fail(self, events: DataFrame) -> dict[ExcludedEvent, str]:
        """The events of the batch behind failing rows, and those of the same raw records; one job."""
        asked = [e for e in self._blocking if e.nature in OF_ROWS]
        if not asked:
            return {}
        with ExitStack() as cached:
            rows = cache(self._folded(events), cached)
            named = self._named(events)
            failing = reduce(DataFrame.unionByName, (self._failing(i, e, rows) for i, e in enumerate(asked)))
            hit = named.join(failing, [c for c in failing.columns if c in named.columns])
            beside = named.where(column(_ROW) >= 0).withColumnRenamed(_DIGEST, _OTHER)
            found_rows = hit.join(beside, [_FILE, _ROW], "left").collect()
        found: dict[ExcludedEvent, str] = {}
        for number, expectation in enumerate(asked):
            of_it = [r for r in found_rows if r[_EXPECTATION] == number]
            for row in [r for r in of_it if r[_BROUGHT]] or of_it:
                place = row[_FILE], None if row[_ROW] < 0 else row[_ROW]
                for digest in {row[_DIGEST], row[_DIGEST] if row[_OTHER] is None else row[_OTHER]}:
                    found.setdefault(ExcludedEvent(*place, digest), expectation.title)
        return found

    def _named(self, events: DataFrame) -> DataFrame:
        """The events of the batch, as a decision identifies them."""
        of_batch = events.where(column(BATCH) == self._batch)
        return of_batch.select(*_place(), event_digest(of_batch, self._table.config.keys).alias(_DIGEST))

    def _failing(self, number: int, expectation: ExpectationConfig, rows: DataFrame) -> DataFrame:
        """The last events of the rows that fail an expectation, and whether they brought the failure."""
        failing, brought = failing_rows(expectation, rows), F.lit(1)
        if expectation.nature == "unique" and self._held is not None and self._table.config.keys:
            # If rows share a unique value, those that had it before the batch are not to blame.
            names = list(dict.fromkeys((*self._table.config.keys, *expectation.columns)))
            held = self._held.rows.select(
                *[column(c).alias(f"__held{i}") for i, c in enumerate(names)], F.lit(1).alias("__had")
            )
            same = all_of(column(c).eqNullSafe(column(f"__held{i}")) for i, c in enumerate(names))
            failing, brought = failing.join(held, same, "left"), column("__had").isNull().cast("int")
        # Rows of a table without keys are the events themselves: only their positions identify them.
        place = _place() if POSITION in failing.columns else []
        return failing.select(
            *place,
            event_digest(failing, self._table.config.keys).alias(_DIGEST),
            F.lit(number).alias(_EXPECTATION),
            brought.alias(_BROUGHT),
        )

    def _refused_whole(self) -> str | None:
        """The expectation of the whole table that the batch failed; None if there is none."""
        whole = {e.title for e in self._blocking if e.nature not in OF_ROWS}
        refusals = [r for r in open_refusals(self._table) if r["batch"] == self._batch]
        return next((r["expectation"] for r in refusals if r["expectation"] in whole), None)

    def _folded(self, events: DataFrame) -> DataFrame:
        """The rows that the current table would have, with ``_order``."""
        if self._contract.write == "merge":
            return current_rows(events, self._contract)
        upserts = events.where(column(OP) == UPSERT)
        return newest_extract(upserts) if self._contract.write == "replace" else upserts

    def _files(self) -> list[ExcludedEvent]:
        """The whole batch: the files that its events come from."""
        of_batch = self._events.where(column(BATCH) == self._batch)
        rows = of_batch.select(column(POSITION)["file"].alias("file")).distinct().collect()
        return [ExcludedEvent(r["file"], None, None) for r in rows if r["file"] is not None]
