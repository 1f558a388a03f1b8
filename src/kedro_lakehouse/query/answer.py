"""Answer one read-only query: the tables it names come from pyiceberg as Arrow, DuckDB does the rest."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import did_you_mean
from kedro_lakehouse.names import CATALOG, SPARK_CATALOG
from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.query.lake import QueriedLake
from kedro_lakehouse.query.parse import CORRECT_IT, first_line, parse_query
from kedro_lakehouse.query.scan import BothScan, GrantedScan, TableScan, ViewScan, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.grants.access import RoleAccess
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.query.parse import Query
    from kedro_lakehouse.session.catalog import MetadataCatalog

READINGS: Final = 5
"""How often a query is tried whose tables lose the files that it reads: an erasure lets earlier states go."""
_BOTH: Final[tuple[Role, ...]] = ("current", "archive", "changes")
_NUMBERS: Final = ("INT", "DECIMAL", "DOUBLE", "FLOAT")
# Nothing but the tables given to it is in a query's reach: no file, no network, no Python variable.
_LOCKED_IN: Final[dict[str, str | bool | int | float | list[str]]] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
}
_SOURCES_OF_ROLES: Final = frozenset({"DESCRIBE", "SUMMARY", "range", "generate_series", "unnest"})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The rows of an answer.

    Attributes:
        numbers: The columns of numbers.
        cut: There are more rows.
        tables: The tables and views that were read.
    """

    columns: Sequence[str]
    numbers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    cut: bool
    tables: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query whose tables have been read: DuckDB has their rows, and nothing else."""

    connection: DuckDBPyConnection
    scans: Sequence[TableScan]


def run_query(  # noqa: PLR0913 - what to ask, and of what
    catalog: MetadataCatalog,
    text: str,
    *,
    as_of: datetime | None = None,
    limit: int | None = None,
    declared: Collection[str] = (),
    views: Mapping[str, tuple[TableName, TableConfig]] | None = None,
    elsewhere: Mapping[str, str] | None = None,
    both: Mapping[str, tuple[TableName, TableConfig]] | None = None,
    role: RoleAccess | None = None,
) -> Answer:
    """Answer one query over the tables as they are now, or as they were published at a time.

    ``views`` maps the name of each declared view to the table whose history it shows, ``both`` the name
    ``ns.table_all`` to the table that it shows with its archive, ``elsewhere`` the name of each table and
    view that is not in Iceberg to its format. With a ``role`` DuckDB is given what the role may see and
    nothing else; archives are not granted.

    Raises:
        QueryError: It is not one query, names something unknown, or fails while it runs.
    """
    lake = QueriedLake(
        declared=frozenset(declared), views=views or {}, elsewhere=elsewhere or {}, both=both or {}, role=role
    )
    return answer_over(catalog, text, lake, as_of=as_of, limit=limit)


def answer_over(
    catalog: MetadataCatalog,
    text: str,
    lake: QueriedLake,
    *,
    as_of: datetime | None = None,
    limit: int | None = None,
) -> Answer:
    """Answer one query over the names that it may use.

    Raises:
        QueryError: It is not one query, names something unknown, or fails while it runs.
    """
    more = None if limit is None else limit + 1
    with asked(catalog, text, lake, as_of=as_of, limit=more) as found, gives_up():
        cursor = found.connection.execute(text)
        rows = cursor.fetchall() if more is None else cursor.fetchmany(more)
        header = [(str(column[0]), str(column[1]).partition("(")[0]) for column in cursor.description or ()]
    return Answer(
        columns=[name for name, _ in header],
        numbers=[name for name, kind in header if any(number in kind for number in _NUMBERS)],
        rows=rows[:limit],
        cut=limit is not None and len(rows) > limit,
        tables=[scan.name for scan in found.scans],
    )


@contextmanager
def asked(  # noqa: PLR0913 - what to ask, and of what
    catalog: MetadataCatalog,
    text: str,
    lake: QueriedLake,
    *,
    as_of: datetime | None = None,
    limit: int | None = None,
    settings: Mapping[str, str | int] | None = None,
) -> Iterator[Asked]:
    """Give DuckDB the rows that a query needs; the block runs the query, and reads the answer.

    Args:
        limit: At most so many rows of the answer will be looked at.
        settings: DuckDB's own, such as its limit of memory.

    Raises:
        QueryError: It is not one query, or it names something unknown.
    """
    import duckdb

    with duckdb.connect(config={**_LOCKED_IN, **(settings or {})}) as connection:
        query = parse_query(text, connection, limit=limit)
        # The name `lake` is the catalog's, so that both ns.table and lake.ns.table are found.
        connection.execute(f"ATTACH ':memory:' AS {CATALOG}; USE {CATALOG}; SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        if lake.role is not None:
            _refuse_ungranted(query, lake.role)
        for name in query.tables:
            if name in lake.elsewhere:
                raise _kept_elsewhere(name, lake.elsewhere[name], lake.role)
        find = partial(_scans, catalog, query, as_of, lake)
        scans = find()
        for scan in scans:
            _register(connection, scan, scan.empty())
        try:
            connection.sql(text)  # reports wrong names, of all columns, before any row is read
        except duckdb.Error as error:
            raise _query_error(error) from error
        with gives_up():
            if not query.only_schema:
                found = _read(scans, find, query)
                scans = [scan for scan, _ in found]
                for scan, rows in found:
                    _register(connection, scan, rows, query)
        yield Asked(connection=connection, scans=scans)


@contextmanager
def gives_up() -> Iterator[None]:
    """Turn what DuckDB says once it has rows, which may quote a value, into the kind of its error."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise _gave_up(error) from error


