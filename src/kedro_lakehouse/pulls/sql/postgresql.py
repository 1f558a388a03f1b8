"""PostgreSQL, read with Arrow's own driver (ADBC) in one transaction, as its rows were at one moment."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.errors import cut, require
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, Pull
from kedro_lakehouse.pulls.sql.dialect import (
    MAX_DIGITS,
    OVERLAP,
    Bound,
    SqlColumn,
    literal,
    made_exact,
    quoted,
    sees_no_transactions,
    tables_in,
    to_decimal,
)
from kedro_lakehouse.pulls.sql.reader import CLOSED, Calls, SqlReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adbc_driver_manager import AdbcDatabase
    from adbc_driver_manager.dbapi import Connection

    from kedro_lakehouse.pulls.protocol import CrawledEntity, Entity, Since
    from kedro_lakehouse.pulls.sql.dialect import SqlTable

_APPLICATION: Final = "kedro-lakehouse pull"
_CONNECT_SECONDS: Final = 10
_AS_THEY_ARE: Final = frozenset(
    {
        "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "bytea",
        "date", "timestamp", "timestamptz", "json", "jsonb",
    }
)  # fmt: skip
"""Types whose values the driver carries exactly; all others are selected as text."""
_FIRST_DAY: Final = -2_440_588
_FIRST_MICROSECOND: Final = -210_866_803_200_000_000
"""4713 BC, where PostgreSQL's calendar begins: infinity arrives as a number before it."""
_TIMES: Final = ("timestamp", "timestamptz")
_PASSES: Final = ("08", "40", "53", "55P03", "57P", "58")
"""Beginnings of SQLSTATE that may pass by itself."""
_STATE: Final = re.compile(r"SQLSTATE: ?(\w{5})")
_NOT_YET: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")

