"""MariaDB and MySQL, read as text: Arrow makes the types, so that no value passes a float.

PyMySQL connects and asks; the rows of a table are read from its connection as columns (``text_rows``).

Tables that are to have one state are read by one connection, one after the other, in one transaction.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.errors import cut, require
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk
from kedro_lakehouse.pulls.sql.dialect import (
    ASKED_ONCE,
    MAX_DIGITS,
    Bound,
    SqlColumn,
    iso,
    made_exact,
    quoted,
    sees_no_transactions,
)
from kedro_lakehouse.pulls.sql.reader import ConnectionReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.protocol import Pull

_CONNECT_SECONDS: Final = 10
_READ: Final = 64 * 1024
"""So many bytes are read from a connection at a time, if they have arrived."""
_TIMES: Final = ("datetime", "timestamp")
_INTEGERS: Final[Mapping[str, tuple[str, str]]] = {
    "tinyint": ("int8", "int16"),
    "smallint": ("int16", "int32"),
    "mediumint": ("int32", "int32"),
    "int": ("int32", "int64"),
    "bigint": ("int64", "decimal"),
    "year": ("int16", "int16"),
}
"""The type here of an integer with a sign, and of one without."""
_BYTES: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SIMPLE: Final[Mapping[str, str]] = {"date": "date32", "time": "string", **dict.fromkeys(_BYTES, "binary")}
"""The type here of the others that need no more than its name."""
_PASSES: Final = frozenset({1040, 1053, 1203, 1205, 1213, 1226, 1317, 1927, 1969})
"""Errors of the server that may pass by themselves."""
_SHOWN: Final = frozenset({1044, 1045, 1049, 1054, 1142, 1143, 1146, 1227, 1698, 4151})
"""Errors whose words hold no value of a row: names and rights."""

_TABLES: Final = """
SELECT table_schema, COALESCE(table_schema = DATABASE(), 0), table_name, table_type LIKE '%VIEW', NULL
FROM information_schema.tables
WHERE table_schema = COALESCE(DATABASE(), table_schema) AND table_type <> 'SEQUENCE'
  AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY table_schema, table_name
