"""Other databases, by their JDBC drivers: Spark reads the text that a driver writes, Arrow makes the types.

Spark alone would map types without a word of what is lost. What is read as text either fits its type here, or
ends the pull; types on whose text drivers do not agree are refused by name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.config.databases import address_alone
from kedro_lakehouse.pulls.errors import TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, Pull
from kedro_lakehouse.pulls.sql.dialect import (
    MAX_DIGITS,
    Bound,
    SqlColumn,
    made_exact,
    quoted,
    tables_in,
    to_decimal,
    to_time,
    to_type,
)
from kedro_lakehouse.pulls.sql.reader import CLOSED, SqlReader
from kedro_lakehouse.pulls.sql.spark_process import SparkProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from kedro_lakehouse.pulls.protocol import CrawledEntity, Entity, Since
    from kedro_lakehouse.pulls.sql.dialect import SqlTable

_FETCH: Final = "10000"
"""So many rows a driver fetches at a time; without a number some fetch the whole table."""
# The numbers of java.sql.Types.
_BOOLEANS, _DECIMALS, _DATE = (-7, 16), (2, 3), 91
_INTEGERS: Final[Mapping[int, tuple[str, str]]] = {
    -6: ("int16", "int16"),
    5: ("int16", "int32"),
    4: ("int32", "int64"),
    -5: ("int64", "decimal"),
}
"""The type here of an integer with a sign, and of one without."""
_DOUBLES: Final = (6, 8)
_BYTES: Final = (-2, -3, -4, 2004)
_TEXTS: Final = (1, 12, -1, -15, -9, -16, 2005, 2011, 2009, 92, 2013)
"""Characters of every length, XML, and times of day."""
_TIMES: Final = (93, 2014)
_WITH_ZONE: Final = re.compile(r"tz$|with (local )?time zone")
"""Names of types of times with a zone, which some drivers give the number of those without."""
_SPARK_TYPES: Final = {"string": "STRING", "double": "DOUBLE", "binary": "BINARY"}


class JdbcReader(SqlReader):
    """Asks one table of a database that has a JDBC driver."""

    def __init__(self, table: SqlTable, credentials: Mapping[str, Any]) -> None:
        """Store the declarations and the secrets."""
        super().__init__(table, credentials)
        self._process: SparkProcess | None = None
        self._mark = self._relation = ""

    def describe(self) -> Entity:
        """The columns and the primary key."""
        columns = self._columns_of(self._described())
        return self._table.entity_of(columns, self._ask("keys", **self._names)["keys"], None)

    def tables(self) -> list[CrawledEntity]:
        """All tables and views that the driver lists."""
        return tables_in(self._ask("tables")["tables"])

    def plan(self, since: Since) -> Pull | None:
        """Ask the time, and for a window the columns after it."""
        now = self._now()
        window = None
        if self._table.mode == "incremental":
            window = self._table.window(since, Bound(now=now))
            if window is None:
                return None
        found = self._described()
        self._columns = self._table.chosen(self._columns_of(found))
        times = tuple(one["type"] for one in found["columns"] if one["code"] in _TIMES)
        self._table.require_time(self._columns, times, "TIMESTAMP")
        begin, end = window or (None, now)
        address = address_alone(str(self._table.config.connection["url"]))
        identity = {"server": address, "database": str(found["product"]), "table": self._relation}
        return Pull(from_=begin, to=end, identity=identity)

    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in one statement."""
        import pyarrow as pa

        columns, any_rows = self._columns, False
        # Drivers differ on the case of names: so the columns have none of their own.
        names = [f"c{number}" for number in range(len(columns))]
        selected = ", ".join(f"{c.select} AS {name}" for c, name in zip(columns, names, strict=True))
        where = self._table.where(pull, self._quoted(str(self._table.pull.cursor)), _at)
        query = f"SELECT {selected} FROM {self._relation}{where}"  # noqa: S608 - names are quoted
        types = {name: _SPARK_TYPES[c.fetched] for c, name in zip(columns, names, strict=True)}
        for batch in self._started().rows(self._options, query, types):
            any_rows = True
            yield Chunk(rows=made_exact(batch, columns))
        if not any_rows:
            arrays = [pa.array([], column.fetched) for column in columns]
            yield Chunk(rows=made_exact(pa.record_batch(arrays, names=names), columns))

    def close(self) -> None:
        """Give the process back, or end it where it is at work."""
        self._is_closed = True
        process, self._process = self._process, None
        if process is not None:
            process.give_back()

    def _started(self) -> SparkProcess:
        if self._is_closed:  # by another thread
            raise TransientFault(CLOSED)
        if self._process is None:
            self._process = SparkProcess.taken(self._table.config.jars)
        return self._process

    @property
    def _options(self) -> dict[str, str]:
        given = {"fetchsize": _FETCH, **self._table.config.connection, **self._credentials}
        return {key: str(value) for key, value in given.items() if value is not None}

    def _ask(self, do: str, **question: Any) -> dict[str, Any]:
        return self._started().ask(do, options=self._options, **question)

    def _now(self) -> str:
        time = self._ask("clock", query=self._table.config.clock)["time"]
        if time is None:
            raise TerminalFault("its `clock` gives no time", "Let it select one time, in one row.")
        return datetime.fromisoformat(time).replace(tzinfo=UTC).isoformat()

    def _described(self) -> dict[str, Any]:
        found = self._ask("describe", **self._names)
        self._mark, self._relation = found["mark"], found["relation"]
        return found

    @property
    def _names(self) -> dict[str, str]:
        return {"schema": self._table.schema, "table": self._table.entity}

    def _columns_of(self, described: Mapping[str, Any]) -> list[SqlColumn]:
        as_text = set(self._table.pull.as_text)
        return [
            _column(one, self._quoted(one["name"]), as_text=one["name"] in as_text)
            for one in described["columns"]
        ]

    def _quoted(self, name: str) -> str:
        return quoted(name, 2 * self._mark)


