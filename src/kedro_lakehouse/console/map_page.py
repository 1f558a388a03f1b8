"""The map of the column space: columns that mean the like lie near each other, in groups that words name."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from kedro_lakehouse.column_search.groups import ColumnGroups, groups_of
from kedro_lakehouse.column_search.lake_index import signature_store
from kedro_lakehouse.column_search.space import SpaceStore
from kedro_lakehouse.console.charts import show_chart
from kedro_lakehouse.console.lake import chosen_model, opened_project, search_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.project_search import ColumnSearch
    from kedro_lakehouse.console.links import TablePages

    Point = dict[str, Any]

COLOURS: Final = (
    "#1f6f8b", "#b5472f", "#5b7f2b", "#7a4fa3", "#a8741a",
    "#c2418c", "#3b5bb5", "#2f8f6b", "#6b6b6b", "#7d4a2d",
)  # fmt: skip
"""One for each group; each has a contrast of at least 3 to a white ground."""
MOST_NAMED: Final = 40
"""Of so many points each has its name beside it; of more, names would lie upon each other."""
_PICKED: Final = "picked"
_PLACE: Final[dict[str, Any]] = {
    axis: {
        "field": axis,
        "type": "quantitative",
        "axis": None,
        "scale": {"zero": False, "nice": False, "padding": 30},
    }
    for axis in ("x", "y")
}
_HALO: Final = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
_RIGHT: Final = 0.65
"""From this part of the map's width on, names stand to the left of their points."""
_FEW: Final = 15
"""So many names have room on a narrow screen too."""


def show(pages: TablePages) -> None:
    """The page."""
    st.title("Map of the columns")
    left, middle, right = st.columns(3)
    with right:
        search = search_of(chosen_model())
    groups = _groups(search, search.model_id, signature_store(opened_project()).snapshot_id())
    points = _points(search, groups)
    wanted = left.multiselect(
        "Only these tables", sorted({one["table"] for one in points}), key="mapped", bind="query-params"
    )
    group = middle.selectbox("Only this group", groups.names, index=None, key="group", placeholder="all")
    shown = [
        one
        for one in points
        if (not wanted or one["table"] in wanted) and (group is None or one["group"] == group)
    ]
    pages.link_each("Open:", wanted)
    above = st.container()
    event = show_chart(
        _chart(shown, groups.names), height=640, key="map", on_select="rerun", selection_mode=_PICKED
    )
    with above:
        _show_picked(event["selection"].get(_PICKED, ()), pages)
    st.caption(
        f"{len(shown):,} columns. Near ones mean the like. Each group has a colour, and is named by words "
        f"that many of its columns have in their names. Up to {MOST_NAMED} columns have their names beside "
        "them: choose tables or a group."
    )


@st.cache_resource(show_spinner="Grouping the columns ...", max_entries=4)
def _groups(_search: ColumnSearch, model: str, state: int | None) -> ColumnGroups:  # noqa: ARG001 - the cache's key
    return groups_of(_search.corpus.lead, [one.profile.name for one in _search.corpus.signatures])


def _points(search: ColumnSearch, groups: ColumnGroups) -> list[Point]:
    places = SpaceStore(opened_project().catalog).read(search.model_id)
    return [
        {
            "x": places[one.column_id][0],
            "y": places[one.column_id][1],
            "group": groups.names[number],
            "table": str(one.table),
            "column": one.profile.name,
            "type": one.profile.kind,
        }
        for one, number in zip(search.corpus.signatures, groups.numbers, strict=True)
        if one.column_id in places
    ]


def _show_picked(picked: Sequence[Point], pages: TablePages) -> None:
    """Name the point that was chosen, and link its table."""
    if not picked:
        st.caption("Point at a column to read what it is; click it to get to its table.")
        return
    one = picked[0]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{one['table']}.{one['column']}", width="content")
        pages.link("Open its table", one["table"], one["column"])


def _chart(points: Sequence[Point], names: Sequence[str]) -> dict[str, Any]:
    """The points in the colours of their groups, the name of each group in its middle, a legend below."""
    present = [name for name in names if any(one["group"] == name for one in points)]
    colours = [COLOURS[names.index(name)] for name in present]
    colour = {
        "field": "group",
        "type": "nominal",
        "title": "Groups",
        "scale": {"domain": present, "range": colours},
        "legend": {"orient": "bottom", "columns": 2, "labelLimit": 160, "symbolOpacity": 1},
    }
    fields = ("table", "column", "type", "group")
    tips = [{"field": name, "type": "nominal", "title": name.capitalize()} for name in fields]
    layers: list[dict[str, Any]] = [
        {
            "name": "points",
            "mark": {"type": "circle", "size": 70, "opacity": 0.75, "cursor": "pointer"},
            "encoding": _PLACE | {"color": colour, "tooltip": tips, "description": {"field": "column"}},
        }
    ]
    if len(points) <= MOST_NAMED:
        # To the side where there is more room; on a narrow screen many names would cover the points.
        across = [one["x"] for one in points] or [0.0]
        right = f"datum.x > {min(across) + _RIGHT * (max(across) - min(across))}"
        mark: dict[str, Any] = {
            "fontSize": 11,
            "align": {"expr": f"{right} ? 'right' : 'left'"},
            "dx": {"expr": f"{right} ? -8 : 8"},
        }
        if len(points) > _FEW:
            mark["opacity"] = {"expr": "width > 500 ? 1 : 0"}
        layers += _named("column", mark)
    else:
        layers += _named("group", {"fontSize": 13, "fontWeight": "bold"}, data=_middles(points, present))
    return {
        "data": {"values": points},
        "view": {"stroke": None},
        "params": [
            {"name": _PICKED, "select": {"type": "point", "fields": ["table", "column"]}, "views": ["points"]}
        ],
        "layer": layers,
    }


def _named(field: str, mark: dict[str, Any], data: Sequence[Point] | None = None) -> list[dict[str, Any]]:
    """Texts at places, each with a white edge, so that it can be read over points."""
    own = {} if data is None else {"data": {"values": data}}
    text = _PLACE | {"text": {"field": field, "type": "nominal"}}
    return [
        own | {"mark": {"type": "text", **mark, **look}, "encoding": text}
        for look in (_HALO, {"color": "#1f2933"})
    ]


def _middles(points: Sequence[Point], present: Sequence[str]) -> list[Point]:
    """Where the name of each group stands: in the middle of its points, below those that would cover it."""
    placed: list[Point] = []
    for name in present:
        own = [one for one in points if one["group"] == name]
        placed.append({"group": name, **{axis: median(one[axis] for one in own) for axis in ("x", "y")}})
    placed.sort(key=lambda one: -one["y"])
    # A name takes some two fifths of the map's width on a phone, and a line of its height.
    wide, high = (
        share * ((max(one[axis] for one in points) - min(one[axis] for one in points)) or 1)
        for axis, share in (("x", 0.4), ("y", 0.06))
    )
    for place, one in enumerate(placed):
        for other in placed[:place]:
            if abs(one["x"] - other["x"]) < wide and other["y"] - one["y"] < high:
                one["y"] = other["y"] - high
    return placed
