"""Oracle, read with python-oracledb in thin mode, which needs no client of Oracle's.

Numbers and times are written as text by the server and read by Arrow, so that none passes a float. One query
sees one state; tables that are to have one state are read as of one system change number (SCN).
"""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import cut, require
from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.sql.dialect import (
    ASKED_ONCE,
    MAX_DIGITS,
    OVERLAP,
    Bound,
    SqlColumn,
    iso,
    literal,
    quoted,
    sees_no_transactions,
    to_decimal,
    to_time,
)
from kedro_lakehouse.pulls.sql.reader import ConnectionReader, fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.protocol import Chunk, Pull

_CONNECT_SECONDS: Final = 10
_NO_RIGHT: Final = frozenset({942, 1031, 41900})
"""No such table, or no right to see it."""
_PASSES: Final = frozenset(
    {
        18, 20, 28, 60, 1012, 1013, 1033, 1034, 1089, 1090, 1092, 1466, 1555, 2391, 3113, 3114, 3135, 4021,
        8103, 8176, 12153, 12170, 12514, 12516, 12518, 12519, 12520, 12528, 12537, 12541, 12543, 12547, 12570,
        12571,
    }
)  # fmt: skip
"""Errors of the server that may pass by themselves: too many sessions, a start, a lost state."""
_CONNECTION: Final = ("DPY-1001", "DPY-4011", "DPY-4024", "DPY-6")
"""Beginnings of the driver's own errors without a connection."""
_SHOWN: Final = _NO_RIGHT | {904, 1005, 1017, 1045, 1435, 12505, 28000, 28001, 28009}
"""Errors whose words hold no value of a row: names and rights."""

_TABLES: Final = """
SELECT owner, CASE WHEN owner = SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') THEN 1 ELSE 0 END, object_name,
       CASE WHEN object_type = 'VIEW' THEN 1 ELSE 0 END, object_id
FROM all_objects
WHERE object_type IN ('TABLE', 'VIEW') AND secondary = 'N' AND temporary = 'N'
  AND owner NOT IN (SELECT username FROM all_users WHERE oracle_maintained = 'Y')
ORDER BY owner, object_name
"""
_COLUMNS: Final = """
SELECT column_name, data_type, data_precision, data_scale, nullable FROM all_tab_columns
WHERE owner = {schema} AND table_name = {table} ORDER BY column_id
"""
_KEYS: Final = """
SELECT k.column_name FROM all_constraints c
JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
WHERE c.constraint_type = 'P' AND c.owner = {schema} AND c.table_name = {table} ORDER BY k.position
"""
_FACTS: Final = "SELECT num_rows FROM all_tables WHERE owner = {schema} AND table_name = {table}"
_IDENTITY: Final = """
SELECT SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME'), SYS_CONTEXT('USERENV', 'CON_NAME'), (
    SELECT MIN(object_id) FROM all_objects
    WHERE owner = {schema} AND object_name = {table} AND object_type IN ('TABLE', 'VIEW', 'MATERIALIZED VIEW')
) FROM dual
"""
_NOW: Final = "SELECT TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD HH24:MI:SS.FF6') FROM dual"
_ROLE: Final = "SELECT SYS_CONTEXT('USERENV', 'DATABASE_ROLE') FROM dual"
# Both views have whole seconds of the server's own time of day. A statement that waits for a lock has its
# time already, and no transaction yet; commands 2, 6, 7 and 189 are those that change rows.
_OLDEST: Final = """
SELECT TO_CHAR(
    SYS_EXTRACT_UTC(FROM_TZ(CAST(MIN(begun) AS TIMESTAMP), TO_CHAR(SYSTIMESTAMP, 'TZH:TZM'))),
    'YYYY-MM-DD HH24:MI:SS'
) FROM (
    SELECT start_date AS begun FROM gv$transaction
    UNION ALL
    SELECT sql_exec_start AS begun FROM gv$session
    WHERE type = 'USER' AND status = 'ACTIVE' AND command IN (2, 6, 7, 189)
)
"""
_SCN: Final = "SELECT TO_CHAR(current_scn) FROM v$database"

