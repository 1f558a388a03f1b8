"""SQL Server, read with Microsoft's own driver for Python (mssql-python), which fetches Arrow.

Numbers of fixed width, texts and bytes come as they are. All other values are written as text by the server
and read by Arrow, so that none passes a type of the driver that holds less.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import cut, require
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk
from kedro_lakehouse.pulls.sql.dialect import (
    ASKED_ONCE,
    OVERLAP,
    Bound,
    SqlColumn,
    iso,
    literal,
    made_exact,
    quoted,
    sees_no_transactions,
    to_decimal,
    to_time,
    to_type,
)
from kedro_lakehouse.pulls.sql.reader import ROWS, Calls, ConnectionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.protocol import Pull

_CONNECT_SECONDS: Final = 10
_MARK: Final = "0x" + b"kedro-lakehouse pull".hex()
"""The context of sessions that pull; they write nothing, so windows do not wait for their transactions."""
_NO_LIBRARY: Final = "Failed to load the driver"
_LOG_IN: Final = ("Invalid authorization specification", "Invalid catalog name")
_NAMES: Final = ("Syntax error or access violation", "Base table or view not found", "Column not found")
"""Kinds of errors whose words hold no value of a row: names and rights."""
_PASSES: Final = (
    "Snapshot isolation transaction failed",
    "is not currently available",
    "is busy",
    "try again",
)
"""Words of errors that may pass by themselves, though they come as mistakes in a statement."""

_TABLES: Final = """
SELECT TABLE_SCHEMA, CASE WHEN TABLE_SCHEMA = SCHEMA_NAME() THEN 1 ELSE 0 END, TABLE_NAME,
       CASE WHEN TABLE_TYPE = 'VIEW' THEN 1 ELSE 0 END,
       OBJECT_ID(QUOTENAME(TABLE_SCHEMA) + '.' + QUOTENAME(TABLE_NAME))
FROM INFORMATION_SCHEMA.TABLES ORDER BY TABLE_SCHEMA, TABLE_NAME
"""
_COLUMNS: Final = """
SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE,
       DATETIME_PRECISION
FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}
ORDER BY ORDINAL_POSITION
"""
_KEYS: Final = """
SELECT k.COLUMN_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS t
JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE k
  ON k.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = t.CONSTRAINT_NAME
WHERE t.CONSTRAINT_TYPE = 'PRIMARY KEY' AND t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {table}
ORDER BY k.ORDINAL_POSITION
"""
_FACTS: Final = """
SELECT SUM(rows) FROM sys.partitions WHERE object_id = OBJECT_ID({relation}) AND index_id IN (0, 1)
"""
_NOW: Final = "CONVERT(varchar(26), CONVERT(datetime2(6), SYSUTCDATETIME()), 121)"
_RIGHTS: Final = """
SELECT CASE
    WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1
      OR HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1
      OR HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DATABASE STATE') = 1
         AND SERVERPROPERTY('EngineEdition') = 5
    THEN 1 ELSE 0 END,
    CASE WHEN DATABASEPROPERTYEX(DB_NAME(), 'Updateability') = 'READ_ONLY' THEN 1 ELSE 0 END
"""
"""Whether the user sees others' transactions (5: Azure SQL Database); whether this is a readable replica."""
# Transactions have begun by the server's own time of day. Of types 1 and 4 (read and write, distributed) some
# may write; one that has not touched this database yet gets later times for what it writes here.
_OLDEST: Final = """
SELECT {now}, CONVERT(varchar(26), CONVERT(datetime2(6), DATEADD(minute, -DATEPART(tz, SYSDATETIMEOFFSET()), (
    SELECT MIN(a.transaction_begin_time) FROM sys.dm_tran_active_transactions a
    JOIN sys.dm_tran_database_transactions d
      ON d.transaction_id = a.transaction_id AND d.database_id = DB_ID()
    WHERE a.transaction_type IN (1, 4) AND NOT EXISTS (
        SELECT 1 FROM sys.dm_tran_session_transactions t
        JOIN sys.dm_exec_sessions s ON s.session_id = t.session_id
        WHERE t.transaction_id = a.transaction_id AND SUBSTRING(s.context_info, 1, {length}) = {mark}
    )
))), 121)
"""
_VERSIONS: Final = """
SELECT CASE WHEN snapshot_isolation_state = 1 THEN 1 ELSE 0 END, is_read_committed_snapshot_on
FROM sys.databases WHERE name = DB_NAME()
"""
_IDENTITY: Final = """
SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')), DB_NAME(),
       CONVERT(varchar(11), OBJECT_ID({relation}))
"""

