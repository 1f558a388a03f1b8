"""A box for one query in SQL, and its answer."""

from __future__ import annotations

from typing import Final

import streamlit as st

from kedro_lakehouse.console.answers import answer, show_answer
from kedro_lakehouse.console.lake import known_tables

_ROWS: Final = (100, 1_000, 10_000)


def show() -> None:
    """The page."""
    st.title("Ask in SQL")
    st.caption(
        "One SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL. Nothing can be written. "
        "Beside each table there are its history, changes and quarantine, with these endings."
    )
    known = known_tables()
    with st.form("query"):
        query = st.text_area("Query", key="query_text", height=140, placeholder=_example(known))
        limit = st.selectbox("Rows at most", _ROWS, key="query_rows")
        asked = st.form_submit_button("Ask")
    if asked and query.strip() and (found := answer(query, limit)) is not None:
        show_answer(found, "answer")
    with st.expander("Tables"):
        st.text("\n".join(known) or "Nothing yet.")


def _example(known: list[str]) -> str:
    return f"describe {known[0]}" if known else "describe namespace.table"