"""
_COLUMNS: Final = """
SELECT column_name, column_type, data_type, is_nullable = 'YES', numeric_precision, numeric_scale
FROM information_schema.columns WHERE table_schema = {schema} AND table_name = {table}
ORDER BY ordinal_position
"""
_KEYS: Final = """
SELECT column_name FROM information_schema.key_column_usage
WHERE table_schema = {schema} AND table_name = {table} AND constraint_name = 'PRIMARY'
ORDER BY ordinal_position
"""
_FACTS: Final = """
SELECT table_rows FROM information_schema.tables
WHERE table_schema = {schema} AND table_name = {table}
"""
# The times of transactions are written in the zone of the system. A statement that waits for a lock has its
# time already, and no transaction yet.
_OLDEST: Final = """
SELECT LEAST(
    COALESCE((SELECT MIN(trx_started) FROM information_schema.innodb_trx WHERE trx_is_read_only = 0), NOW(6)),
    COALESCE((
        SELECT MIN(NOW(6) - INTERVAL time + 1 SECOND) FROM information_schema.processlist
        WHERE command IN ('Query', 'Execute') AND id <> CONNECTION_ID()
    ), NOW(6))
), NOW(6), UTC_TIMESTAMP(6)
"""


class MariaReader(ConnectionReader):
    """Asks one table of MariaDB or MySQL."""

    tables_query, keys_query, rows_query = _TABLES, _KEYS, _FACTS
    times = _TIMES
    times_named = "datetime(6) or timestamp(6)"

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in the transaction that ``plan`` began."""
        import pyarrow as pa

        query = self._query(pull)
        with self._explained():
            self._is_read = True
            self._connection.query(query, unbuffered=True)
            result = self._connection._result  # noqa: SLF001 - the driver has no other way
            encodings = [encoding for encoding, _ in result.converters]
            columns = [_decoded(c) if e else c for c, e in zip(self._columns, encodings, strict=True)]
            try:
                for arrays in _chunks(self._connection, len(columns)):
                    batch = pa.record_batch(arrays, names=[column.name for column in columns])
                    yield Chunk(rows=made_exact(batch, columns))
                self._is_read = False
            finally:
                # Letting go of a result asks the connection for the rest of its rows.
                result.unbuffered_active = False

    def _ask(self, query: str) -> Sequence[Sequence[Any]]:
        return [[_text(value) for value in row] for row in super()._ask(query)]

    def _end(self, connection: Any) -> None:
        connection._force_close()  # noqa: SLF001 - closing it otherwise would wait for the rest of the rows

    @property
    def _schema(self) -> str:
        return self._table.schema or str(self._table.config.connection.get("database", ""))

    @property
    def _names(self) -> dict[str, str]:
        return {"schema": _literal(self._schema), "table": _literal(self._table.entity)}

    @property
    def _relation(self) -> str:
        return f"{self._quoted(self._schema)}.{self._quoted(self._table.entity)}"

    def _bound(self) -> Bound:
        """What bounds a window, asked before the transaction that reads it begins."""
        if not self._table.asks_for_transactions:
            return Bound(now=iso(str(self._ask("SELECT UTC_TIMESTAMP(6)")[0][0])))
        if not self._sees_all():
            fault = sees_no_transactions("Grant the user PROCESS.")
            return Bound(now=iso(str(self._ask("SELECT UTC_TIMESTAMP(6)")[0][0])), fault=fault)
        self._run("SET time_zone = SYSTEM")
        (oldest, system, now) = self._ask(_OLDEST)[0]
        self._run("SET time_zone = '+00:00'")
        shift = _time(str(now)) - _time(str(system))
        return Bound(now=iso(str(now)), oldest=f"{(_time(str(oldest)) + shift).isoformat()}+00:00")

    def _sees_all(self) -> bool:
        grants = " ".join(str(row[0]) for row in self._ask("SHOW GRANTS"))
        return bool(re.search(r"\b(PROCESS|ALL PRIVILEGES ON \*\.\*)", grants))

    def _begin(self) -> None:
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def _at(self, time: str) -> str:
        return f"TIMESTAMP '{time.replace('T', ' ').removesuffix('+00:00')}'"

    def _quoted(self, name: str) -> str:
        return quoted(name, "``")

    def _columns_there(self) -> list[SqlColumn]:
        as_text = set(self._table.pull.as_text)
        return [
            _column(
                str(name), str(kind), str(base), digits, nullable=nullable == "1", as_text=name in as_text
            )
            for name, kind, base, nullable, *digits in self._ask(_COLUMNS.format(**self._names))
        ]

    def _identity(self) -> dict[str, str]:
        """The server and the database: a table's time of creation changes with each ALTER TABLE too."""
        found = self._ask("SHOW GLOBAL VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid')")
        server = found[0][1] if found else self._ask("SELECT CONCAT(@@hostname, ':', @@port)")[0][0]
        return {"server": str(server), "database": self._schema}

    def _position(self) -> str | None:
        variable = "gtid_executed" if self._table.config.dialect == "mysql" else "gtid_current_pos"
        return str(self._ask(f"SELECT @@global.{variable}")[0][0] or "") or None

    def _connect(self) -> None:
        connect = _connection_class()
        words = {**self._table.config.connection, **self._credentials}
        with self._explained():
            self._connection = connect(
                **{"connect_timeout": _CONNECT_SECONDS, **words, "port": int(words.get("port", 3306))},
                charset="utf8mb4", autocommit=True, conv={},
            )  # fmt: skip
        self._run("SET time_zone = '+00:00'")
        # Modes change how values are written as text, and what a quote is.
        self._run("SET sql_mode = ''")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the driver's errors into faults, without what the server says of values."""
        import pymysql

        try:
            yield
        except pymysql.Error as error:
            raise _fault(error) from error
        except (AttributeError, OSError, ValueError) as error:
            if self._is_closed:  # by another thread
                raise TransientFault("the connection was closed") from error
            raise