_BLANK_TIME: Final = "LTRIM(TO_CHAR({own}, 'SYYYY-MM-DD HH24:MI:SS%s'))"
"""A time as text; a year before Christ has a minus, so that it does not become one after."""
_DATE: Final = _BLANK_TIME % ""
_TIMESTAMP: Final = _BLANK_TIME % ".FF9"
_ZONED: Final = _BLANK_TIME % ".FF9 TZH:TZM"
_NUMBER: Final = "TO_CHAR({own}, 'TM9')"
_OWN: Final = "{own}"
_TIME: Final = re.compile(r"TIMESTAMP\(\d\)( WITH (?:LOCAL )?TIME ZONE)?")
_INTERVAL: Final = re.compile(r"INTERVAL (YEAR|DAY)\(\d\) TO (MONTH|SECOND\(\d\))")
_TEXTS: Final = ("VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR", "CLOB", "NCLOB", "LONG")
_AS_TEXT: Final[Mapping[str, str]] = {
    "NUMBER": _NUMBER,
    "FLOAT": _NUMBER,
    "BINARY_FLOAT": _NUMBER,
    "BINARY_DOUBLE": _NUMBER,
    "DATE": _DATE,
    **dict.fromkeys(_TEXTS, _OWN),
    "RAW": "RAWTOHEX({own})",
    "ROWID": "CAST({own} AS VARCHAR2(4000))",
    "UROWID": "CAST({own} AS VARCHAR2(4000))",
    "XMLTYPE": "XMLSERIALIZE(CONTENT {own} AS CLOB)",
    "JSON": "JSON_SERIALIZE({own} RETURNING CLOB)",
    "BOOLEAN": "TO_CHAR({own})",
}
"""How the server writes the values of a type; `{own}` is the column."""
_AS_THEY_ARE: Final[Mapping[str, str]] = {
    "BINARY_FLOAT": "float32",
    "BINARY_DOUBLE": "float64",
    "RAW": "binary",
    "LONG RAW": "binary",
    "BLOB": "binary",
    "BOOLEAN": "bool_",
}
"""Types whose values the driver gives exactly, and what they are here."""


