"""What ``kedro lakehouse console`` has Streamlit run: six pages over one project."""

from __future__ import annotations

import os

import streamlit as st

from kedro_lakehouse.console import health, map_page, rows_page, search_page, sql_page, table_page
from kedro_lakehouse.console.access import ask_for_token, is_admitted
from kedro_lakehouse.console.lake import opened_project
from kedro_lakehouse.console.links import TablePages
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.private import CONSOLE_ROLE


def main() -> None:
    """Show the page that was asked for, or what is wrong and what to do; without the token nothing."""
    st.set_page_config(page_title="kedro-lakehouse", layout="wide")
    pages = TablePages(
        table=st.Page(lambda: table_page.show(pages), title="Table", url_path="table"),
        rows=st.Page(lambda: rows_page.show(pages), title="Rows", url_path="rows"),
        sql=st.Page(lambda: sql_page.show(pages), title="SQL", url_path="sql"),
    )
    offered = [
        st.Page(lambda: search_page.show(pages), title="Search", default=True),
        pages.table,
        pages.rows,
        pages.sql,
        st.Page(lambda: map_page.show(pages), title="Map", url_path="map"),
    ]
    if CONSOLE_ROLE not in os.environ:  # what runs did, and why they failed, is granted to no role
        offered.append(st.Page(lambda: health.show(pages), title="Health", url_path="health"))
    admitted = is_admitted()
    page = st.navigation(offered, position="top" if admitted else "hidden")
    if not admitted:
        ask_for_token()
        return
    try:
        opened_project()
        page.run()
    except LakehouseError as error:
        st.error("This does not work as it stands:")
        st.text(str(error))


if __name__ == "__main__":
    main()
