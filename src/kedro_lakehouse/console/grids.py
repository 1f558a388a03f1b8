"""Grids of rows: titles in words, empty cells where there is no value, estimates that say so."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any, Final, Never

import streamlit as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from streamlit.elements.lib.column_types import ColumnConfig

    Titles = Mapping[str, str | ColumnConfig]
    """The fields that a grid shows, in its order, and the title of each, or how it is shown besides."""

COUNTED_EXACTLY: Final = 255
"""Up to so many distinct values a sketch counts them; of more it estimates how many there are."""
_OPENS: Final = "Click a name to open its page."
_TIME: Final = "YYYY-MM-DD HH:mm:ss"


def show_rows(
    rows: Iterable[Mapping[str, Any]],
    titles: Titles,
    *,
    key: str,
    opens: Callable[[str], Never] | None = None,
) -> None:
    """Show these fields of the rows, in this order, each under its title.

    Args:
        rows: The rows.
        titles: The fields.
        key: The name of the grid.
        opens: Shows the page of a table; with it a click on a name in the field ``table`` does so.
    """
    shown = [{name: _cell(row.get(name)) for name in titles} for row in rows]
    columns: dict[str, Any] = dict(titles)
    clicked = f"{key}:clicked"
    if opens is not None:
        columns["table"] = st.column_config.ButtonColumn(
            str(titles["table"]), help=_OPENS, type="tertiary", alignment="left", key=clicked
        )
    st.dataframe(shown, hide_index=True, placeholder="", column_config=columns, key=key)
    if opens is not None and (click := st.session_state.get(clicked)):
        opens(click["label"])


def _cell(value: Any) -> Any:
    """Names of columns, of which there may be several, in one text."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def time(title: str) -> ColumnConfig:
    """A column of times, to the second."""
    return st.column_config.DatetimeColumn(title, format=_TIME, timezone="UTC")


def number(title: str, *, help_text: str | None = None) -> ColumnConfig:
    """A narrow column of numbers."""
    return st.column_config.NumberColumn(title, width=_width(title), format="localized", help=help_text)


def share(title: str) -> ColumnConfig:
    """A column of shares, shown as percentages."""
    return st.column_config.NumberColumn(title, width=_width(title), format="percent")


def _width(title: str) -> int:
    """Pixels in which a title is shown whole."""
    return max(75, 24 + 7 * len(title))


def distinct_told(distinct: int, *, values: int) -> str:
    """How many of so many values are distinct: counted, or `about` so many where it was estimated."""
    if distinct <= COUNTED_EXACTLY:
        return f"{distinct:,}"
    return f"about {_two_digits(min(distinct, values)):,}"


def _two_digits(number: int) -> int:
    """The number rounded to two digits, which is as much as an estimate within 6 percent can tell."""
    places = floor(log10(number)) - 1
    return round(number, -places)
