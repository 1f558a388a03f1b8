"""Links from the name of a table to the pages about it; the address names the table and can be kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Never

import streamlit as st

from kedro_lakehouse.console.lake import known_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlit.navigation.page import StreamlitPage

TABLE: Final = "table"
COLUMN: Final = "column"
"""The parameters of an address that name a table and a column of it, and the keys of what chooses them."""
_MOST: Final = 20
"""So many links stand in a row of them; more are not read."""
_PAGE: Final = ":material/table_view:"
_MARKS: Final = re.compile(r"([^\w\s]|_)")


@dataclass(frozen=True, kw_only=True)
class TablePages:
    """The pages that show one table: what it is, its rows, and the box for queries."""

    table: StreamlitPage
    rows: StreamlitPage
    sql: StreamlitPage

    def open(self, name: str) -> Never:
        """Show the page of a table instead of this one."""
        st.switch_page(self.table, query_params={TABLE: name})

    def link(self, label: str, name: str, column: str | None = None) -> None:
        """Show a link to the page of a table, or of a column there; the label is our own words."""
        asked = {TABLE: name} | ({COLUMN: column} if column is not None else {})
        st.page_link(self.table, label=label, query_params=asked, icon=_PAGE)

    def link_each(self, heading: str, names: Iterable[str]) -> None:
        """Show a link to the page of each of these tables, side by side; nothing where there are none."""
        distinct = list(dict.fromkeys(names))
        if not distinct:
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(heading, width="content")
            for name in distinct[:_MOST]:
                self.link(as_label(name), name)
            if len(distinct) > _MOST:
                st.text(f"and {len(distinct) - _MOST:,} more", width="content")

    def link_around(self, name: str, *, but: StreamlitPage | None = None) -> None:
        """Show links to the other pages about a table, of which those of files outside the lake have none."""
        pages = (
            (self.table, "Its page", _PAGE),
            (self.rows, "Its rows", ":material/table_rows:"),
            (self.sql, "Ask for it in SQL", ":material/terminal:"),
        )
        declared = name in known_tables()
        with st.container(horizontal=True, gap="small"):
            for page, label, icon in pages:
                if page is not but and (declared or page is self.table):
                    st.page_link(page, label=label, icon=icon, query_params={TABLE: name})


def choose(label: str, options: Sequence[str], *, key: str) -> str | None:
    """Let the user choose a table or a column; it is what the address names, and what is chosen stands there.

    Streamlit can bind a choice to an address itself, but forgets it on the way from one page to another.
    """
    named = st.query_params.get(key)
    if named is not None and named in options:
        if st.session_state.get(key, named) != named:
            st.query_params[key] = named  # a link to this page itself does not change the address
        st.session_state[key] = named
    return st.selectbox(label, options, key=key, on_change=_into_address, args=(key,))


def _into_address(key: str) -> None:
    if key == TABLE:
        st.query_params.pop(COLUMN, None)
    st.query_params[key] = st.session_state[key]


def as_label(name: str) -> str:
    r"""A name as a label that shows it as it is: what Markdown could take for a mark is escaped.

    Example:
        >>> as_label("files.crm_customers")
        'files\\.crm\\_customers'
    """
    return _MARKS.sub(r"\\\1", name)
