"""Withdraw the events of a batch that fail blocking expectations: a decision, recorded once."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.current import current_rows
from kedro_lakehouse.changes.events import BATCH, OP, POSITION, UPSERT, column
from kedro_lakehouse.changes.plain import newest_extract
from kedro_lakehouse.datasets.blocking import open_refusals
from kedro_lakehouse.datasets.judged import published
from kedro_lakehouse.datasets.rebuild import declared_kinds
from kedro_lakehouse.datasets.refold import refold
from kedro_lakehouse.datasets.withdrawn import accepted_events, event_digest, row_of_record, without
from kedro_lakehouse.errors import BatchNotFoundError, NothingToWithdrawError
from kedro_lakehouse.ops.decisions import WITHDRAW, WithdrawnEvent
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.store import DECISIONS
from kedro_lakehouse.quality.answers import OF_ROWS, failing_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What one decision withdrew."""

    decision: str
    table: str
    batch: int
    withdrawn: int
    expectations: tuple[str, ...]


def blocked_batches(project: Project, name: TableName) -> list[int]:
    """The batches with failing events that no decision withdrew yet; starts no JVM."""
    rows = project.ops.read(DECISIONS, of_table=str(name))
    decided = {(r["batch"], r["expectation"]): r["decided_at"] for r in rows}
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(
        {
            r["batch"]
            for r in open_refusals(project, name)
            if r["judged_at"] > decided.get((r["batch"], r["expectation"]), never)
        }
    )


def withdraw(project: Project, name: TableName, batch: int) -> Withdrawal:
    """Withdraw the events of a batch that stand behind rows which fail; the next run publishes the rest.

    The pending events are folded as the next commit would fold them, and judged. Of each failing row the
    last event is withdrawn if it is the batch's; then the key's event before it counts, and is judged too.
    Where rows share a value that must be unique, those go that did not have it before the batch.
    Both halves of a key change go together. An expectation of the whole table blames the whole batch.

    Guarantees:
        One commit of ``lake.ops.decisions``. Targets that hold the batch already are folded again.

    Raises:
        BatchNotFoundError: The table has no such batch.
        NothingToWithdrawError: No event of the batch fails.
    """
    with lease(project.leases, name, "ingestion"):
        record = project.iceberg.state(name.with_suffix("changes"))
        last = record.batch if record else 0
        if not 1 <= batch <= last:
            raise BatchNotFoundError(table=name, batch=batch, last=last)
        found = _Search(project, name, batch).run()
        if not found:
            raise NothingToWithdrawError(table=name, batch=batch, blocked_by=blocked_batches(project, name))
        decision, now = uuid.uuid4().hex[:12], datetime.now(UTC)
        facts: dict[str, Any] = {
            "decision": decision, "action": WITHDRAW, "table": str(name), "batch": batch,
            "run_id": project.run_id, "decided_at": now,
        }  # fmt: skip
        events = [
            {"file": w.file, "row": w.row, "digest": w.digest, "expectation": e} for w, e in found.items()
        ]
        project.decisions.record([facts | event for event in events])
        for kind in declared_kinds(project.table(name)):
            state = project.iceberg.state(name.with_suffix(kind))
            if state is not None and state.batch >= batch:
                refold(project, name, kind)
    return Withdrawal(
        decision=decision, table=str(name), batch=batch, withdrawn=len(found),
        expectations=tuple(dict.fromkeys(found.values())),
    )  # fmt: skip


class _Search:
    """Finds the events of a batch that stand behind failing rows."""

    def __init__(self, project: Project, name: TableName, batch: int) -> None:
        self._project, self._name, self._batch = project, name, batch
        self._table = project.table(name)
        self._contract = TableContract.of(name, self._table)
        self._blocking = [e for e in self._table.expectations if e.severity == "block"]
        self._events = accepted_events(project, name)
        self._held = published(project, name)

    def run(self) -> dict[WithdrawnEvent, str]:
        """The events, each with the first expectation that its row fails."""
        found: dict[WithdrawnEvent, str] = {}
        while more := self._fail(without(self._events, list(found), self._table.keys)):
            found |= more
        if refused := self._refused_whole():
            found |= dict.fromkeys(self._files(), refused)
        return found

    def _fail(self, events: DataFrame) -> dict[WithdrawnEvent, str]:
        rows = self._folded(events)
        found: dict[WithdrawnEvent, str] = {}
        for expectation in self._blocking:
            if expectation.nature not in OF_ROWS:
                continue
            failing = failing_rows(expectation, rows)
            behind = self._behind(self._that_brought(expectation, failing), events)
            for event in behind or self._behind(failing, events):
                found.setdefault(event, expectation.title)
        return found

    def _that_brought(self, expectation: ExpectationConfig, failing: DataFrame) -> DataFrame:
        """Of rows that share values those that did not have them before: the others are in their right."""
        if expectation.nature != "unique" or self._held is None or not self._table.keys:
            return failing
        names = [*self._table.keys, *(c for c in expectation.columns if c not in self._table.keys)]
        held = self._held.rows.select(*[column(c).alias(f"__held{i}") for i, c in enumerate(names)])
        same = F.lit(True)
        for i, name in enumerate(names):
            same &= column(name).eqNullSafe(column(f"__held{i}"))
        return failing.join(held, same, "left_anti")

    def _refused_whole(self) -> str | None:
        """An expectation of the whole table for which the batch was refused."""
        whole = {e.title for e in self._blocking if e.nature not in OF_ROWS}
        told = [r for r in open_refusals(self._project, self._name) if r["batch"] == self._batch]
        return next((r["expectation"] for r in told if r["expectation"] in whole), None)

    def _folded(self, events: DataFrame) -> DataFrame:
        """The rows that the current table would have, with ``_order``."""
        if self._contract.write == "merge":
            return current_rows(events, self._contract)
        upserts = events.where(column(OP) == UPSERT)
        return newest_extract(upserts) if self._contract.write == "replace" else upserts

    def _behind(self, failing: DataFrame, events: DataFrame) -> list[WithdrawnEvent]:
        """The events of the batch that made these rows, and those of the same source records."""
        keys = self._table.keys
        named = events.where(column(BATCH) == self._batch).select(
            column(POSITION)["file"].alias("file"), row_of_record().alias("row"),
            event_digest(events, keys).alias("digest"),
        )  # fmt: skip
        place = [column(POSITION)["file"].alias("file"), row_of_record().alias("row")]
        # Rows of a table without keys are events themselves, and only their places tell them apart.
        at = [*(place if POSITION in failing.columns else []), event_digest(failing, keys).alias("digest")]
        made = failing.select(*at).distinct()
        hit = named.join(made, made.columns, "left_semi").select(*named.columns)
        of_record = named.where(column("row") >= 0).join(
            hit.select("file", "row"), ["file", "row"], "left_semi"
        )
        rows = hit.unionByName(of_record.select(*hit.columns)).distinct().collect()
        return [WithdrawnEvent(r["file"], None if r["row"] < 0 else r["row"], r["digest"]) for r in rows]

    def _files(self) -> list[WithdrawnEvent]:
        """The batch as a whole: the files that its events are of."""
        of_batch = self._events.where(column(BATCH) == self._batch)
        rows = of_batch.select(column(POSITION)["file"].alias("file")).distinct().collect()
        return [WithdrawnEvent(r["file"], None, None) for r in rows if r["file"] is not None]