class OracleReader(ConnectionReader):
    """Asks one table of Oracle."""

    tables_query, keys_query, rows_query = _TABLES, _KEYS, _FACTS
    times = ("DATE", "TIMESTAMP")
    times_named = "TIMESTAMP WITH TIME ZONE, TIMESTAMP or DATE"

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in one query."""
        with self._explained():
            self._is_read = True
            cursor = self._connection.cursor()  # closed with its connection, which may be silent
            self._waited(lambda: cursor.execute(self._query(pull), fetch_lobs=False))
            chunks = fetched(cursor, self._columns, _array)
            while (chunk := self._waited(lambda: next(chunks, None))) is not None:
                yield chunk
            self._is_read = False

    def _end(self, connection: Any) -> None:
        if self._is_read:
            connection.cancel()
        connection.close()

    @property
    def _names(self) -> dict[str, str]:
        schema = (
            literal(self._table.schema) if self._table.schema else "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')"
        )
        return {"schema": schema, "table": literal(self._table.entity)}

    @property
    def _relation(self) -> str:
        schema = f"{self._quoted(self._table.schema)}." if self._table.schema else ""
        as_of = f" AS OF SCN {self._state}" if self._table.config.one_state else ""
        return f"{schema}{self._quoted(self._table.entity)}{as_of}"

    def _quoted(self, name: str) -> str:
        return quoted(name)

    def _at(self, time: str) -> str:
        kind = next(c.type for c in self._columns if c.name == self._table.pull.cursor)
        own = f"TIMESTAMP {literal(time.replace('T', ' ').replace('+00:00', ' +00:00'))}"
        return own if kind.endswith("TIME ZONE") else own.replace(" +00:00", "")

    def _bound(self) -> Bound:
        now = iso(self._ask(_NOW)[0][0])
        if not self._table.asks_for_transactions:
            return Bound(now=now)
        if self._ask(_ROLE)[0][0] != "PRIMARY":
            fault = TerminalFault("a standby does not tell which transactions are open", OVERLAP)
            return Bound(now=now, fault=fault)
        try:
            oldest = self._ask(_OLDEST)[0][0]
        except _NoRightFault:
            fault = sees_no_transactions("Grant the user SELECT on SYS.GV_$TRANSACTION and SYS.GV_$SESSION.")
            return Bound(now=now, fault=fault)
        return Bound(now=now, oldest=iso(oldest) if oldest else None)

    def _begin(self) -> str | None:
        """The SCN, where the user may ask for it: one query needs none."""
        try:
            return str(int(self._ask(_SCN)[0][0]))
        except _NoRightFault as fault:
            if not self._table.config.one_state:
                return None
            raise TerminalFault(
                "its user may not ask for the system change number, which `one_state` needs",
                "Grant the user SELECT on SYS.V_$DATABASE, and FLASHBACK on the tables.",
            ) from fault

    def _columns_there(self) -> list[SqlColumn]:
        as_text = set(self._table.pull.as_text)
        return [
            _column(name, kind, digits, nullable=nullable == "Y", as_text=name in as_text)
            for name, kind, *digits, nullable in self._ask(_COLUMNS.format(**self._names))
        ]

    def _identity(self) -> dict[str, str]:
        server, database, table = self._ask(_IDENTITY.format(**self._names))[0]
        return {"server": str(server), "database": str(database), "table": str(table)}

    def _position(self) -> str | None:
        found: str | None = self._state
        return found

    def _connect(self) -> None:
        given = dict(self._table.config.connection)
        if "database" in given:
            given["service_name"] = given.pop("database")
        settings: dict[str, Any] = {"tcp_connect_timeout": _CONNECT_SECONDS, **given, **self._credentials}
        driver = _driver()
        with self._explained():
            try:
                self._connection = self._waited(lambda: driver.connect(**settings))
            except TypeError:  # its words name a key, but not whose it is
                raise TerminalFault(
                    "the driver does not take what `connection` says", "Correct its keys in sources.yml."
                ) from None
        # They change how values are written as text.
        self._run("ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'")
        self._run("ALTER SESSION SET NLS_CALENDAR = 'GREGORIAN'")
        self._run("ALTER SESSION SET TIME_ZONE = '+00:00'")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        driver = _driver()
        try:
            yield
        except (driver.Error, OSError) as error:
            if self._is_closed:  # by another thread
                raise TransientFault("the connection was closed") from error
            raise _fault(error) from error


class _NoRightFault(TerminalFault):
    """A table or view is not there for this user."""


def _driver() -> Any:
    return require("oracledb", what="Oracle needs python-oracledb", install="'kedro-lakehouse[oracle]'")


def _fault(error: Any) -> SourceFault:
    """What an error of the driver means for the pull."""
    facts = error.args[0] if error.args else None
    code, name = int(getattr(facts, "code", 0) or 0), str(getattr(facts, "full_code", ""))
    first_line = cut(str(getattr(facts, "message", "")).partition("\n")[0], 100)
    if isinstance(error, OSError) or name.startswith(_CONNECTION):
        return TransientFault(f"no connection to it ({name or type(error).__name__})")
    if code in _PASSES or getattr(facts, "is_session_dead", False):
        return TransientFault(f"the server ended the work ({name})")
    is_shown = code in _SHOWN or name.startswith("DPY-")
    reason = f"the server refuses: {first_line}" if is_shown else f"the server refuses ({name})"
    if code in _NO_RIGHT:
        return _NoRightFault(reason, "Grant the user the right to read the table.")
    return TerminalFault(reason, ASKED_ONCE)


def _column(
    name: str, kind: str, digits: Sequence[int | None], *, nullable: bool, as_text: bool
) -> SqlColumn:
    """How a column is selected, and made exact."""
    own = quoted(name)
    zone = _TIME.fullmatch(kind)
    exact: Callable[[Any], Any] | None = None
    if zone is not None:
        select = _ZONED if zone[1] else _TIMESTAMP
        exact = partial(to_time, has_zone=bool(zone[1]))
    elif _INTERVAL.fullmatch(kind):
        select = "TO_CHAR({own})"
    elif kind in _AS_THEY_ARE and not as_text:
        select = _OWN
    else:
        select = _AS_TEXT.get(kind, "")
        exact = to_time if kind == "DATE" else _exact_number(kind, digits)
    return SqlColumn(
        name=name,
        type=_type_name(kind, digits),
        nullable=nullable,
        select=select.format(own=own),
        exact=None if as_text else exact,
        is_carried=select != "",
        fetched=_AS_THEY_ARE[kind] if kind in _AS_THEY_ARE and not as_text else "string",
    )


def _exact_number(kind: str, digits: Sequence[int | None]) -> Callable[[Any], Any] | None:
    """A decimal where the number has a scale and at most 38 digits; else it stays text."""
    precision, scale = digits
    if kind != "NUMBER" or scale is None:
        return None
    whole = MAX_DIGITS if precision is None else precision
    # A negative scale rounds to tens; one above the precision are zeros after the point.
    held = max(whole - scale, whole) if scale < 0 else max(whole, scale)
    return partial(to_decimal, digits=(held, max(scale, 0))) if held <= MAX_DIGITS else None


def _type_name(kind: str, digits: Sequence[int | None]) -> str:
    precision, scale = digits
    if kind != "NUMBER" or scale is None:
        return kind
    return f"NUMBER({'*' if precision is None else precision},{scale})"


def _array(column: SqlColumn, values: Sequence[Any]) -> Any:
    """Selected values in the type that the driver gives them."""
    import pyarrow as pa

    return pa.array(values, getattr(pa, column.fetched)())
