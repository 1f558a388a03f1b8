"""One table: its columns, the profile of one of them, its versions over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import streamlit as st

from kedro_lakehouse.column_search.lake_index import signature_store
from kedro_lakehouse.column_search.values import number_of
from kedro_lakehouse.console.lake import chosen_model, opened_project, search_of, tables_of

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.profile import ColumnProfile
    from kedro_lakehouse.column_search.signature import ColumnSignature

_OF_A_COMMIT: Final = (
    "committed_at",
    "stage",
    "batch",
    "inserted",
    "updated",
    "deleted",
    "opened",
    "closed",
    "quarantined",
)


def show() -> None:
    """The page."""
    st.title("Table")
    search = search_of(chosen_model())
    name = st.selectbox("Table", tables_of(search.corpus.signatures), key="table")
    if not name:
        return
    columns = search.table(name)
    st.text(columns[0].table.location)
    st.dataframe([_row(one) for one in columns], hide_index=True, key="columns")
    nulls = [{"column": one.profile.name, "share": one.profile.null_fraction} for one in columns]
    st.bar_chart(nulls, x="column", y="share", x_label="", y_label="share without a value", height=200)
    chosen = st.selectbox("Column", [one.profile.name for one in columns], key="column")
    one = next((c for c in columns if c.profile.name == chosen), columns[0])
    _show_profile(one.profile)
    _show_versions(one)


def _row(one: ColumnSignature) -> dict[str, Any]:
    profile = one.profile
    return {
        "column": profile.name,
        "type": profile.kind,
        "rows": profile.rows,
        "distinct": profile.distinct,
        "without value": profile.null_fraction,
        "least": profile.minimum,
        "greatest": profile.maximum,
        "values": "personal" if profile.personal else ", ".join(profile.sample[:5]),
    }


def _show_profile(profile: ColumnProfile) -> None:
    left, right = st.columns(2)
    least, greatest = number_of(profile.minimum or ""), number_of(profile.maximum or "")
    if profile.histogram and least is not None and greatest is not None:
        edges = np.linspace(least, greatest, len(profile.histogram) + 1)
        shares = [
            {"from": float(f"{edge:.5g}"), "share": share}
            for edge, share in zip(edges, profile.histogram, strict=False)
        ]
        left.bar_chart(
            shares, x="from", y="share", x_label="value, from", y_label="share of values (estimated)"
        )
    elif profile.frequent:
        counts = [{"value": value, "rows": count} for value, count in profile.frequent]
        left.bar_chart(counts, x="value", y="rows", x_label="", y_label="rows", horizontal=True)
    else:
        left.text(
            "No value is kept of this column: it holds personal data." if profile.personal else "No values."
        )
    formats = [{"format": name, "share": share} for name, share in profile.formats]
    right.bar_chart(formats, x="format", y="share", x_label="", y_label="share of values", horizontal=True)


def _show_versions(one: ColumnSignature) -> None:
    st.subheader("Versions of the column")
    versions = signature_store(opened_project()).versions(one.column_id, one.model_id)
    st.dataframe(versions, hide_index=True, key="versions")
    if len(versions) > 1:
        st.line_chart(versions, x="effective_from", y=["rows", "distinct", "nulls"], x_label="since")
    st.subheader("Commits of the table")
    commits = opened_project().ops.read("batches", of_table=str(one.table))
    told = [{name: row[name] for name in _OF_A_COMMIT} for row in reversed(commits)]
    st.dataframe(told, hide_index=True, key="commits")
