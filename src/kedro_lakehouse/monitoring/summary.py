"""The table at the end of a run: what happened to each table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import counted, listed
from kedro_lakehouse.monitoring.runs import failures
from kedro_lakehouse.ops.report import FOLDED

if TYPE_CHECKING:
    from collections.abc import Collection

    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.project import Project

_WIDTH: Final = 120
_NARROW: Final = 114
"""On a terminal with fewer columns the table has no lines and only the counts that are not zero."""
_HEADINGS: Final = ("table", "batch", "events", "quarantined", "current  + ~ -", "history  + ~ -", "outcome")
_SHORT: Final = ("table", "batch", "events", "bad", "current", "history", "outcome")


def print_summary(
    project: Project, error: Exception | None, reached: Collection[str], unreached: Collection[str]
) -> None:
    """Print a line for each table that changed or failed, and one for all others.

    Args:
        project: The project after the run.
        error: What the run ended with.
        reached: The tables of which every planned node ran.
        unreached: The tables that need one that failed.
    """
    from rich.console import Console
    from rich.table import Table

    failed = failures(error)
    changed = {r.table for r in project.reports}
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    narrow = console.width < _NARROW
    looks: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0)} if narrow else {}
    view = Table(title=f"Run {project.run_id}", title_justify="left", expand=False, **looks)
    for heading in _SHORT if narrow else _HEADINGS:
        view.add_column(
            heading,
            justify="left" if heading in ("table", "outcome") else "right",
            no_wrap=heading == "table",
        )
    for name in sorted({*map(str, project.declarations.tables), *changed}):
        if name in changed or name in failed:
            outcome = (
                f"[red]failed: {getattr(failed[name], 'code', type(failed[name]).__name__)}"
                if name in failed
                else "[green]done"
            )
            reports = [r for r in project.reports if r.table == name]
            view.add_row(name, *_cells(reports, narrow=narrow), outcome)
    if changed or failed:
        console.print(view)
    others = set(map(str, project.declarations.tables)) - set(changed) - set(failed)
    if quiet := others & set(reached) if "" not in failed else set():
        console.print(f"{counted(len(quiet), 'table')} had nothing new.")
    if waiting := sorted(others & set(unreached)):
        console.print(f"Not reached, as a table that they need failed: {listed(waiting)}.")


def _cells(reports: list[CommitReport], *, narrow: bool) -> list[str]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counts)
    batch = max((r.batch for r in reports), default=0)

    def figures(stage: str, *names: str) -> str:
        if folded := sum(r.counts.get(FOLDED, 0) for r in reports if r.stage == stage):
            return f"{folded:,} {FOLDED}"
        if narrow:
            signed = zip("+~-", names, strict=True)
            return " ".join(f"{sign}{total[n]:,}" for sign, n in signed if total[n])
        return " / ".join(f"{total[n]:,}" for n in names)

    return [
        str(batch) if batch else "",
        f"{total['applied']:,}",
        f"{total['quarantined']:,}",
        figures("current", "inserted", "updated", "deleted"),
        figures("history", "opened", "closed", "removed"),
    ]