@lru_cache(maxsize=1)
def _connection_class() -> Any:
    """PyMySQL's connection, with one context of TLS a process where none is declared.

    PyMySQL makes one for each connection and reads the system's certificates for it, which takes longer than
    to connect; then it verifies nothing.
    """
    module = require(
        "pymysql.connections", what="MariaDB and MySQL need PyMySQL", install="'kedro-lakehouse[sql]'"
    )

    class Connection(module.Connection):  # type: ignore[misc, name-defined]
        _undeclared: ClassVar[Any] = None

        def _create_ssl_ctx(self, sslp: Any) -> Any:
            if sslp:
                return super()._create_ssl_ctx(sslp)
            if Connection._undeclared is None:
                Connection._undeclared = super()._create_ssl_ctx({})
            return Connection._undeclared

    return Connection


def _chunks(connection: Any, count: int) -> Iterator[list[Any]]:
    """The rows of a result, some megabytes at a time, in so many columns of bytes."""
    from pymysql.err import raise_mysql_exception

    from kedro_lakehouse.pulls.sql.text_rows import ErrorPacketError, MalformedRowsError, columns_of

    try:
        yield from columns_of(partial(_received, connection), count)
    except ErrorPacketError as error:
        raise_mysql_exception(error.packet)
    except MalformedRowsError as error:
        remedy = "Name the columns that are needed in `pull: {fields: [...]}`."
        raise TerminalFault(f"its answer cannot be read: {error}", remedy) from error


def _received(connection: Any) -> bytes:
    """The bytes that have arrived; waits until there are some."""
    from pymysql.constants.CR import CR_SERVER_LOST
    from pymysql.err import OperationalError

    try:
        found: bytes = connection._rfile.read1(_READ)  # noqa: SLF001 - the driver has no other way
    except OSError as error:
        raise OperationalError(CR_SERVER_LOST, "the connection was lost") from error
    if not found:
        raise OperationalError(CR_SERVER_LOST, "the connection was lost")
    return found


def _fault(error: Any) -> SourceFault:
    """What an error of the driver means for the pull."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if code in _PASSES or 2000 <= code < 3000 or code == 0:  # noqa: PLR2004 - those of the client
        return TransientFault(
            "no connection to it" if code in (2002, 2003) else f"the work ended (error {code})"
        )
    detail = f": {cut(str(error.args[1]), 100)}" if code in _SHOWN else ""
    return TerminalFault(f"the server refuses (error {code}){detail}", ASKED_ONCE)


def _column(  # noqa: PLR0913 - what the catalog says of a column
    name: str, kind: str, base: str, digits: Sequence[Any], *, nullable: bool, as_text: bool
) -> SqlColumn:
    """How a column is selected, and made exact."""
    import pyarrow as pa

    select, to = quoted(name, "``"), None
    unsigned = "unsigned" in kind
    if as_text:
        select = f"CAST({select} AS CHAR)"
    elif base in _INTEGERS:
        named = _INTEGERS[base][unsigned]
        to = pa.decimal128(20, 0) if named == "decimal" else getattr(pa, named)()
    elif base == "bit":
        select, to = f"{select} + 0", pa.decimal128(20, 0) if kind == "bit(64)" else pa.int64()
    elif base == "decimal":
        fits = int(digits[0]) <= MAX_DIGITS
        to = pa.decimal128(int(digits[0]), int(digits[1])) if fits else pa.string()
    elif base in ("float", "double"):
        select, to = f"{select} + 0e0", pa.float64()  # a FLOAT is written with six digits
    elif base in _TIMES:
        to = pa.timestamp("us", "UTC" if base == "timestamp" else None)
    elif base in _SIMPLE:
        to = getattr(pa, _SIMPLE[base])()
    elif base in ("geometry", "point", "linestring", "polygon"):
        select = f"ST_AsText({select})"
    exact = partial(_cast, to=to) if to is not None else None
    return SqlColumn(name=name, type=kind, nullable=nullable, select=select, exact=exact)


def _cast(found: Any, *, to: Any) -> Any:
    """Texts in their type; exact, or an error."""
    import pyarrow as pa

    if pa.types.is_timestamp(to) and to.tz:
        return found.cast(pa.timestamp("us")).cast(to)
    return found.cast(to)


def _decoded(column: SqlColumn) -> SqlColumn:
    """A column whose selected values are text and arrive as bytes."""
    import pyarrow as pa

    exact = column.exact

    def read(found: Any) -> Any:
        text = found.cast(pa.string())
        return exact(text) if exact else text

    return replace(column, exact=read)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
