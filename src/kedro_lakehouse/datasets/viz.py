"""What kedro-viz shows of stored tables: figures, and some rows; it starts no JVM, shows nothing personal."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final, NewType

from kedro_lakehouse.monitoring.table_status import summary_of
from kedro_lakehouse.names import ROLES, is_reserved_column, quote
from kedro_lakehouse.session.spark import spark_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

# kedro-viz recognizes the kind of a preview by the name of the type that `preview` returns.
TablePreview = NewType("TablePreview", dict[str, Any])

_EXACT_IN_JSON: Final = 2**53
_CLOSED: Final = "(personal)"
_RAW: Final = "_raw"
_STATS: Final = ".viz/stats.json"


def preview_rows(
    project: Project, name: TableName, stored: TableName, *, nrows: int, framework: Collection[str] = ()
) -> TablePreview:
    """Some published rows, in no particular order; closed columns are shown without their values.

    A column is closed if the declaration tags it ``personal`` or ``payment`` and not ``public``: its values
    are not read. Raw records are never shown.

    Args:
        stored: The stored table, one of those that belong to ``name``.
        framework: The framework's columns that are shown; others are left out.
    """
    table = _readable(project, name, stored)
    if table is None:
        return TablePreview({"index": [], "columns": [], "data": []})
    fields, read_rows = table
    shown = [n for n in fields if n != _RAW and (n in framework or not is_reserved_column(n))]
    closed = closed_columns(project.table(name))
    read = [n for n in shown if n.lower() not in closed]
    rows = read_rows(read or shown[:1], nrows)
    data = [[_CLOSED if n.lower() in closed else _plain(row[n]) for n in shown] for row in rows]
    return TablePreview({"index": list(range(len(data))), "columns": shown, "data": data})


def _readable(
    project: Project, name: TableName, stored: TableName
) -> tuple[Sequence[str], Callable[[Sequence[str], int], list[dict[str, Any]]]] | None:
    """A table's columns, and a function that reads some of its rows; None where it cannot be read.

    Iceberg is read without a JVM, other formats by a Spark session that runs already: a preview starts none.
    """
    if project.bind(name).in_catalog:
        found = project.catalog.find(stored)
        if found is None:
            return None
        scan = found.scan
        return [
            f.name for f in found.schema().fields
        ], lambda names, limit: scan(selected_fields=tuple(names), limit=limit).to_arrow().to_pylist()
    table_format = project.format_of(name)
    if not spark_runs() or table_format.state(stored) is None:
        return None
    rows = table_format.read(stored)
    return rows.columns, lambda names, limit: [
        row.asDict(recursive=True) for row in rows.select(*map(quote, names)).limit(limit).collect()
    ]


def closed_columns(table: TableConfig) -> frozenset[str]:
    """The columns, in lower case, whose values a preview may not show."""
    public = table.tagged.get("public", ())
    return frozenset(map(str.lower, table.personal_columns)) - frozenset(map(str.lower, public))


def _plain(value: object) -> object:
    """A value as JSON and JavaScript hold it without loss; what they have no type for is text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if abs(value) <= _EXACT_IN_JSON else str(value)  # false for a NaN, which becomes text
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def write_viz_stats(project: Project, folder: Path) -> None:
    """Add the figures of every stored table to the file that kedro-viz keeps in the project's folder.

    kedro-viz measures pandas frames only, and writes the file anew after each run; where it is not installed
    there is no such file, and none is made. Only metadata is read.
    """
    file = folder / _STATS
    if not file.is_file():
        return
    stats = json.loads(file.read_text(encoding="utf-8") or "{}")
    for name in project.declarations.tables:
        for role in ROLES:
            found = summary_of(project.bind(name), role)
            if found is not None:
                figures = {"rows": found.rows, "columns": found.columns, "file_size": found.size}
                stats[f"{name}.{role}"] = figures
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(stats), encoding="utf-8")
    fresh.replace(file)
