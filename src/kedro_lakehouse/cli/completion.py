"""What a shell completes by Tab: names of tables. It reads declarations, starts nothing, and never fails."""

from __future__ import annotations

import re
from contextlib import redirect_stderr, suppress
from io import StringIO
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import click

    from kedro_lakehouse.project import Project

_LAST_WORD = re.compile(r"[\w.]*$")


def complete_tables(ctx: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The declared tables whose names begin so."""
    project = _project(ctx)
    names = sorted(map(str, project.declarations.tables)) if project else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_query(ctx: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The query with its last word completed to the name of a table that queries may use."""
    project = _project(ctx)
    found = _LAST_WORD.search(incomplete)
    last = found.group() if found else ""
    if project is None or not last:
        return []
    from kedro_lakehouse.query.lake import QueriedLake

    lake, before = QueriedLake.of(project), incomplete[: len(incomplete) - len(last)]
    names = sorted({*lake.declared, *lake.views, *lake.both})
    return [CompletionItem(before + name) for name in names if name.startswith(last.lower())]


def _project(ctx: click.Context) -> Project | None:
    """The project around the working folder; None where there is none, or it is wrong."""
    from kedro_lakehouse.cli.options import open_project

    with suppress(Exception), redirect_stderr(StringIO()), ctx.scope(cleanup=False):
        return open_project()
    return None
