"""What could not be applied to a table, and why: the events of its quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


def quarantined_events(
    project: Project, name: TableName, batch: int | None = None, *, raw: bool = False
) -> list[dict[str, Any]]:
    """The quarantined events of a table by batch, file and row, each with its reasons and their columns.

    Args:
        project: The project.
        name: A declared table.
        batch: Only the events of this batch.
        raw: Read the records too, as they arrived; they may hold personal data.
    """
    fields = ("_batch", "_position", "_reasons", "_columns", *(("_raw",) if raw else ()))
    rows = (_scanned if project.bind(name).in_catalog else _read)(project, name, batch, fields)
    events = []
    for row in rows:
        place = row["_position"] or {}
        event = {"batch": row["_batch"], "file": place.get("file"), "row": place.get("row")}
        event |= {"reasons": row["_reasons"], "columns": row.get("_columns") or []}
        events.append(event | ({"raw": row["_raw"]} if raw else {}))
    return sorted(events, key=lambda e: (e["batch"] or 0, e["file"] or "", e["row"] or 0))


def _scanned(
    project: Project, name: TableName, batch: int | None, fields: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Rows of a quarantine in Iceberg; without a JVM."""
    import pyiceberg.expressions as built

    found = project.catalog.find(name.with_suffix("quarantine"))
    if found is None:
        return []
    where: Any = built  # its models hide their positional arguments from type checkers
    wanted = where.AlwaysTrue() if batch is None else where.EqualTo("_batch", batch)
    there = {field.name for field in found.schema().fields}  # one of an earlier version names no columns
    scan = found.scan(row_filter=wanted, selected_fields=tuple(f for f in fields if f in there))
    rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return rows


def _read(
    project: Project, name: TableName, batch: int | None, fields: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Rows of a quarantine in another format; this starts Spark where there are any."""
    table = project.bind(name)
    state = table.state("quarantine")
    if state is None or not state.rows:
        return []
    rows = table.read("quarantine")
    wanted = rows if batch is None else rows.where(rows["_batch"] == batch)
    return [
        row.asDict(recursive=True)
        for row in wanted.select(*[f for f in fields if f in state.columns]).collect()
    ]
