"""Whose rows a table holds: from a person's identifier to the values that name the person in each table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.changes.subjects import SUBJECT, keys_of_subjects
from kedro_lakehouse.erasure.rows import subjects_frame
from kedro_lakehouse.errors import ConfigurationError, UnknownNameError
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True)
class Concerned:
    """A table with rows about subjects: the column that names them, and its values.

    ``direct``: the values are the persons' own identifiers, not keys of rows that lead to them. ``turn``:
    tables of an earlier turn are to be done before; those of one turn may be done side by side.
    """

    table: LakeTable
    column: str
    values: tuple[str, ...]
    direct: bool
    turn: tuple[int, bool]


def concerned(project: Project, values: Sequence[str], names: Sequence[str] = ()) -> list[Concerned]:
    """The tables with rows about subjects, in the order in which they are to be erased.

    A table whose rows lead to a person through another one comes before that one: as long as it is not done,
    the other one still says which rows are the person's. Requests come last: as long as they are there, the
    pipeline knows what is to be done.

    Raises:
        UnknownNameError: There is no such table with a ``subject``.
        ConfigurationError: A table goes ``through`` one that does not lead to a person.
    """
    tables = project.declarations.tables
    declared = [name for name, table in tables.items() if table.subject is not None]
    wanted = {TableName.parse(name) for name in names}
    if unknown := wanted - set(declared):
        raise UnknownNameError(
            option="--table",
            kind="table with a subject",
            name=str(min(unknown)),
            known=[str(name) for name in declared],
            remedy="Declare `subject` in tables.yml.",
        )
    if not declared:
        raise ConfigurationError(
            file="tables.yml",
            key="subject",
            problem="no table says which of its columns names a person.",
            remedy="Add `subject: <column>` to the tables with personal data.",
        )

    order = sorted(declared, key=lambda name: (_turn(project, name), str(name)))
    found = [_concerned(project, name, values) for name in order if not wanted or name in wanted]
    return [one for one in found if one.values]


def _turn(project: Project, name: TableName) -> tuple[int, bool]:
    """Where a table stands in the order of an erasure."""
    return -_distance(project, name, ()), project.table(name).erasure_requests is not None


def _distance(project: Project, name: TableName, seen: tuple[TableName, ...]) -> int:
    """Over how many other tables a table leads to a person."""
    subject = project.table(name).subject
    if subject is None or subject.through is None:
        return 0
    through = TableName.parse(subject.through)
    if through in (*seen, name):
        raise _misled(name, "the tables lead back to themselves.", "Let one of them name the person.")
    project.table(through)  # refuses a table that is not declared
    return 1 + _distance(project, through, (*seen, name))


def _concerned(project: Project, name: TableName, values: Sequence[str]) -> Concerned:
    table, subject, turn = project.bind(name), project.table(name).subject, _turn(project, name)
    assert subject is not None, name  # noqa: S101 - only such tables are asked
    if subject.through is None:
        as_stored = _as_stored(table, subject.column, values)
        return Concerned(table=table, column=subject.column, values=as_stored, direct=True, turn=turn)
    keys = _keys_that_lead(project, name, TableName.parse(subject.through), subject.is_, values)
    return Concerned(table=table, column=subject.column, values=keys, direct=False, turn=turn)


def _as_stored(table: LakeTable, name: str, values: Sequence[str]) -> tuple[str, ...]:
    """The values as Spark writes those of the column's type: 7 is 7.0 in a column of doubles."""
    if table.state("changes") is None:
        return tuple(values)
    typed = subjects_frame(table, table.changes, name, values)
    rows = typed.select(column(SUBJECT).cast("string").alias(SUBJECT)).collect()
    return tuple(row[SUBJECT] for row in rows)


def _keys_that_lead(
    project: Project, name: TableName, through: TableName, named_by: str | None, values: Sequence[str]
) -> tuple[str, ...]:
    """The keys of the rows of a table that are, or were, about subjects, as text."""
    table, subject = project.bind(through), project.table(through).subject
    if len(table.contract.keys) != 1:
        remedy = f"Name a table with one key column in `through`, not {through}."
        raise _misled(name, f"{through} has not one key column.", remedy)
    if named_by is None and subject is None:
        raise _misled(
            name, f"{through} declares no `subject`.", "Declare it there, or name a column in `is`."
        )
    if named_by is None or (subject is not None and subject.column == named_by):
        assert subject is not None, name  # noqa: S101 - as is known by now
        column_there, values = subject.column, _concerned(project, through, values).values
    else:
        column_there = named_by
    if table.state("changes") is None or not values:
        return ()
    subjects = subjects_frame(table, table.changes, column_there, values)
    keys = keys_of_subjects(table.read("changes"), table.contract, column_there, subjects)
    (key,) = table.contract.keys
    rows = keys.select(column(key).cast("string").alias(SUBJECT)).where(F.col(SUBJECT).isNotNull()).collect()
    return tuple(sorted(row[SUBJECT] for row in rows))


def _misled(name: TableName, problem: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        file="tables.yml", key=f"{name}.subject.through", problem=problem, remedy=remedy
    )
