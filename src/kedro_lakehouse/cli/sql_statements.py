"""Statements of ``kedro lakehouse sql`` that ask for names: show tables, show namespaces, describe."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.names import CATALOG, OPS_NAMESPACE, ROLES, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.grants.access import RoleAccess
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.answer import Answer

_SHOW: Final = re.compile(
    r"\s*show\s+(?:(?P<tables>all\s+tables|tables)(?:\s+(?:from|in)\s+(?P<space>\w+))?"
    r"|namespaces|schemas|databases)\s*;?\s*",
    re.IGNORECASE,
)
_DESCRIBE: Final = re.compile(
    rf"\s*desc(?:ribe)?\s+(?:table\s+)?(?:{CATALOG}\.)?(?P<table>\w+\.\w+)\s*;?\s*", re.IGNORECASE
)
_KINDS: Final = {
    "current": "rows as they are now",
    "changes": "change log",
    "quarantine": "records that could not be applied",
    "history": "all versions",
    "archive": "rows that were moved away",
}
_VIEW, _BOTH, _OWN, _OTHER = "view of a history", "rows and archive together", "the project's own", "table"
Named = tuple[str, str, str, int | None]
"""A name that queries may use, what it is, its format, and its rows where they are known."""


def asks_for_names(text: str) -> bool:
    """Whether a text is ``show tables`` or ``show namespaces``."""
    return _SHOW.fullmatch(text) is not None


def shown_names(project: Project, text: str, access: RoleAccess | None) -> Answer | None:
    """The answer to ``show tables`` or ``show namespaces``; None of any other text. Starts no Spark.

    A role is told the names that it sees, and no numbers of rows: some of them may not be for it.
    """
    from kedro_lakehouse.query.answer import Answer

    asked = _SHOW.fullmatch(text)
    if asked is None:
        return None
    found = sorted({one[0]: one for one in _names(project)}.values())
    if access is not None:
        found = [one for one in found if one[0] in access.by_name]
    if asked["tables"] is None:
        spaces: dict[str, int] = {}
        for name, *_ in found:
            space = name.partition(".")[0]
            spaces[space] = spaces.get(space, 0) + 1
        rows: list[Sequence[object]] = [[*one] for one in spaces.items()]
        return Answer(columns=["namespace", "tables"], numbers=["tables"], rows=rows, cut=False)
    if asked["space"]:
        found = [one for one in found if one[0].partition(".")[0] == asked["space"].lower()]
    columns, told = ["table", "what", "format", "rows"], slice(None if access is None else 3)
    rows = [[*one][told] for one in found]
    return Answer(columns=columns[told], numbers=["rows"], rows=rows, cut=False)


def _names(project: Project) -> Iterator[Named]:
    """The tables and views that are there: those of declarations, and all others of the catalog."""
    catalog, known = project.catalog, set[str]()
    with catalog.listed():
        for name in project.declarations.tables:
            for one in _of_table(project.bind(name)):
                known.add(one[0])
                yield one
        for space, table in catalog.all_tables():
            if (whole := f"{space}.{table}") not in known:
                yield whole, _OWN if space == OPS_NAMESPACE else _OTHER, "iceberg", None


def _of_table(table: LakeTable) -> Iterator[Named]:
    """The stored tables of a declared one that are there, and the views over them."""
    from kedro_lakehouse.formats.view import view_name
    from kedro_lakehouse.monitoring.table_status import summary_of

    there: dict[str, int] = {}
    for role in ROLES:
        summary = summary_of(table, role)
        if summary is not None:
            there[role] = summary.rows
            yield str(table.stored(role)), _KINDS[role], table.format_name, summary.rows
    history = table.config.history
    if history and history.view and "history" in there:
        yield str(view_name(table.name, history.view)), _VIEW, table.format_name, there["history"]
    if table.config.retention is not None and "current" in there:
        yield f"{table.name}_all", _BOTH, table.format_name, None


def described_table(text: str) -> str | None:
    """The name in ``describe TABLE``, in lower case; None of any other text."""
    asked = _DESCRIBE.fullmatch(text)
    return asked["table"].lower() if asked else None


def with_notes(project: Project, name: str, answer: Answer) -> Answer:
    """The columns and types of a description, and which of them are keys or the framework's own."""
    owner = _owner(project, name)
    keys = {key.lower() for key in project.table(owner).keys} if owner else set()
    rows = [[*row[:2], _note(str(row[0]), keys)] for row in answer.rows]
    return replace(answer, columns=[*answer.columns[:2], "note"], numbers=[], rows=rows)


def description_elsewhere(project: Project, name: str) -> Answer | None:
    """The description of a table that is not in Iceberg, where its format can be read without a JVM."""
    from kedro_lakehouse.ops.table_summary import Glanceable
    from kedro_lakehouse.query.answer import Answer

    owner = _owner(project, name)
    table = project.bind(owner) if owner else None
    if owner is None or table is None or table.in_catalog or not isinstance(table.format, Glanceable):
        return None
    role = next(role for role in ROLES if str(owner.with_suffix(role)) == name)
    state = table.state(role)
    if state is None:
        return None
    rows = [[column, kind.simpleString()] for column, kind in state.columns.items()]
    return Answer(columns=["column_name", "column_type"], numbers=[], rows=rows, cut=False)


def _owner(project: Project, stored: str) -> TableName | None:
    """The declared table to which a stored one belongs."""
    declared = project.declarations.tables
    return next((t for t in declared if stored in (str(t.with_suffix(role)) for role in ROLES)), None)


def _note(column: str, keys: set[str]) -> str:
    if column.lower() in keys:
        return "key"
    return "framework" if is_reserved_column(column) else ""
