"""The SQL of all declarations: conditions of checks, and the queries of derived tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.errors import did_you_mean, listed
from kedro_lakehouse.preview.known_columns import known_columns
from kedro_lakehouse.preview.mistakes import Mistake, at
from kedro_lakehouse.preview.sql_text import (
    parse_condition,
    parse_query,
    resolve_query,
    unknown_in_condition,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


def wrong_sql(project: Project, *, reach: bool) -> tuple[int, list[Mistake]]:
    """How many texts of SQL there are, and all that is wrong with them and with names of columns."""
    texts, found = _looked(project, reach=reach, thorough=False)
    return _looked(project, reach=reach, thorough=True) if found else (texts, found)


def _looked(project: Project, *, reach: bool, thorough: bool) -> tuple[int, list[Mistake]]:
    look = _Look(project, reach=reach, thorough=thorough)
    found = [mistake for name in project.declarations.tables for mistake in look.of_table(name)]
    return look.texts, [*found, *look.of_suites()]


class _Look:
    """One look at all tables: the columns of each are found once."""

    def __init__(self, project: Project, *, reach: bool, thorough: bool) -> None:
        self._project, self._columns = project, dict[str, "Collection[str] | None"]()
        self._reach, self._thorough = reach, thorough
        self.texts = 0

    def of_table(self, name: TableName) -> list[Mistake]:
        """What is wrong with the SQL and the names of columns of one table."""
        config, mistakes = self._project.declarations.tables[name], list[Mistake]()
        if config.derive is not None:
            self.texts += 1
            mistakes += self._of_query(name)
        columns = self._of(str(name)) if config.checks else None
        for check, text in config.checks.items():
            self.texts += 1
            parsed, key = parse_condition(text), f"{name}.checks.{check}"
            if parsed.tree is not None and columns is not None:
                parsed.found += unknown_in_condition(parsed.tree, columns)
            for one in parsed.found:
                mistakes.append(at(self._project, "tables.yml", key, one.problem, one.remedy, below=one.line))
        for number, expectation in enumerate(config.expectations):
            key = f"{name}.expectations[{number}]"
            mistakes += self._unknown("tables.yml", key, str(name), expectation.columns)
        return mistakes

    def of_suites(self) -> list[Mistake]:
        """Columns of suites across tables that the tables do not have."""
        found = list[Mistake]()
        for suite, config in self._project.declarations.suites.items():
            for number, one in enumerate(config.expectations):
                key = f"{suite}.expectations[{number}]"
                found += self._unknown("expectations.yml", key, one.table, one.columns)
                if one.other_table is not None:
                    others = one.other_column_list or one.column_list
                    found += self._unknown("expectations.yml", key, one.other_table, others)
        return found

    def _unknown(self, file: str, key: str, table: str, names: Sequence[str]) -> Iterator[Mistake]:
        """The names that are no columns of a table; those that begin with '_' are the framework's."""
        columns = self._of(table) if names else None
        known = {one.lower() for one in columns or ()}
        for name in names if columns is not None else ():
            if name.lower() not in known and not name.startswith("_"):
                problem = f"'{table}' has no column '{name}'.{did_you_mean(name, columns or ())}"
                remedy = f"Columns are: {listed(sorted(columns or ()))}."
                yield at(self._project, file, key, problem, remedy)

    def _of(self, name: str) -> Collection[str] | None:
        """The columns of a table; None where they are not known. The query of a derived one tells its own."""
        if name not in self._columns:
            self._columns[name] = None  # in a circle of tables, nothing is known
            tables = {str(one): one for one in self._project.declarations.tables}
            if name in tables:
                self._columns[name] = self._found(tables[name])
        return self._columns[name]

    def _found(self, name: TableName) -> Collection[str] | None:
        table = self._project.bind(name)
        if table.config.derive is None:
            return known_columns(table, reach=self._reach, thorough=self._thorough)
        parsed = parse_query(table.config.derive.sql)
        resolve_query(parsed, self._inputs(name))
        if parsed.outputs is None:
            return None
        rename = table.config.rename
        kept = table.config.columns_kept
        found = {rename.get(one, one) for one in parsed.outputs}
        return frozenset(found if kept is None else found & kept)

    def _inputs(self, name: TableName) -> dict[str, Collection[str] | None]:
        derive = self._project.declarations.tables[name].derive
        return {alias: self._of(table) for alias, table in (derive.inputs if derive else {}).items()}

    def _of_query(self, name: TableName) -> Iterator[Mistake]:
        config = self._project.declarations.tables[name]
        assert config.derive is not None  # noqa: S101 - the caller looked
        parsed = parse_query(config.derive.sql)
        resolve_query(parsed, self._inputs(name))
        key = f"{name}.derive.sql"
        for one in parsed.found:
            yield at(self._project, "tables.yml", key, one.problem, one.remedy, below=one.line)
        if parsed.outputs is None or parsed.found:
            return
        given = {config.rename.get(one, one).lower() for one in parsed.outputs}
        for wanted in config.keys:
            if wanted.lower() not in given:
                problem = f"the query gives no column '{wanted}'.{did_you_mean(wanted, parsed.outputs)}"
                remedy = f"It gives: {listed(parsed.outputs)}."
                yield at(self._project, "tables.yml", f"{name}.keys", problem, remedy)
