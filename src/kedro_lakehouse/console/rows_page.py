"""The rows of a table, what became of one of its keys, and what could not be applied."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from kedro_lakehouse.console.answers import answer, rows_where, show_answer
from kedro_lakehouse.console.charts import COLOUR, show_bars, show_chart
from kedro_lakehouse.console.grids import number, show_rows
from kedro_lakehouse.console.lake import known_tables, opened_project, role_access
from kedro_lakehouse.console.links import TABLE, choose
from kedro_lakehouse.monitoring.quarantined_events import quarantined_events
from kedro_lakehouse.names import TableName, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_lakehouse.console.grids import Titles
    from kedro_lakehouse.console.links import TablePages
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.query.answer import Answer

_FIRST: Final = 100
_MOST_VERSIONS: Final = 500
_FROM, _UNTIL = "effective_from", "effective_to"
_OF_VERSIONS: Final = (_FROM, _UNTIL, "is_current")
_COLOURS: Final = {"domain": ["now", "no longer"], "range": [COLOUR, "#90a4ae"]}
_EVENTS: Final[Titles] = {
    "reasons": "Reasons",
    "columns": "Columns",
    "batch": number("Batch"),
    "file": "File",
    "row": number("Row"),
}


def show(pages: TablePages) -> None:
    """The page."""
    st.title("Rows")
    known = known_tables()
    name = choose("Table", known, key=TABLE)
    if not name:
        st.caption("No table is declared, or none is granted.")
        return
    pages.link_around(name, but=pages.rows)
    table = opened_project().bind(TableName.parse(name))
    hides = _hides(table)
    if table.config.current and (found := answer(rows_where(table.name, {}), _FIRST)) is not None:
        show_answer(found, "rows", hides=hides)
    if table.config.history:
        _show_key(table, hides)
    if role_access() is None:  # what could not be applied is shown as it arrived, to no role
        _show_quarantine(table)


def _hides(table: LakeTable) -> Callable[[str], bool]:
    """Tells which columns are not shown: the framework's own, and those with personal data, unless asked for.

    What a role sees of these is decided by its grants, in the answer itself.
    """
    personal: frozenset[str] = frozenset()
    if role_access() is None and table.config.personal_columns:
        label = "Show the columns with personal data"
        if not st.checkbox(label, key=f"personal:{table.name}"):
            personal = frozenset(map(str.lower, table.config.personal_columns))

    def hides(column: str) -> bool:
        own = is_reserved_column(column) and column not in _OF_VERSIONS
        return own or column.lower() in personal

    return hides


def _show_key(table: LakeTable, hides: Callable[[str], bool]) -> None:
    """The versions of one key, as a timeline and as rows."""
    st.header("History of a key")
    keys = table.config.keys
    fields = st.columns(max(len(keys), 1))
    values = {
        key: field.text_input(key.replace("`", ""), key=f"{table.name}:{key}")
        for field, key in zip(fields, keys, strict=False)
    }
    if not keys or not all(values.values()):
        st.caption("Enter the key whose versions you want to see.")
        return
    found = answer(rows_where(table.name.with_suffix("history"), values, _FROM), _MOST_VERSIONS)
    if found is None:
        return
    if found.rows and {_FROM, _UNTIL} <= set(found.columns):
        _show_timeline(found, hides)
    show_answer(found, "versions_of_key", first=(_FROM, _UNTIL), hides=hides)


def _show_timeline(found: Answer, hides: Callable[[str], bool]) -> None:
    """A bar for each version, from when until when it held; the values that changed are in its tip."""
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    now = dt.datetime.now(dt.UTC)
    bars = [
        {
            "version": place,
            "from": _moment(row[_FROM]),
            "until": _moment(row[_UNTIL] or now),
            "holds": "now" if row[_UNTIL] is None else "no longer",
            "changed": _changed(rows[place - 2] if place > 1 else {}, row, hides),
        }
        for place, row in enumerate(rows, start=1)
    ]
    show_chart(
        {
            "data": {"values": bars},
            "mark": {"type": "bar", "cornerRadius": 2},
            "encoding": {
                "x": {"field": "from", "type": "temporal", "title": ""},
                "x2": {"field": "until"},
                "y": {"field": "version", "type": "ordinal"},
                "color": {"field": "holds", "title": "", "scale": _COLOURS},
                "tooltip": [{"field": name} for name in ("version", "from", "until", "changed")],
            },
            "height": max(80, 28 * len(bars)),
        }
    )


def _moment(value: Any) -> str:
    return value.isoformat() if isinstance(value, dt.datetime | dt.date) else str(value)


def _changed(before: dict[str, Any], row: dict[str, Any], hides: Callable[[str], bool]) -> str:
    """What differs from the version before, of the columns that are shown."""
    names = [name for name in row if not hides(name) and name not in _OF_VERSIONS]
    return ", ".join(f"{name} = {row[name]}" for name in names if before.get(name) != row[name])


def _show_quarantine(table: LakeTable) -> None:
    """What could not be applied, by reason and one by one; raw records where they are asked for."""
    st.header("Quarantine")
    if not table.in_catalog:
        st.caption("`kedro lakehouse quarantine` shows it: here only tables in Iceberg are read.")
        return
    raw = st.checkbox("Show the raw records, which may hold personal data", key="raw")
    events = quarantined_events(opened_project(), table.name, raw=raw)
    if not events:
        st.caption("Nothing is quarantined.")
        return
    reasons = Counter((event["reasons"] or [""])[0] for event in events)
    counted = [{"reason": reason, "events": count} for reason, count in reasons.most_common()]
    show_bars(counted, of="reason", value="events", title="events")
    titles = {**_EVENTS, "raw": "Raw record"} if raw else _EVENTS
    show_rows(events[:_MOST_VERSIONS], titles, key="quarantine")