def _at(time: str) -> str:
    """A time as every driver reads it."""
    return f"{{ts '{datetime.fromisoformat(time).replace(tzinfo=None).isoformat(' ', 'microseconds')}'}}"


def _column(described: Mapping[str, Any], select: str, *, as_text: bool) -> SqlColumn:
    """How a column is selected, and made exact."""
    code, is_carried, fetched = described["code"], True, "string"
    exact: Callable[[Any], Any] | None = None
    if code in _BYTES:
        fetched, is_carried = "binary", not as_text  # its text is each driver's own
    elif not as_text and code in _DOUBLES:
        # Drivers call money a DOUBLE as well.
        fetched = "double"
        is_carried = any(word in described["type"].lower() for word in ("double", "float"))
    elif not as_text:
        exact = _exact(described)
        is_carried = exact is not None or code in _TEXTS or _is_long(described)
    return SqlColumn(
        name=described["name"],
        type=described["type"],
        nullable=described["nullable"],
        select=select,
        exact=exact,
        fetched=fetched,
        is_carried=is_carried,
    )


def _is_long(described: Mapping[str, Any]) -> bool:
    """Whether it is a decimal that no type here holds: it stays text."""
    digits, scale = described["digits"], described["scale"]
    return described["code"] in _DECIMALS and not (0 < digits <= MAX_DIGITS and 0 <= scale <= digits)


def _exact(described: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Makes the landed column of the driver's text; None: the text lands."""
    import pyarrow as pa

    code, kind = described["code"], described["type"].lower()
    if code in _INTEGERS:
        to = _INTEGERS[code][0 if described["signed"] else 1]
        return (
            partial(to_decimal, digits=(20, 0)) if to == "decimal" else partial(to_type, to=getattr(pa, to)())
        )
    if code in _DECIMALS and not _is_long(described):
        return partial(to_decimal, digits=(described["digits"], described["scale"]))
    if code in _TIMES:
        return partial(to_time, has_zone=code == _TIMES[1] or bool(_WITH_ZONE.search(kind)))
    if code in _BOOLEANS and described["digits"] <= 1:
        return _to_boolean
    return partial(to_type, to=pa.date32()) if code == _DATE else None


def _to_boolean(found: pa.Array) -> pa.Array:
    """Texts such as t, true or 1 as truth; raises ArrowInvalid for another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.replace_substring_regex(pc.utf8_lower(found), "^t(rue)?$", "1")
    return pc.replace_substring_regex(numbers, "^f(alse)?$", "0").cast(pa.bool_())
