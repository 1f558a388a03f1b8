"""Health of the lake: where each table stands, its last batches, what was judged, what is quarantined."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import streamlit as st

from kedro_lakehouse.console.lake import opened_project
from kedro_lakehouse.monitoring.table_status import statuses_of
from kedro_lakehouse.ops.store import BATCHES, QUALITY_RESULTS, RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST: Final = 50
_BATCHES: Final = (
    "committed_at",
    "table",
    "stage",
    "batch",
    "events_in",
    "applied",
    "quarantined",
    "inserted",
    "updated",
    "deleted",
    "lag_seconds",
)
_RUNS: Final = ("started_at", "ended_at", "pipeline", "status", "run_id")
_QUALITY: Final = ("judged_at", "table", "expectation", "severity", "success", "elements", "unexpected")


def show() -> None:
    """The page."""
    st.title("Health of the lake")
    project = opened_project()
    found = statuses_of(project)
    numbers = st.columns(4)
    numbers[0].metric("tables", len(found))
    numbers[1].metric("behind", sum(one.lag > 0 for one in found))
    numbers[2].metric("quarantined events", sum(one.quarantined for one in found))
    numbers[3].metric("empty", sum(one.state == "empty" for one in found))
    st.dataframe([asdict(one) for one in found], hide_index=True, key="standing")
    quarantined = [{"table": one.table, "events": one.quarantined} for one in found if one.quarantined]
    if quarantined:
        st.subheader("Quarantine")
        st.bar_chart(quarantined, x="table", y="events", x_label="", horizontal=True)
    for heading, table, fields in (
        ("Last batches", BATCHES, _BATCHES),
        ("Quality", QUALITY_RESULTS, _QUALITY),
        ("Runs", RUNS, _RUNS),
    ):
        st.subheader(heading)
        _show_last(table, fields)


def _show_last(table: str, fields: Sequence[str]) -> None:
    rows = sorted(opened_project().ops.read(table), key=lambda row: str(row[fields[0]]), reverse=True)
    if not rows:
        st.caption("Nothing yet.")
        return
    st.dataframe([{name: row[name] for name in fields} for row in rows[:_LAST]], hide_index=True, key=table)