_INTEGERS: Final = {"tinyint": "int16", "smallint": "int16", "int": "int32", "bigint": "int64"}
_TEXTS: Final = ("char", "varchar", "text", "nchar", "nvarchar", "ntext")
_BYTES: Final = ("binary", "varbinary", "image")
_VARIANT: Final = """
CASE CONVERT(nvarchar(128), SQL_VARIANT_PROPERTY({own}, 'BaseType'))
WHEN 'float' THEN CONVERT(nvarchar(max), CONVERT(float, {own}), 3)
WHEN 'real' THEN CONVERT(nvarchar(max), CONVERT(real, {own}), 3)
WHEN 'money' THEN CONVERT(nvarchar(max), CONVERT(money, {own}), 2)
WHEN 'smallmoney' THEN CONVERT(nvarchar(max), CONVERT(money, {own}), 2)
WHEN 'binary' THEN CONVERT(nvarchar(max), CONVERT(varbinary(8000), {own}), 1)
WHEN 'varbinary' THEN CONVERT(nvarchar(max), CONVERT(varbinary(8000), {own}), 1)
ELSE CONVERT(nvarchar(max), CONVERT(nvarchar(4000), {own}, 121)) END
"""
_AS_TEXT: Final[Mapping[str, str]] = {
    "bit": "CONVERT(varchar(1), {own})",
    **dict.fromkeys(_INTEGERS, "CONVERT(varchar(20), {own})"),
    "real": "CONVERT(varchar(40), {own}, 3)",  # as many digits as make each value another text
    "float": "CONVERT(varchar(40), {own}, 3)",
    "decimal": "CONVERT(varchar(41), {own})",
    "numeric": "CONVERT(varchar(41), {own})",
    "money": "CONVERT(varchar(41), {own}, 2)",  # with all four digits
    "smallmoney": "CONVERT(varchar(41), {own}, 2)",
    **dict.fromkeys(_TEXTS, "{own}"),
    **dict.fromkeys(_BYTES, "CONVERT(varchar(max), CONVERT(varbinary(max), {own}), 1)"),
    "timestamp": "CONVERT(varchar(18), CONVERT(binary(8), {own}), 1)",
    "date": "CONVERT(varchar(10), {own}, 23)",
    "time": "CONVERT(varchar(16), {own}, 121)",
    **dict.fromkeys(("smalldatetime", "datetime", "datetime2"), "CONVERT(varchar(27), {own}, 121)"),
    "datetimeoffset": "CONVERT(varchar(34), {own}, 121)",
    "uniqueidentifier": "CONVERT(varchar(36), {own})",
    "xml": "CONVERT(nvarchar(max), {own})",
    "json": "CONVERT(nvarchar(max), {own})",
    "hierarchyid": "CONVERT(nvarchar(4000), {own})",
    "sql_variant": " ".join(_VARIANT.split()),
    "geography": "{own}.AsTextZM()",
    "geometry": "{own}.AsTextZM()",
}
"""How the server writes the values of a type; `{own}` is the column."""


