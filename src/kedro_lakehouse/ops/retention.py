"""Which rows of ``lake.ops`` may go after a time: those that only tell what happened, and decide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.ops.store import ALERTS, BATCHES, MAINTENANCE, PUBLISHED, QUALITY_RESULTS, RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

TIMES: Final[Mapping[str, str]] = {
    BATCHES: "committed_at",
    RUNS: "ended_at",
    ALERTS: "told_at",
    QUALITY_RESULTS: "judged_at",
    MAINTENANCE: "maintained_at",
}
"""The tables that lose rows, with the column of the time that counts; ledger, decisions, schemas do not."""


def kept(table: str, rows: pa.Table, before: datetime) -> pa.Table:
    """The rows of a table without those that are older than a time and decide nothing.

    These older rows stay: of each target the last commit before that time, which the next one follows; the
    last state of each alert; the last validation of each suite, and all refused ones; the failures of tables
    that have not recovered.
    """
    time = rows[TIMES[table]]
    newer = pc.greater_equal(time, pa.scalar(before, time.type))
    if table == BATCHES:
        older = rows.filter(pc.invert(newer))
        return pa.concat_tables([rows.filter(newer), older.filter(_DECIDES[table](older))])
    return rows.filter(pc.or_(newer, _DECIDES[table](rows)))


def _last(time: str, *group: str) -> Callable[[pa.Table], pa.Array]:
    """Makes a function that says of each row whether none of its group is later."""

    def is_last(rows: pa.Table) -> pa.Array:
        times, groups = rows[time].to_pylist(), list(zip(*(rows[g].to_pylist() for g in group), strict=True))
        last: dict[tuple[object, ...], datetime] = {}
        for moment, key in zip(times, groups, strict=True):
            last[key] = max(moment, last.get(key, moment))
        return pa.array([moment == last[key] for moment, key in zip(times, groups, strict=True)])

    return is_last


def _of_failing_tables(rows: pa.Table) -> pa.Array:
    """Whether a run is one in which a table failed that has not recovered since, or the last one of all."""
    runs = rows.select(["env", "ended_at", "tables", "failed", "recovered"]).to_pylist()
    needed: dict[tuple[str, str], list[int]] = {}
    for number in sorted(range(len(runs)), key=lambda i: runs[i]["ended_at"]):
        run = runs[number]
        failed = [one["table"] for one in run["failed"] or ()]
        well = run["recovered"] if run["recovered"] is not None else run["tables"] or ()
        for table in set(well) - set(failed):
            needed.pop((run["env"], table), None)
        for table in failed:
            needed.setdefault((run["env"], table), []).append(number)
    numbers = {number for found in needed.values() for number in found}
    return pa.array([number in numbers for number in range(len(runs))])


def _refused_or_last(rows: pa.Table) -> pa.Array:
    """Whether a result is of a refused commit, or of the last validation of its suite."""
    refused = pc.not_equal(rows["stage"], PUBLISHED)
    return pc.or_(refused, _last("judged_at", "suite", "stage")(rows))


def _none(rows: pa.Table) -> pa.Array:
    return pa.array([False] * rows.num_rows)


_DECIDES: Final[Mapping[str, Callable[[pa.Table], pa.Array]]] = {
    BATCHES: _last("committed_at", "table", "stage"),
    RUNS: _of_failing_tables,
    ALERTS: _last("told_at", "notifier", "kind", "subject"),
    QUALITY_RESULTS: _refused_or_last,
    MAINTENANCE: _none,
}
