"""A box for one query in SQL, and its answer."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import streamlit as st

from kedro_lakehouse.console.answers import answer, show_answer
from kedro_lakehouse.console.lake import known_tables, opened_project
from kedro_lakehouse.console.links import TABLE
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.lineage.graph import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kedro_lakehouse.console.links import TablePages

_ROWS: Final = (100, 1_000, 10_000)


def show(pages: TablePages) -> None:
    """The page; where the address names a table, the query for its rows is proposed."""
    st.title("Ask in SQL")
    st.caption(
        "One SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL. Nothing can be written. "
        "Beside each table there are its history, changes and quarantine, with these endings."
    )
    known = known_tables()
    if (named := st.query_params.pop(TABLE, None)) in known:
        st.session_state["query_text"] = f"select * from {named}"  # noqa: S608 - a declared name
    with st.form("query"):
        query = st.text_area("Query", key="query_text", height=140, placeholder=_example(known))
        limit = st.selectbox("Rows at most", _ROWS, key="query_rows")
        asked = st.form_submit_button("Ask")
    if asked and query.strip() and (found := answer(query, limit)) is not None:
        show_answer(found, "answer")
        pages.link_each("Asked of:", _declared(found.tables))
    with st.expander("Tables"):
        pages.link_each("", known)
        if not known:
            st.text("Nothing yet.")


def _declared(names: Iterable[str]) -> Iterator[str]:
    """The declared tables that stored tables and views belong to; those of the project's own have no page."""
    for name in names:
        with contextlib.suppress(LakehouseError):
            yield str(owner_of(opened_project(), name))


def _example(known: list[str]) -> str:
    return f"describe {known[0]}" if known else "describe namespace.table"
