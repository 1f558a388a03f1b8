"""MariaDB and MySQL, read as text: Arrow makes the types, so that no value passes a float.

PyMySQL reads; mysqlclient, which is written in C, where it is installed and the connection is declared to be
without TLS: what else a connection may name means another thing to each of them.

Tables that are to have one state are read by one connection, one after the other, in one transaction.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import cut, require
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.sql.dialect import (
    ASKED_ONCE,
    MAX_DIGITS,
    Bound,
    SqlColumn,
    iso,
    quoted,
    sees_no_transactions,
)
from kedro_lakehouse.pulls.sql.reader import ConnectionReader, fetched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.protocol import Chunk, Pull

_CONNECT_SECONDS: Final = 10
_IN_C: Final = frozenset({"host", "port", "database", "unix_socket", "ssl_disabled"})
"""What a connection may name that mysqlclient reads."""
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

    keys_query, rows_query = _KEYS, _FACTS
    times = _TIMES
    times_named = "datetime(6) or timestamp(6)"

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in the transaction that ``plan`` began."""
        query = self._query(pull)
        with self._explained():
            self._is_read = True
            cursor = self._connection.cursor(_cursors(self._connection).SSCursor)
            try:
                cursor.execute(query)
                yield from fetched(cursor, self._columns, _array)
                cursor.close()
                self._is_read = False
            finally:
                if self._is_read:
                    _forget(cursor)

    def _ask(self, query: str) -> Sequence[Sequence[Any]]:
        return [[_text(value) for value in row] for row in super()._ask(query)]

    def _end(self, connection: Any) -> None:
        _cut(connection)
        if _is_in_c(connection):
            connection.close()

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
        driver, words = _driver(self._table.config.connection)
        with self._explained():
            self._connection = driver.connect(
                **{"connect_timeout": _CONNECT_SECONDS, **words, **self._credentials},
                charset="utf8mb4", autocommit=True, conv={},
            )  # fmt: skip
        self._run("SET time_zone = '+00:00'")
        # Modes change how values are written as text, and what a quote is.
        self._run("SET sql_mode = ''")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the driver's errors into faults, without what the server says of values."""
        try:
            yield
        except _errors() as error:
            raise _fault(error) from error
        except (AttributeError, OSError, ValueError) as error:
            if self._is_closed:  # by another thread
                raise TransientFault("the connection was closed") from error
            raise


def _driver(connection: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The driver, and what it is to be connected with."""
    pymysql = require("pymysql", what="MariaDB and MySQL need PyMySQL", install="'kedro-lakehouse[sql]'")
    words = {**connection, "port": int(connection.get("port", 3306))}
    is_without_tls = words.get("ssl_disabled") or "unix_socket" in words
    in_c = _mysqlclient() if is_without_tls and words.keys() <= _IN_C else None
    if in_c is None:
        return pymysql, words
    words.pop("ssl_disabled", None)
    words |= {"ssl_mode": "DISABLED", "local_infile": False}
    if words.get("host", "localhost") == "localhost" and "unix_socket" not in words:
        words["host"] = "127.0.0.1"  # localhost means the socket to it
    return in_c, words


def _mysqlclient() -> Any:
    """The driver in C; None where it is not installed, or one that another thread cannot close."""
    with contextlib.suppress(ImportError):
        import MySQLdb
        import MySQLdb.cursors

        return MySQLdb if MySQLdb.version_info >= (2, 3) else None
    return None


def _is_in_c(connection: Any) -> bool:
    return type(connection).__module__.startswith("MySQLdb")


def _cursors(connection: Any) -> Any:
    return import_module(f"{type(connection).__module__.partition('.')[0]}.cursors")


def _errors() -> tuple[type[Exception], ...]:
    drivers = [sys.modules[name] for name in ("pymysql", "MySQLdb") if name in sys.modules]
    return tuple(driver.Error for driver in drivers)


def _cut(connection: Any) -> None:
    """Cut the line: closing it would wait for the rest of the rows."""
    if not _is_in_c(connection):
        connection._force_close()  # noqa: SLF001 - the driver has no other way
        return
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _forget(cursor: Any) -> None:
    """Let a cursor and its result go: both would ask the connection for the rest of the rows."""
    if _is_in_c(cursor):
        with contextlib.suppress(Exception):
            _cut(cursor.connection)
    elif cursor._result is not None:  # noqa: SLF001 - the driver has no other way
        cursor._result.unbuffered_active = False  # noqa: SLF001 - the same
    cursor.connection = None


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


def _array(column: SqlColumn, values: Sequence[Any]) -> Any:
    """Selected values, which are all text or all bytes."""
    import pyarrow as pa

    del column
    binary = any(isinstance(value, bytes) for value in values)
    return pa.array(values, pa.binary() if binary else pa.string())


def _cast(found: Any, *, to: Any) -> Any:
    """Texts in their type; exact, or an error. mysqlclient gives the texts of numbers and times as bytes."""
    import pyarrow as pa

    if pa.types.is_binary(found.type) and not pa.types.is_binary(to):
        found = found.cast(pa.string())
    if pa.types.is_timestamp(to) and to.tz:
        return found.cast(pa.timestamp("us")).cast(to)
    return found.cast(to)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
