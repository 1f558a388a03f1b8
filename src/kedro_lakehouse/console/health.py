"""Health of the lake: where each table stands, its last batches, what was judged, what is quarantined."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import streamlit as st

from kedro_lakehouse.config.sources import StreamSourceConfig
from kedro_lakehouse.console.charts import show_bars
from kedro_lakehouse.console.grids import number, show_rows, time
from kedro_lakehouse.console.lake import opened_project
from kedro_lakehouse.errors import listed
from kedro_lakehouse.ingestion.landing import waiting_in_streams
from kedro_lakehouse.monitoring.table_status import statuses_of
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCHES, QUALITY_RESULTS, RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.console.grids import Titles
    from kedro_lakehouse.console.links import TablePages
    from kedro_lakehouse.monitoring.table_status import TableStatus
    from kedro_lakehouse.ops.table_summary import State
    from kedro_lakehouse.project import Project

_LAST: Final = 50
_URGENT: Final[tuple[State, ...]] = (
    "failing", "refused", "held", "stale", "waiting", "running", "fresh", "empty",
)  # fmt: skip
_TABLES: Final[Titles] = {
    "table": "Table",
    "words": "State",
    "rows": number("Rows"),
    "lag": number("Batches behind"),
    "last_commit": time("Last commit (UTC)"),
    "quarantined": number("Quarantined"),
    "reason": "Reason",
}
"""What fits a small screen; the page of a table shows the rest."""
_BATCHES: Final[Titles] = {
    "committed_at": time("Committed (UTC)"),
    "table": "Table",
    "stage": st.column_config.TextColumn("Stage", width="small"),
    "batch": number("Batch"),
    "events_in": number("Events read"),
    "applied": number("Applied"),
    "quarantined": number("Quarantined"),
    "inserted": number("Inserted"),
    "updated": number("Updated"),
    "deleted": number("Deleted"),
}
_QUALITY: Final[Titles] = {
    "judged_at": time("Validated (UTC)"),
    "table": "Table",
    "expectation": st.column_config.TextColumn("Expectation", width="medium"),
    "severity": st.column_config.TextColumn("Severity", width="small"),
    "success": st.column_config.CheckboxColumn("Met", width="small"),
    "elements": number("Rows"),
    "unexpected": number("Unexpected"),
}
_WAITING: Final[Titles] = {
    "table": "Table",
    "records": number("Records in no batch"),
    "seconds": number("Seconds since the first came"),
}
_RUNS: Final[Titles] = {
    "started_at": time("Started (UTC)"),
    "ended_at": time("Ended (UTC)"),
    "pipeline": st.column_config.TextColumn("Pipeline", width="small"),
    "status": st.column_config.TextColumn("Status", width="small"),
    "run_id": "Run",
}


def show(pages: TablePages) -> None:
    """The page: what needs attention comes first."""
    st.title("Health of the lake")
    project = opened_project()
    found = sorted(statuses_of(project), key=_most_urgent)
    numbers = {
        "tables": len(found),
        "failing or refused": sum(one.state in ("failing", "refused") for one in found),
        "behind": sum(one.lag > 0 for one in found),
        "quarantined events": sum(one.quarantined for one in found),
        "empty": sum(one.state == "empty" for one in found),
    }
    with st.container(horizontal=True, gap="medium"):
        for label, value in numbers.items():
            st.metric(label, value, width="content")
    if found:
        rows = [asdict(one) | {"words": one.words} for one in found]
        show_rows(rows, _TABLES, key="standing", opens=pages.open)
        _link(found, pages)
    _show_streams(project, pages)
    quarantined = [{"table": one.table, "events": one.quarantined} for one in found if one.quarantined]
    if quarantined:
        st.header("Quarantine")
        show_bars(quarantined, of="table", value="events", title="events")
    for heading, table, titles in (
        ("Last batches", BATCHES, _BATCHES),
        ("Quality", QUALITY_RESULTS, _QUALITY),
        ("Runs", RUNS, _RUNS),
    ):
        st.header(heading)
        _show_last(table, titles, pages)


def _most_urgent(one: TableStatus) -> tuple[int, int, int, str]:
    """Tables that failed or were refused, then those that are behind or hold events back, then the others."""
    return _URGENT.index(one.state), -one.lag, -one.quarantined, one.table


def _link(found: Sequence[TableStatus], pages: TablePages) -> None:
    """Link the pages of one of the tables; the most urgent one is offered."""
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    chosen = left.selectbox("Open a table", [one.table for one in found], key="opened")
    with right:
        pages.link_around(chosen)


def _show_streams(project: Project, pages: TablePages) -> None:
    """What waits in streams, once somebody asks: a broker may take its time to answer, or not do so."""
    sources = {
        name for name, one in project.declarations.sources.items() if isinstance(one, StreamSourceConfig)
    }
    tables = sorted(str(t) for t, one in project.declarations.tables.items() if one.source in sources)
    if not tables:
        return
    st.header("Streams")
    if not st.button("Ask what waits", key="streams"):
        return
    found = waiting_in_streams(project.bind(TableName.parse(table)) for table in tables)
    show_rows(
        [{"table": table, **asdict(found[table])} for table in tables if table in found],
        _WAITING,
        key="waiting",
        opens=pages.open,
    )
    if silent := [table for table in tables if table not in found]:
        st.warning(f"No answer for {listed(silent)}: `kedro lakehouse tables --waiting` says why.")


def _show_last(table: str, titles: Titles, pages: TablePages) -> None:
    newest = next(iter(titles))
    rows = sorted(opened_project().ops.read(table), key=lambda row: str(row[newest]), reverse=True)
    if not rows:
        st.caption("Nothing yet.")
        return
    show_rows(rows[:_LAST], titles, key=table, opens=pages.open if "table" in titles else None)