def _read(
    scans: Sequence[TableScan], find: Callable[[], list[TableScan]], query: Query
) -> list[tuple[TableScan, pa.Table]]:
    """The tables with their rows; where files went that their states had, they are found again.

    Raises:
        QueryError: Files went each time that it was tried.
    """
    for number in range(READINGS):
        with suppress(FileNotFoundError):
            return [(scan, scan.read(query.of(scan.name))) for scan in (find() if number else scans)]
    raise files_went_each_time()


def files_went_each_time() -> QueryError:
    """The error of a query that was tried often enough."""
    return QueryError(
        problem="Files of the tables went while they were read, each time that it was tried.",
        remedy="Ask again when the erasure or maintenance that removes them is done.",
    )


def _scans(
    catalog: MetadataCatalog, query: Query, as_of: datetime | None, lake: QueriedLake
) -> list[TableScan]:
    if unread := sorted(lake.pins.keys() - {*query.tables}):
        raise QueryError(
            problem=f"A snapshot of '{unread[0]}' is given, and the query does not read that table.",
            remedy="Name the snapshots of tables that stand in FROM.",
        )
    if not query.tables:
        return []
    views, both = lake.views, lake.both
    if as_of is not None and (now := next((name for name in query.tables if name in both), None)):
        raise QueryError(
            problem=f"'{now}' shows a table and its archive as they are now.",
            remedy="Ask each of them by --as-of.",
        )
    spaces = [space[0] for space in catalog.catalog.list_namespaces()]
    existing = {".".join(name).lower(): tuple(name) for space in spaces for name in catalog.tables(space)}
    stored = {n: str(views[n][0].with_suffix("history")) if n in views else n for n in query.tables}
    stored |= {n: str(both[n][0]) for n in query.tables if n in both}
    unknown = next((name for name in query.tables if stored[name] not in existing), None)
    if unknown:
        known = [*existing, *views, *both, *lake.elsewhere]
        raise _unknown(unknown, known, {*lake.declared, *views, *both})

    def scan(name: str) -> TableScan:
        if name in both:
            # The current table first: a move that ends meanwhile is not counted in the archive then.
            roles = [(kind, str(both[name][0].with_suffix(kind))) for kind in _BOTH]
            return BothScan(
                {r: catalog.load_table(existing[n]) for r, n in roles if n in existing}, both[name]
            )
        table, access = catalog.load_table(existing[stored[name]]), lake.access(name)
        if name in views:
            return ViewScan(table, views[name], as_of, access)
        pin = lake.pins.get(name)
        if access is not None:
            return GrantedScan(table, name, as_of, access, pin)
        return TableScan(table, name, as_of, pin)

    return [scan(name) for name in query.tables]


def _refuse_ungranted(query: Query, role: RoleAccess) -> None:
    """Refuse a query of a role that reads something else than tables which the role may see."""
    if outside := sorted(query.sources - _SOURCES_OF_ROLES):
        raise QueryError(
            problem=f"A role's query reads granted tables only, not '{outside[0]}'.",
            remedy="Name tables in FROM.",
        )
    for name in query.tables:
        access = role.by_name.get(name)
        if access is None:
            # One answer whether there is such a table or not.
            raise QueryError(
                problem=f"The role '{role.role}' sees no table '{name}'.{did_you_mean(name, role.by_name)}",
                remedy=f"`kedro lakehouse grants show {role.role}` lists what it sees.",
            )
        if not access.reads and not query.only_schema:
            raise QueryError(
                problem=f"The role '{role.role}' may describe '{name}', and read no row of it.",
                remedy=f'Ask `kedro lakehouse sql "describe {name}" --as {role.role}`.',
            )


def _kept_elsewhere(name: str, table_format: str, role: RoleAccess | None) -> QueryError:
    return QueryError(
        problem=f"The table '{name}' is kept in {table_format}: without Spark only Iceberg is read.",
        remedy="Ask for it without `--as`: Spark reads whole tables."
        if role
        else f"Add `--engine spark`, and write {SPARK_CATALOG}.{name}, in Spark's SQL.",
    )


def _unknown(name: str, existing: Collection[str], declared: Collection[str]) -> QueryError:
    if name in declared:
        return QueryError(
            problem=f"The table '{name}' holds nothing yet.",
            remedy="Run `kedro run` after its files have landed.",
        )
    whole = [known for known in existing if known.endswith(f".{name}")]
    near = f" Did you mean '{whole[0]}'?" if whole else did_you_mean(name, existing)
    return QueryError(
        problem=f"The lake has no table '{name}'.{near}",
        remedy='`kedro lakehouse sql "show tables"` lists them.',
    )


def _register(
    connection: DuckDBPyConnection, scan: TableScan, rows: pa.Table, query: Query | None = None
) -> None:
    namespace, _, table = scan.name.partition(".")
    connection.register(f"__{scan.name}", rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(namespace)}")
    view = f"{CATALOG}.{quoted(namespace)}.{quoted(table)}"
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS {scan.select(quoted(f'__{scan.name}'), query)}")


def _query_error(error: Exception) -> QueryError:
    """DuckDB's error: in full where it speaks of the query, by kind alone where it may quote a value."""
    import duckdb

    if isinstance(error, duckdb.PermissionException):
        return QueryError(problem=first_line(error), remedy="A query reads the lake's tables only.")
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return QueryError(problem=first_line(error), remedy=CORRECT_IT)
    return _gave_up(error)


def _gave_up(error: Exception) -> QueryError:
    return QueryError(
        problem=f"DuckDB gave up while it ran the query: {type(error).__name__}.",
        remedy="A value may not fit its type: try_cast gives NULL where cast fails.",
    )
