"""Questions of pages in SQL: answered read-only, by what the role may see whose view the console is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from kedro_lakehouse.console.lake import opened_project, role_access
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.query.answer import answer_over
from kedro_lakehouse.query.lake import QueriedLake
from kedro_lakehouse.query.scan import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.query.answer import Answer


def answer(query: str, limit: int) -> Answer | None:
    """The answer to one query; None where it fails, which is shown in its place."""
    project = opened_project()
    lake = QueriedLake.of(project, role_access())
    try:
        return answer_over(project.catalog, query, lake, limit=limit)
    except LakehouseError as error:
        st.error("This query has no answer:")
        st.text(str(error))
        return None


def rows_where(table: TableName, values: Mapping[str, str], order: str | None = None) -> str:
    """The query for a table's rows that have these values, which are written as text."""
    where = " AND ".join(f"{quoted(name)} = {_text(value)}" for name, value in values.items())
    ordered = f" ORDER BY {quoted(order)}" if order else ""
    name = f"{quoted(table.namespace)}.{quoted(table.table)}"
    return f"SELECT * FROM {name}{f' WHERE {where}' if where else ''}{ordered}"  # noqa: S608 - quoted


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def show_answer(
    found: Answer, key: str, *, first: Sequence[str] = (), hides: Callable[[str], bool] | None = None
) -> None:
    """Show the rows of an answer; a value for which a grid has no kind of cell is shown as text.

    Args:
        found: The answer.
        key: The name of the grid.
        first: Columns that come before the others.
        hides: Whether a column is not shown.
    """
    names = _distinct(found.columns)
    shown = [name for name in names if hides is None or not hides(name)]
    shown.sort(key=lambda name: name not in first)
    rows = [dict(zip(names, map(_cell, row), strict=True)) for row in found.rows]
    if not rows:
        st.caption(f"No rows. Columns: {', '.join(shown)}")
        return
    st.dataframe([{n: row[n] for n in shown} for row in rows], hide_index=True, placeholder="", key=key)
    if found.cut:
        st.caption(f"The first {len(rows):,} rows; there are more.")


def _distinct(columns: Sequence[str]) -> list[str]:
    """The names of an answer's columns; of two that are equal the second one gets a number."""
    names: list[str] = []
    for name in columns:
        same = sum(1 for known in names if known == name or known.startswith(f"{name} ("))
        names.append(f"{name} ({same + 1})" if same else name)
    return names


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)
