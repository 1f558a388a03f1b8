"""Alert states (failure, staleness, quarantine), and which of them changed since they were last reported."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.monitoring import oldest_allowed
from kedro_lakehouse.monitoring.runs import failures
from kedro_lakehouse.notifiers.base import RUN, AlertState
from kedro_lakehouse.ops.failures import message_of
from kedro_lakehouse.ops.store import ALERTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import timedelta

    from kedro_lakehouse.monitoring.table_status import TableStatus
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.store import OpsStore

_RAISED: Final = "raised"
_CLEARED: Final = "cleared"


def crossings(states: Iterable[AlertState], last: Mapping[tuple[str, str], bool]) -> list[AlertState]:
    """Return the states that differ from the last recorded ones, in their order.

    What was never recorded counts as not raised.

    Args:
        states: The present states, at most one per kind and subject.
        last: Whether each (kind, subject) was raised when it was last recorded.
    """
    return [now for now in states if now.raised != last.get((now.kind, now.subject), False)]


def failure_states(error: BaseException | None, whole: Collection[str]) -> list[AlertState]:
    """The failure states of a run: raised for what failed, cleared for what ran without error.

    Cleared are the run itself and the tables of ``whole`` (every node of them ran) that did not fail; nothing
    is cleared where the run itself failed.
    """
    failed = failures(error)
    state = partial(AlertState, kind="failure")
    raised = [
        state(subject=s, raised=True, code=getattr(e, "code", type(e).__name__), message=message_of(e))
        for s, e in failed.items()
    ]
    well = [s for s in (RUN, *sorted(whole)) if s not in failed] if RUN not in failed else []
    return raised + [
        state(subject=s, raised=False, message="Every stage of it ran without error.") for s in well
    ]


def quarantine_states(reports: Sequence[CommitReport]) -> list[AlertState]:
    """Whether the batches that a run ingested held events that were quarantined, for each table."""
    found = []
    for table in sorted({r.table for r in reports if r.stage == "ingestion"}):
        of_table = [r for r in reports if (r.table, r.stage) == (table, "ingestion")]
        bad = [r for r in of_table if r.counts.get("quarantined")]
        count = sum(r.counts["quarantined"] for r in bad)
        batches = ", ".join(str(r.batch) for r in bad)
        code, message = "", "Every event of the newest batches was applied."
        if bad:
            aside = "Events that could not be applied and were set aside"
            code, message = "QUARANTINED", f"{aside}: {count:,}, of batch {batches}."
        batch = bad[0].batch if len(bad) == 1 else None
        state = partial(AlertState, kind="quarantine", subject=table, raised=bool(bad))
        found.append(state(code=code, message=message, batch=batch))
    return found


def staleness_states(
    statuses: Iterable[TableStatus], limits: Mapping[str, timedelta], now: datetime
) -> list[AlertState]:
    """Whether the last commit of each table that has one is older than its limit, if it has one."""
    found = []
    for one in statuses:
        limit = oldest_allowed(limits, one.table)
        if limit is None or one.last_commit is None:
            continue
        age = now - one.last_commit
        hours = f"{age.total_seconds() / 3600:,.1f} hours"
        at = one.last_commit.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
        code, message = "", f"The last commit was at {at}."
        if age > limit:
            code, message = "STALE", f"The last commit was {hours} ago, at {at}; it may be {limit} old."
        state = partial(AlertState, kind="staleness", subject=one.table, raised=age > limit)
        found.append(state(code=code, message=message))
    return found


def recorded_states(store: OpsStore) -> dict[str, dict[tuple[str, str], bool]]:
    """What was last reported to each notifier: by notifier, whether a (kind, subject) is raised."""
    known: dict[str, dict[tuple[str, str], bool]] = {}
    for row in sorted(store.read(ALERTS), key=lambda row: row["told_at"]):
        known.setdefault(row["notifier"], {})[row["kind"], row["subject"]] = row["state"] == _RAISED
    return known


def record_states(store: OpsStore, notifier: str, states: Sequence[AlertState], run_id: str) -> None:
    """Record the states that were reported to a notifier, in one commit; write nothing without states."""
    at = datetime.now(UTC)
    rows = [
        {
            "notifier": notifier,
            "kind": s.kind,
            "subject": s.subject,
            "state": _RAISED if s.raised else _CLEARED,
            "code": s.code,
            "message": s.message,
            "run_id": run_id,
            "told_at": at,
        }
        for s in states
    ]
    if rows:
        store.append(ALERTS, rows)
