"""The map of the column space: columns that mean the like lie near each other."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from kedro_lakehouse.column_search.space import SpaceStore
from kedro_lakehouse.console.lake import chosen_model, opened_project, search_of

_SPEC: Final[dict[str, Any]] = {
    "mark": {"type": "circle", "size": 60, "opacity": 0.7},
    "encoding": {
        "x": {"field": "x", "type": "quantitative", "axis": None},
        "y": {"field": "y", "type": "quantitative", "axis": None},
        "color": {"field": "namespace", "type": "nominal", "title": "Namespace"},
        "tooltip": [
            {"field": name, "type": "nominal", "title": name.capitalize()}
            for name in ("table", "column", "type")
        ],
    },
}


def show() -> None:
    """The page."""
    st.title("Map of the columns")
    search = search_of(chosen_model())
    places = SpaceStore(opened_project().catalog).read(search.model_id)
    points = [
        {
            "x": places[one.column_id][0],
            "y": places[one.column_id][1],
            "namespace": one.table.namespace,
            "table": str(one.table),
            "column": one.profile.name,
            "type": one.profile.kind,
        }
        for one in search.corpus.signatures
        if one.column_id in places
    ]
    tables = sorted({str(point["table"]) for point in points})
    wanted = st.multiselect("Only these tables", tables, key="mapped")
    shown = [point for point in points if not wanted or point["table"] in wanted]
    st.vega_lite_chart(shown, _SPEC, height=600, key="map")
    st.caption(
        f"{len(shown):,} columns. Made once an index build: the two leading components of the vectors."
    )
