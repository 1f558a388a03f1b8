"""What is wrong with the reference tables of ``enrich``, given all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.config.sources import TableProblem
from kedro_lakehouse.errors import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kedro_lakehouse.config.enrich import EnrichConfig
    from kedro_lakehouse.config.tables import TableConfig


def reference_problems(owner: str, tables: Mapping[str, TableConfig]) -> Iterator[TableProblem]:
    """What is wrong with the references of one table, given all tables by name."""
    for number, entry in enumerate(tables[owner].enrich):
        key, found = f"{owner}.enrich[{number}]", tables.get(entry.table)
        if found is None:
            problem = f"no table '{entry.table}' is declared.{did_you_mean(entry.table, tables)}"
            yield TableProblem(f"{key}.table", problem, "Declare it.")
        elif found.write != "merge":
            problem = f"'{entry.table}' has no keys: a lookup could find several rows."
            yield TableProblem(f"{key}.table", problem, "Look up in a table with keys.")
        elif lacking := sorted(set(found.keys) - set(entry.on.values())):
            problem = f"the lookup names no column for {listed(lacking)}, a part of the reference's key."
            yield TableProblem(f"{key}.on", problem, "Name one: else a lookup could find several rows.")
        elif entry.as_of == "arrival" and not found.current:
            problem = f"'{entry.table}' keeps no current table."
            yield TableProblem(f"{key}.table", problem, "Keep it, or use 'as_of: event'.")
        elif entry.as_of == "event" and found.history is None:
            problem = f"'{entry.table}' keeps no history that could say what it was at the time of an event."
            yield TableProblem(f"{key}.as_of", problem, f"Write `history: true` at '{entry.table}'.")
        elif entry.as_of == "event" and (untracked := _untracked(entry, found)):
            problem = f"the history of '{entry.table}' does not track '{untracked}'."
            yield TableProblem(f"{key}.columns", problem, "Track it there: see `history.track`.")


def _untracked(entry: EnrichConfig, reference: TableConfig) -> str | None:
    """The first looked up column whose change opens no version."""
    track = reference.history.track if reference.history else None
    for name in entry.columns:
        if name in reference.keys or track is None:
            continue
        if name in (track.exclude or ()) or (track.include is not None and name not in track.include):
            return name
    return None
