"""One table: its standing, its columns, the profile of one of them, its versions over time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import streamlit as st

from kedro_lakehouse.column_search.lake_index import signature_store
from kedro_lakehouse.column_search.values import number_of
from kedro_lakehouse.console.charts import show_bars, show_lines
from kedro_lakehouse.console.grids import COUNTED_EXACTLY, distinct_told, number, share, show_rows, time
from kedro_lakehouse.console.lake import (
    chosen_model,
    known_tables,
    opened_project,
    role_access,
    search_of,
    tables_of,
)
from kedro_lakehouse.console.links import COLUMN, TABLE, choose
from kedro_lakehouse.errors import IndexEmptyError, ModelNotFoundError
from kedro_lakehouse.lineage.graph import project_lineage
from kedro_lakehouse.lineage.pictures import dot_of
from kedro_lakehouse.monitoring.table_status import LakeFacts, status_of
from kedro_lakehouse.project import from_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.profile import ColumnProfile
    from kedro_lakehouse.column_search.project_search import ColumnSearch
    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.console.grids import Titles
    from kedro_lakehouse.console.links import TablePages
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
    "distinct": st.column_config.TextColumn("Distinct values", width=125),
    "nulls": share("Without a value"),
    "least": st.column_config.TextColumn("Least", width=100),
    "greatest": st.column_config.TextColumn("Greatest", width=100),
    "values": "Some values",
}
_VERSIONS: Final[Titles] = {
    "effective_from": time("From (UTC)"),
    "effective_to": time("Until (UTC)"),
    "kind": st.column_config.TextColumn("Type", width="small"),
    "rows": number("Rows"),
    "distinct": st.column_config.TextColumn("Distinct values", width=125),
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


def show(pages: TablePages) -> None:
    """The page; a declared table has one before its first column is indexed."""
    st.title("Table")
    left, right = st.columns([3, 1])
    with right:
        search = _opened_search()
    indexed = tables_of(search.corpus.signatures) if search else []
    with left:
        name = choose("Table", sorted({*indexed, *known_tables()}), key=TABLE)
    if not name:
        return
    pages.link_around(name, but=pages.table)
    columns = search.table(name) if search and name in indexed else []
    if columns:
        st.text(from_project(columns[0].table.location))
    declared = _declared(name)
    # To a role neither state nor lineage is shown: that names tables of the whole lake.
    stored = declared if role_access() is None else None
    if stored:
        _show_status(stored)
    if columns:
        _show_all_columns(columns, declared.config.keys if declared else ())
    elif search:
        st.caption("None of its columns is in the index of the search yet.")
    if stored:
        _show_lineage(name, pages)
        _show_commits(name)


def _opened_search() -> ColumnSearch | None:
    """The search, which knows the columns; None where it has no index, which is shown."""
    try:
        return search_of(chosen_model())
    except (IndexEmptyError, ModelNotFoundError) as error:
        st.text(str(error))
        return None


def _show_status(table: LakeTable) -> None:
    status = status_of(table, LakeFacts(opened_project()))
    show_rows([asdict(status) | {"words": status.words}], _STANDING, key="standing")
    if status.reason:
        st.text(status.reason)


def _show_all_columns(columns: Sequence[ColumnSignature], keys: Sequence[str]) -> None:
    """All columns side by side, then one of them."""
    st.header("Columns")
    _show_columns(columns, keys)
    nulls = [{"column": one.profile.name, "share": one.profile.null_fraction} for one in columns]
    if any(one["share"] for one in nulls):
        show_bars(nulls, of="column", value="share", title="share without a value", upright=True)
    chosen = choose("Column", [one.profile.name for one in columns], key=COLUMN)
    one = next((c for c in columns if c.profile.name == chosen), columns[0])
    _show_profile(one.profile)
    _show_versions(one)


def _show_lineage(name: str, pages: TablePages) -> None:
    """Draw what the table is made from, and what is made from it; the tables next to it are links."""
    st.header("Lineage")
    lineage, known = project_lineage(opened_project()).around(name), known_tables()
    words = f"What {name} is made from, and what is made from it"
    st.graphviz_chart(dot_of(lineage, name), alt=words)
    for heading, up in (("Made from:", True), ("Made from it:", False)):
        near = [group for group, steps in lineage.reached(name, up=up).items() if steps == 1]
        pages.link_each(heading, [group for group in near if group in known])


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
        with left:
            title = f"share of values{estimated}"
            show_bars(shares, of="from", value="share", title=title, upright=True)
    elif profile.frequent:
        counts = [{"value": value, "rows": count} for value, count in profile.frequent]
        with left:
            show_bars(counts, of="value", value="rows", title=f"rows{estimated}")
    else:
        left.text(
            "No value is kept of this column: it holds personal data." if profile.personal else "No values."
        )
    formats = [{"format": name, "share": one} for name, one in profile.formats]
    with right:
        show_bars(formats, of="format", value="share", title=f"share of values{estimated}")


def _show_versions(one: ColumnSignature) -> None:
    st.subheader("Versions of the column")
    versions = signature_store(opened_project()).versions(one.column_id, one.model_id)
    told = [
        row | {"distinct": distinct_told(row["distinct"], values=row["rows"] - row["nulls"])}
        for row in versions
    ]
    show_rows(told, _VERSIONS, key="versions")
    if len(versions) > 1:
        show_lines(versions, of="effective_from", values=("rows", "distinct", "nulls"))


def _show_commits(name: str) -> None:
    st.header("Commits of the table")
    commits = opened_project().ops.read("batches", of_table=name)
    if not commits:
        st.caption("Nothing yet.")
        return
    show_rows(reversed(commits), _COMMITS, key="commits")