_TABLES: Final = """
SELECT n.nspname::text, pg_table_is_visible(c.oid)::int, c.relname::text, (c.relkind IN ('v', 'm'))::int,
       c.oid::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname
"""
_COLUMNS: Final = """
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       b.typname::text AS base, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS modifier
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN LATERAL (
    WITH RECURSIVE r AS (
        SELECT oid, typname, typtype, typbasetype FROM pg_type WHERE oid = a.atttypid
        UNION ALL
        SELECT p.oid, p.typname, p.typtype, p.typbasetype FROM pg_type p JOIN r ON p.oid = r.typbasetype
    ) SELECT typname FROM r WHERE typtype <> 'd' LIMIT 1
) b ON true
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS: Final = """
SELECT a.attname::text FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = {oid} AND i.indisprimary ORDER BY array_position(i.indkey::int2[], a.attnum)
"""
_END: Final = """
SELECT now()::text, (
    SELECT min(xact_start) FROM pg_stat_activity
    WHERE backend_type NOT IN ('autovacuum worker', 'walsender') AND pid <> pg_backend_pid()
      AND NOT (usename = current_user AND application_name = '{application}')
)::text,
pg_is_in_recovery(), (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
pg_has_role('pg_read_all_stats', 'usage'), current_setting('track_activities') = 'on'
"""


class PostgresReader(SqlReader):
    """Asks one table of PostgreSQL."""

    def __init__(self, table: SqlTable, credentials: Mapping[str, Any]) -> None:
        """Store the declarations and the secrets."""
        super().__init__(table, credentials)
        self._connection: Any = None
        self._calls = Calls()

    def describe(self) -> Entity:
        """The columns, the primary key, and the estimate of the number of rows."""
        if self._connection is None:
            self._connect()
        oid = self._oid()
        columns = self._columns_of(oid)
        keys = [row[0] for row in self._ask(_KEYS.format(oid=oid))]
        rows = self._ask(f"SELECT reltuples::bigint FROM pg_class WHERE oid = {oid}")[0][0]  # noqa: S608
        return self._table.entity_of(columns, keys, rows if rows >= 0 else None)

    def tables(self) -> list[CrawledEntity]:
        """All tables and views that the user may read."""
        self._connect()
        return tables_in(self._ask(_TABLES))

    def plan(self, since: Since) -> Pull | None:
        """Begin a transaction that sees one state; a window's end is asked before it."""
        self._connect()
        bound: Bound = since.shared["bound"] if since.shared is not None else self._bound()
        window = None
        if self._table.mode == "incremental":
            window = self._table.window(since, bound)
            if window is None:
                return None
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if since.shared is not None:
            self._run(f"SET TRANSACTION SNAPSHOT {literal(str(since.shared['snapshot']))}")
        oid = self._oid()
        self._columns = self._table.chosen(self._columns_of(oid))
        self._table.require_time(self._columns, ("timestamp",), "timestamptz or timestamp")
        facts: dict[str, Any] = {"bound": bound}
        if self._table.config.one_state:
            own = since.shared or {}
            facts["snapshot"] = own.get("snapshot") or self._ask("SELECT pg_export_snapshot()")[0][0]
        begin, end = window or (None, bound.now)
        return Pull(from_=begin, to=end, identity=self._identity(oid), position=self._position(), facts=facts)

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in the transaction that ``plan`` began."""
        import pyarrow as pa

        selected = ", ".join(f"{c.select} AS {quoted(c.name)}" for c in self._columns)
        query = f"SELECT {selected} FROM {self._relation}{self._where(pull)}"  # noqa: S608 - quoted by quoted
        with self._explained():
            cursor, any_rows = self._connection.cursor(), False
            try:
                with self._calls.one():
                    cursor.execute(query)
                    reader = cursor.fetch_record_batch()
                while (batch := self._next(reader)) is not None:
                    any_rows = True
                    yield Chunk(rows=made_exact(batch, self._columns))
                if not any_rows:
                    empty = pa.RecordBatch.from_arrays(
                        [pa.array([], f.type) for f in reader.schema], schema=reader.schema
                    )
                    yield Chunk(rows=made_exact(empty, self._columns))
            finally:
                with contextlib.suppress(TransientFault), self._calls.one():
                    cursor.close()

    def _next(self, reader: Any) -> Any:
        """The next rows; None after the last."""
        with self._calls.one():
            return next(reader, None)

    def close(self) -> None:
        """End what runs, and give the connection back."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._calls.end(connection.adbc_cancel, connection.close)

    @property
    def _relation(self) -> str:
        schema = f"{quoted(self._table.schema)}." if self._table.schema else ""
        return schema + quoted(self._table.entity)

    def _bound(self) -> Bound:
        """What bounds a window, asked before the transaction that reads it begins."""
        if not self._table.asks_for_transactions:
            return Bound(now=_iso(self._ask("SELECT now()::text")[0][0]))
        end = self._ask(_END.format(application=_APPLICATION))[0]
        now, oldest, is_replica, prepared, sees_all, tracks = end
        fault = None
        if is_replica:
            fault = TerminalFault("a replica does not tell which transactions are open", OVERLAP)
        elif prepared:
            fault = TerminalFault("there are prepared transactions, whose begin it does not tell", OVERLAP)
        elif not (sees_all and tracks):
            fault = sees_no_transactions("Grant the user pg_read_all_stats (and keep track_activities on).")
        return Bound(now=_iso(now), oldest=_iso(oldest) if oldest else None, fault=fault)

    def _where(self, pull: Pull) -> str:
        cursor = next((c for c in self._columns if c.name == self._table.pull.cursor), None)
        if cursor is None:
            return ""
        zone = "" if "with time zone" in cursor.type else " AT TIME ZONE 'UTC'"
        return self._table.where(
            pull, quoted(cursor.name), lambda time: f"(TIMESTAMPTZ {literal(time)}{zone})"
        )

    def _oid(self) -> int:
        found = self._ask(f"SELECT to_regclass({literal(self._relation)})::oid::bigint")[0][0]
        if found is None:
            self._table.chosen([])
        return int(found)

    def _columns_of(self, oid: int) -> list[SqlColumn]:
        as_text = set(self._table.pull.as_text)
        return [
            _column(name, kind, base, modifier, nullable=not required, as_text=name in as_text)
            for name, kind, required, base, modifier in self._ask(_COLUMNS.format(oid=oid))
        ]

    def _identity(self, oid: int) -> dict[str, str]:
        server = self._ask("SELECT system_identifier::text FROM pg_control_system()")[0][0]
        database = self._ask("SELECT current_database()::text")[0][0]
        return {"server": server, "database": database, "table": str(oid)}

    def _position(self) -> str:
        asked = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
        return str(self._ask(f"SELECT ({asked})::text")[0][0])

    def _connect(self) -> None:
        given = dict(self._table.config.connection)
        if "database" in given:
            given["dbname"] = given.pop("database")
        settings = {"connect_timeout": _CONNECT_SECONDS, "application_name": _APPLICATION}
        words = {**settings, **given, **self._credentials}
        with self._explained():
            address = " ".join(f"{key}={_word(value)}" for key, value in words.items())
            self._connection = server_at(address).connect()
        self._run("SET TIME ZONE 'UTC'")
        self._run("SET DateStyle = ISO")
        self._run("SET idle_in_transaction_session_timeout = 0")

    def _run(self, statement: str) -> None:
        with self._explained(), self._calls.one(), self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _ask(self, query: str) -> Sequence[Sequence[Any]]:
        with self._explained(), self._calls.one(), self._connection.cursor() as cursor:
            cursor.execute(query)
            rows: Sequence[Sequence[Any]] = cursor.fetchall()
            return rows

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the driver's errors into faults, without what the server says of values."""
        import pyarrow as pa

        errors = require(
            "adbc_driver_manager", what="PostgreSQL needs ADBC", install="'kedro-lakehouse[sql]'"
        )
        try:
            yield
        except (errors.Error, pa.ArrowException, OSError, AttributeError) as error:
            if self._is_closed:  # by another thread
                raise TransientFault(CLOSED) from error
            if isinstance(error, AttributeError):
                raise
            raise _fault(error) from error


class _Server:
    """A server whose types the driver knows: it asks for them longer than all else of an empty pull takes.

    It holds no connection. It is closed when nobody has it any more.
    """

    def __init__(self, database: AdbcDatabase) -> None:
        self._database = database

    def connect(self) -> Connection:
        """A new connection."""
        from adbc_driver_manager import AdbcConnection
        from adbc_driver_manager.dbapi import Connection

        return Connection(cast("AdbcDatabase", self), AdbcConnection(self._database), autocommit=True)

    def close(self) -> None:
        """Do nothing: each connection that ends closes its server, which others have too."""

    def __del__(self) -> None:
        self._database.close()


@lru_cache(maxsize=16)
def server_at(address: str) -> _Server:
    """The server at an address, secrets and all; the next pull of this process gets the same one."""
    driver = require(
        "adbc_driver_postgresql", what="PostgreSQL needs ADBC's driver", install="'kedro-lakehouse[sql]'"
    )
    return _Server(driver.connect(address))


def _fault(error: Any) -> SourceFault:
    """What an error of the driver means for the pull."""
    state = str(getattr(error, "sqlstate", None) or "")
    if not state and (written := _STATE.search(str(error))):  # Arrow passes on the words alone
        state = written[1]
    if not state:
        # At the connection the server's words are all there is: who is refused is not asked again.
        _, answered, said = str(error).partition("FATAL:")
        said = said.strip().split("\n")[0]
        if answered and not any(word in said for word in _NOT_YET):
            return TerminalFault(f"the server refuses: {cut(said, 100)}", _remedy("28"))
        return TransientFault("no connection to it" if not answered else cut(said, 100))
    if state.startswith(_PASSES):
        return TransientFault(f"the server ended the work (SQLSTATE {state})")
    details = getattr(error, "details", None) or ()
    said = next((text.decode() for key, text in details if key == "PG_DIAG_MESSAGE_PRIMARY"), "")
    shown = f": {cut(said, 100)}" if state[:2] in ("28", "3D", "42") and said else ""
    return TerminalFault(f"the server refuses (SQLSTATE {state}){shown}", _remedy(state))


def _remedy(state: str) -> str:
    if state.startswith(("28", "3D")):
        return (
            "It was asked once, so that no account is locked. Correct `connection` in sources.yml, or the "
            "user and password in credentials.yml."
        )
    return "Grant the user the right to read the table." if state == "42501" else ""


def _column(  # noqa: PLR0913 - what the catalog says of a column
    name: str, kind: str, base: str, modifier: int, *, nullable: bool, as_text: bool
) -> SqlColumn:
    """How a column is selected, and made exact."""
    own, exact = quoted(name), None
    if as_text:
        select = f"{own}::text"
    elif base == "numeric" and (digits := _digits(modifier)) is not None:
        select, exact = own, partial(to_decimal, digits=digits)
    elif base in _AS_THEY_ARE:
        select = own
        exact = partial(_not_before_time, base=base) if base in ("date", *_TIMES) else None
    elif base.startswith("_"):
        select = f"to_json({own})::text"  # the driver flattens arrays of two dimensions
    elif base == "money":
        select = f"{own}::numeric::text"
    elif base == "oid":
        select = f"{own}::bigint"
    else:
        select = f"{own}::text"
    return SqlColumn(name=name, type=kind, nullable=nullable, select=select, exact=exact)


def _digits(modifier: int) -> tuple[int, int] | None:
    """Precision and scale of a numeric; None where it has none, or more than a decimal here holds."""
    if modifier < 0:
        return None
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    return (precision, scale) if scale <= precision <= MAX_DIGITS else None


def _not_before_time(found: Any, *, base: str) -> Any:
    """The same times; infinity is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, first = (pa.int32(), _FIRST_DAY) if base == "date" else (pa.int64(), _FIRST_MICROSECOND)
    least = pc.min(found.cast(kind)).as_py()
    if least is not None and least < first:
        raise pa.ArrowInvalid(f"{base} of infinity")
    return found


def _iso(text: str) -> str:
    """A time as PostgreSQL writes it in UTC, as ISO 8601."""
    return text.replace(" ", "T").replace("+00", "+00:00")


def _word(value: object) -> str:
    """A value in the address of a database."""
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
