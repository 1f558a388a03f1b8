"""Charts whose texts have the colour of the page's: those of Streamlit's own are too pale for some eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLOUR: Final = "#1f6f8b"
_LABEL: Final = 170
"""Of so many pixels a label is shown whole; a narrow screen must have room for the bars too."""


def show_chart(spec: Mapping[str, Any], **options: Any) -> Any:
    """Show a chart of Vega-Lite; what is selected in it is returned where ``on_select`` asks for it."""
    return st.vega_lite_chart(spec=dict(spec), theme=None, **options)


def show_bars(
    rows: Sequence[Mapping[str, Any]], *, of: str, value: str, title: str, upright: bool = False
) -> None:
    """Show a bar for each row, in their order.

    Args:
        rows: The rows.
        of: The field that names a bar.
        value: The field with its length.
        title: What the lengths are.
        upright: Whether bars stand side by side: of many things, such as the columns of a table.
    """
    names = {"field": of, "type": "nominal", "sort": None, "title": "", "axis": {"labelLimit": _LABEL}}
    lengths = {"field": value, "type": "quantitative", "title": title}
    across, along = ("x", "y") if upright else ("y", "x")
    show_chart(
        {
            "data": {"values": list(rows)},
            "mark": {"type": "bar", "color": COLOUR},
            "encoding": {across: names, along: lengths, "tooltip": [{"field": of}, {"field": value}]},
            "height": 180 if upright else {"step": 22},
        }
    )


def show_lines(rows: Sequence[Mapping[str, Any]], *, of: str, values: Sequence[str]) -> None:
    """Show a line for each of these fields, over the times in the field ``of``."""
    points = [{"at": row[of].isoformat(), "of": name, "value": row[name]} for row in rows for name in values]
    encoding = {
        "x": {"field": "at", "type": "temporal", "title": ""},
        "y": {"field": "value", "type": "quantitative", "title": ""},
        "color": {"field": "of", "title": "", "scale": {"range": [COLOUR, "#b5472f", "#5b7f2b"]}},
    }
    show_chart({"data": {"values": points}, "mark": {"type": "line", "point": True}, "encoding": encoding})