class SqlServerReader(ConnectionReader):
    """Asks one table of SQL Server or Azure SQL Database."""

    tables_query, keys_query, rows_query = _TABLES, _KEYS, _FACTS
    times = ("datetime",)  # a smalldatetime is rounded to a minute, and would fall into a window that is over
    times_named = "datetimeoffset, datetime2 or datetime"

    def __init__(self, *given: Any) -> None:
        """Store the declarations and the secrets."""
        super().__init__(*given)
        self._reading: Any = None
        self._calls = Calls()

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in the transaction that ``plan`` began."""
        import pyarrow as pa

        with self._explained():
            self._is_read = True
            cursor = self._connection.cursor()  # closed with its connection: that waits for a silent server
            self._waited(lambda: cursor.execute(self._query(pull)))
            self._reading = cursor.arrow_reader(ROWS)
            schema, any_rows = self._reading.schema, False
            while (batch := self._waited(self._next)) is not None or not any_rows:
                any_rows = True
                if batch is None:
                    batch = pa.RecordBatch.from_pylist([], schema=schema)
                yield Chunk(rows=made_exact(batch, self._columns))
            self._is_read = False

    def _next(self) -> Any:
        """The next rows; None after the last."""
        with self._calls.one():
            return next(self._reading, None)

    def _end(self, connection: Any) -> None:
        reading = self._reading

        def end_reading() -> None:
            if reading is not None:
                reading.close()

        def close() -> None:
            end_reading()
            connection.close()

        self._calls.end(end_reading, close)

    @property
    def _names(self) -> dict[str, str]:
        schema = f"N{literal(self._table.schema)}" if self._table.schema else "SCHEMA_NAME()"
        names = {"schema": schema, "table": f"N{literal(self._table.entity)}"}
        return names | {"relation": f"N{literal(self._relation)}"}

    @property
    def _relation(self) -> str:
        schema = f"{self._quoted(self._table.schema)}." if self._table.schema else ""
        return schema + self._quoted(self._table.entity)

    def _quoted(self, name: str) -> str:
        return quoted(name, "[]")

    def _at(self, time: str) -> str:
        kind = next(c.type for c in self._columns if c.name == self._table.pull.cursor)
        if kind.startswith("datetimeoffset"):
            return f"CONVERT(datetimeoffset(7), {literal(time)}, 127)"
        return f"CONVERT(datetime2(7), {literal(time.removesuffix('+00:00'))}, 126)"

    def _bound(self) -> Bound:
        if not self._table.asks_for_transactions:
            return Bound(now=self._now())
        sees_all, is_replica = self._ask(_RIGHTS)[0]
        if is_replica:
            fault = TerminalFault("a read-only replica does not tell which transactions are open", OVERLAP)
            return Bound(now=self._now(), fault=fault)
        if not sees_all:
            fault = sees_no_transactions(
                "Grant its login VIEW SERVER STATE (Azure SQL Database: VIEW DATABASE STATE)."
            )
            return Bound(now=self._now(), fault=fault)
        length = len(_MARK) // 2 - 1
        now, oldest = self._ask(_OLDEST.format(now=_NOW, length=length, mark=_MARK))[0]
        return Bound(now=iso(now), oldest=iso(oldest) if oldest else None)

    def _now(self) -> str:
        return iso(self._ask(f"SELECT {_NOW}")[0][0])

    def _begin(self) -> None:
        allows, is_one_statement = self._ask(_VERSIONS)[0]
        if allows:
            self._run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
            self._run("BEGIN TRANSACTION")
        elif self._table.config.one_state or not is_one_statement:
            # Rows that move while a scan goes on would be read twice, or not at all.
            raise TerminalFault(
                "the database keeps no versions of rows, so what is read would be of several moments",
                "Let its administrator run ALTER DATABASE ... SET ALLOW_SNAPSHOT_ISOLATION ON.",
            )

    def _columns_there(self) -> list[SqlColumn]:
        as_text = set(self._table.pull.as_text)
        return [
            _column(str(name), str(base), sizes, nullable=nullable == "YES", as_text=name in as_text)
            for name, base, nullable, *sizes in self._ask(_COLUMNS.format(**self._names))
        ]

    def _identity(self) -> dict[str, str]:
        server, database, table = self._ask(_IDENTITY.format(**self._names))[0]
        return {"server": str(server), "database": str(database), "table": str(table)}

    def _position(self) -> str:
        return str(self._ask("SELECT CONVERT(varchar(18), MIN_ACTIVE_ROWVERSION(), 1)")[0][0])

    def _connect(self) -> None:
        driver = _driver()
        given = {key.lower(): str(value) for key, value in self._table.config.connection.items()}
        host, port = given.pop("host", "localhost"), given.pop("port", "1433")
        server = host if "\\" in host else f"{host},{port}"
        # A connection that the driver makes anew by itself would see another state.
        words = {"server": server, "connectretrycount": "0", **given}
        secret = {"uid": self._credentials.get("user"), "pwd": self._credentials.get("password")}
        words |= {key: str(value) for key, value in secret.items() if value is not None}
        address = ";".join(f"{key}={{{value.replace('}', '}}')}}}" for key, value in words.items())
        # A pool would keep the connection, its isolation and its transaction for whoever comes next.
        driver.pooling(enabled=False)
        with self._explained():
            self._connection = self._waited(
                lambda: driver.connect(address, autocommit=True, timeout=_CONNECT_SECONDS)
            )
        self._run(f"SET CONTEXT_INFO {_MARK}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        import pyarrow as pa

        driver = _driver()
        try:
            yield
        except (driver.Error, driver.ConnectionStringParseError, pa.ArrowException, ValueError) as error:
            if self._is_closed:  # by another thread
                raise TransientFault("the connection was closed") from error
            if isinstance(error, driver.ConnectionStringParseError):
                raise TerminalFault(
                    "the driver does not take what `connection` says", "Correct its keys in sources.yml."
                ) from None  # its words may hold the password
            if isinstance(error, driver.Error):
                raise _fault(error) from error
            raise


def _driver() -> Any:
    return require(
        "mssql_python", what="SQL Server needs mssql-python", install="'kedro-lakehouse[sqlserver]'"
    )


def _fault(error: Any) -> SourceFault:
    """What an error of the driver means for the pull."""
    kind, said = str(error.driver_error), str(error.ddbc_error)
    if _NO_LIBRARY in said:
        return TerminalFault(
            "the shared library of SQL Server's driver cannot be loaded",
            "Install what it needs: apt-get install libltdl7 (Debian, Ubuntu), or the package libtool-ltdl.",
        )
    if kind in _LOG_IN or "certificate" in said:
        return TerminalFault(f"the server refuses: {cut(said, 100)}", ASKED_ONCE)
    if type(error).__name__ == "OperationalError" or any(words in said for words in _PASSES):
        is_there = kind != "Client unable to establish connection"
        return TransientFault(f"the work ended ({kind})" if is_there else "no connection to it")
    shown = f": {cut(said, 100)}" if kind in _NAMES else ""
    return TerminalFault(f"the server refuses ({kind}){shown}", "Grant the user the right to read the table.")


def _column(name: str, base: str, sizes: Sequence[int | None], *, nullable: bool, as_text: bool) -> SqlColumn:
    """How a column is selected, and made exact.

    Args:
        sizes: Its length in characters, precision and scale of its number, precision of its time.
    """
    own = quoted(name, "[]")
    kind, select = _type_name(base, sizes), _AS_TEXT.get(base, "CONVERT(nvarchar(max), {own})")
    exact: Callable[[Any], Any] | None = None
    if not as_text:
        if base in (*_INTEGERS, *_BYTES, "bit", "real", "float"):
            select = "{own}"
        elif base == "timestamp":
            select = "CONVERT(binary(8), {own})"
        elif base in ("geography", "geometry"):
            select = "{own}.AsBinaryZM()"
        exact = _exact(base, sizes)
    is_carried = as_text or base in _AS_TEXT
    return SqlColumn(
        name=name,
        type=kind,
        nullable=nullable,
        select=select.format(own=own),
        exact=exact,
        is_carried=is_carried,
    )


def _exact(base: str, sizes: Sequence[int | None]) -> Callable[[Any], Any] | None:
    import pyarrow as pa

    _, precision, scale, _ = sizes
    if base in _INTEGERS:
        return partial(to_type, to=getattr(pa, _INTEGERS[base])())
    if base in ("decimal", "numeric"):
        return partial(to_decimal, digits=(int(precision or 0), int(scale or 0)))
    if base in ("money", "smallmoney"):
        return partial(to_decimal, digits=(19 if base == "money" else 10, 4))
    if base in ("smalldatetime", "datetime", "datetime2", "datetimeoffset"):
        return partial(to_time, has_zone=base == "datetimeoffset")
    plain = {"bit": pa.bool_(), "real": pa.float32(), "float": pa.float64(), "date": pa.date32()}
    return partial(to_type, to=plain[base]) if base in plain else None


def _type_name(base: str, sizes: Sequence[int | None]) -> str:
    length, precision, scale, of_time = sizes
    if base in ("decimal", "numeric"):
        return f"{base}({precision},{scale})"
    if base in ("datetime2", "datetimeoffset", "time"):
        return f"{base}({of_time})"
    if base in ("char", "varchar", "nchar", "nvarchar", "binary", "varbinary") and length is not None:
        return f"{base}({'max' if length == -1 else length})"
    return base
