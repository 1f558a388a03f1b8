"""One table: its standing, its columns, the profile of one of them, its versions over time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import streamlit as st

from kedro_lakehouse.column_search.lake_index import signature_store
from kedro_lakehouse.column_search.values import number_of
from kedro_lakehouse.console.grids import COUNTED_EXACTLY, distinct_told, number, share, show_rows, time
from kedro_lakehouse.console.lake import chosen_model, opened_project, role_access, search_of, tables_of
from kedro_lakehouse.lineage.graph import project_lineage
from kedro_lakehouse.lineage.pictures import dot_of
from kedro_lakehouse.monitoring.table_status import LakeFacts, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.profile import ColumnProfile
    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.console.grids import Titles
    from kedro_lakehouse.lake_table import LakeTable

_STANDING: Final[Titles] = {
    "words": "State",
    "rows": number("Rows"),
    "history_rows": number("History rows"),
    "lag": number("Batches behind"),
    "batch": number("Batches read"),
    "current_batch": number("In current", help_text="The last batch that the current table has."),
    "history_batch": number("In history", help_text="The last batch that the history has."),
    "quarantined": number("Quarantined"),
    "record_key": "Key",
    "partition_key": "Partitioned by",
}
_COLUMNS: Final[Titles] = {
    "column": "Column",
    "type": st.column_config.TextColumn("Type", width="small"),
    "rows": number("Rows"),
    "distinct": st.column_config.TextColumn("Distinct values", width="small"),
    "nulls": share("Without a value"),
    "least": "Least",
    "greatest": "Greatest",
    "values": "Some values",
}
_VERSIONS: Final[Titles] = {
    "effective_from": time("From (UTC)"),
    "effective_to": time("Until (UTC)"),
    "kind": st.column_config.TextColumn("Type", width="small"),
    "rows": number("Rows"),
    "distinct": st.column_config.TextColumn("Distinct values", width="small"),
    "nulls": number("Rows without a value"),
}
_COMMITS: Final[Titles] = {
    "committed_at": time("Committed (UTC)"),
    "stage": st.column_config.TextColumn("Stage", width="small"),
    "batch": number("Batch"),
    "inserted": number("Inserted"),
    "updated": number("Updated"),
    "deleted": number("Deleted"),
    "opened": number("Versions opened"),
    "closed": number("Versions closed"),
    "quarantined": number("Quarantined"),
}


def show() -> None:
    """The page."""
    st.title("Table")
    search = search_of(chosen_model())
    name = st.selectbox("Table", tables_of(search.corpus.signatures), key="table")
    if not name:
        return
    columns = search.table(name)
    st.text(columns[0].table.location)
    declared = _declared(name)
    if declared and role_access() is None:
        status = status_of(declared, LakeFacts(opened_project()))
        show_rows([asdict(status) | {"words": status.words}], _STANDING, key="standing")
        if status.reason:
            st.text(status.reason)
    _show_columns(columns, declared.config.keys if declared else ())
    nulls = [{"column": one.profile.name, "share": one.profile.null_fraction} for one in columns]
    st.bar_chart(nulls, x="column", y="share", x_label="", y_label="share without a value", height=260)
    chosen = st.selectbox("Column", [one.profile.name for one in columns], key="column")
    one = next((c for c in columns if c.profile.name == chosen), columns[0])
    _show_profile(one.profile)
    _show_versions(one)
    if declared and role_access() is None:  # lineage names tables of the whole lake
        _show_lineage(name)


def _show_lineage(name: str) -> None:
    """Draw what the table is made from, and what is made from it."""
    st.subheader("Lineage")
    st.graphviz_chart(dot_of(project_lineage(opened_project()).around(name), name), width="stretch")


def _declared(name: str) -> LakeTable | None:
    """The declared table of this name; files and tables of others are indexed without a declaration."""
    project = opened_project()
    return next((project.bind(one) for one in project.declarations.tables if str(one) == name), None)


def _show_columns(columns: Sequence[ColumnSignature], keys: Sequence[str]) -> None:
    show_rows([_row(one.profile, keys) for one in columns], _COLUMNS, key="columns")
    if any(one.profile.distinct > COUNTED_EXACTLY for one in columns):
        st.caption(
            f"More than {COUNTED_EXACTLY} distinct values are not counted but estimated, within some 6 "
            "percent. Least and greatest of numbers and dates that are stored as text are then those of a "
            "sample."
        )


def _row(profile: ColumnProfile, keys: Sequence[str]) -> dict[str, Any]:
    values = profile.rows - profile.nulls
    # Each row of a table has a key of its own: that needs no estimate.
    is_key = [name.lower() for name in keys] == [profile.name.lower()]
    return {
        "column": profile.name,
        "type": profile.kind,
        "rows": profile.rows,
        "distinct": f"{values:,}" if is_key else distinct_told(profile.distinct, values=values),
        "nulls": profile.null_fraction,
        "least": profile.minimum,
        "greatest": profile.maximum,
        "values": "personal" if profile.personal else ", ".join(profile.sample[:5]),
    }


def _show_profile(profile: ColumnProfile) -> None:
    left, right = st.columns(2)
    estimated = " (estimated)" if profile.distinct > COUNTED_EXACTLY else ""
    least, greatest = number_of(profile.minimum or ""), number_of(profile.maximum or "")
    if profile.histogram and least is not None and greatest is not None:
        edges = np.linspace(least, greatest, len(profile.histogram) + 1)
        shares = [
            {"from": float(f"{edge:.5g}"), "share": one}
            for edge, one in zip(edges, profile.histogram, strict=False)
        ]
        left.bar_chart(
            shares, x="from", y="share", x_label="value, from", y_label=f"share of values{estimated}"
        )
    elif profile.frequent:
        counts = [{"value": value, "rows": count} for value, count in profile.frequent]
        left.bar_chart(counts, x="value", y="rows", x_label="", y_label=f"rows{estimated}", horizontal=True)
    else:
        left.text(
            "No value is kept of this column: it holds personal data." if profile.personal else "No values."
        )
    formats = [{"format": name, "share": one} for name, one in profile.formats]
    label = f"share of values{estimated}"
    right.bar_chart(formats, x="format", y="share", x_label="", y_label=label, horizontal=True)


def _show_versions(one: ColumnSignature) -> None:
    st.subheader("Versions of the column")
    versions = signature_store(opened_project()).versions(one.column_id, one.model_id)
    told = [
        row | {"distinct": distinct_told(row["distinct"], values=row["rows"] - row["nulls"])}
        for row in versions
    ]
    show_rows(told, _VERSIONS, key="versions")
    if len(versions) > 1:
        st.line_chart(versions, x="effective_from", y=["rows", "distinct", "nulls"], x_label="since")
    if role_access() is not None:
        return
    st.subheader("Commits of the table")
    commits = opened_project().ops.read("batches", of_table=str(one.table))
    if not commits:
        st.caption("Nothing yet.")
        return
    show_rows(reversed(commits), _COMMITS, key="commits")
