"""Reads tables over one connection: those that are to have one state share it, one after the other."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kedro_lakehouse.pulls.errors import TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, Pull
from kedro_lakehouse.pulls.sql.dialect import made_exact, tables_in
from kedro_lakehouse.pulls.watch import done_unless, in_background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.protocol import CrawledEntity, Entity, Since
    from kedro_lakehouse.pulls.sql.dialect import Bound, SqlColumn, SqlTable

ROWS: Final = 20_000
"""So many rows become one chunk."""
CLOSED: Final = "the connection was closed"
"""What a fault says of a read that another thread has ended."""
_CLOSE_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 2.0
_Result = TypeVar("_Result")


class Calls:
    """The calls of a driver over one connection, which another thread may end.

    A connection that is closed under a call takes its memory away: a driver in C then ends the process.
    """

    def __init__(self) -> None:
        """Nothing is called yet."""
        self._at_work = threading.Lock()
        self._is_ended = False
        self._closing: list[Callable[[], object]] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Let the driver work in this thread.

        Raises:
            TransientFault: The calls were ended, perhaps during this one.
        """
        with self._at_work:
            self._require_open()
            try:
                yield
            finally:
                if self._is_ended:
                    self._close()
        self._require_open()

    def end(self, cancel: Callable[[], object], close: Callable[[], object]) -> None:
        """Close the connection; a call that does not end soon does it itself when it comes back.

        Args:
            cancel: Makes a call of another thread come back; it may hang where the server is silent.
            close: Closes the connection.
        """
        self._is_ended = True
        is_free = self._at_work.acquire(blocking=False)
        if not is_free:
            with contextlib.suppress(Exception):
                cancel()
        self._closing.append(close)  # not before: it would be closed under the cancelling
        if not is_free and not self._at_work.acquire(timeout=_CANCEL_SECONDS):
            return
        try:
            self._close()
        finally:
            self._at_work.release()

    def _require_open(self) -> None:
        if self._is_ended:
            raise TransientFault(CLOSED)

    def _close(self) -> None:
        while self._closing:
            with contextlib.suppress(Exception):
                self._closing.pop()()


class SqlReader(ABC):
    """Asks one table of a database, or its catalog for all of them."""

    def __init__(self, table: SqlTable, credentials: Mapping[str, Any]) -> None:
        """Store the declarations and the secrets; nothing is contacted yet."""
        self._table, self._credentials = table, credentials
        self._columns: list[SqlColumn] = []
        self._is_closed = False

    def turn_to(self, table: SqlTable) -> None:
        """Ask about another table from now on."""
        self._table = table

    @abstractmethod
    def tables(self) -> list[CrawledEntity]:
        """All tables and views that the user may read, not described yet."""

    @abstractmethod
    def describe(self) -> Entity:
        """The columns, the primary key and, where the database estimates it, the number of rows."""

    @abstractmethod
    def plan(self, since: Since) -> Pull | None:
        """Fix the state that is read, and for a window its end, by the server's clock."""

    @abstractmethod
    def read(self, pull: Pull) -> Iterator[Chunk]:
        """Read the planned rows in the state that ``plan`` fixed."""

    @abstractmethod
    def close(self) -> None:
        """End what runs, and give the connection back."""


class ConnectionReader(SqlReader):
    """Asks over a connection: a dialect says what it asks, and what errors of its driver mean."""

    tables_query: ClassVar[str]
    """Asks the catalog for all tables and views: see ``tables_in``."""
    keys_query: ClassVar[str]
    """Asks the catalog for the columns of the primary key, in their order."""
    rows_query: ClassVar[str]
    """Asks it for the estimate of the number of rows."""
    times: ClassVar[tuple[str, ...]]
    """How the names of the types begin that a cursor may have."""
    times_named: ClassVar[str]
    """What a remedy says of them."""

    def __init__(self, table: SqlTable, credentials: Mapping[str, Any]) -> None:
        """Store the declarations and the secrets."""
        super().__init__(table, credentials)
        self._connection: Any = None
        self._state: Any = None
        self._is_own, self._is_read = True, False

    def describe(self) -> Entity:
        """The columns, the primary key, and the estimate of the number of rows."""
        if self._connection is None:
            self._connect()
        return self._table.entity_of(self._columns_there(), self._keys_there(), self._rows_there())

    def tables(self) -> list[CrawledEntity]:
        """All tables and views that the user sees."""
        self._connect()
        return tables_in(self._ask(self.tables_query))

    def plan(self, since: Since) -> Pull | None:
        """Fix the state that is read; a window's end is asked before it."""
        shared = since.shared
        if shared is not None:
            self._connection, self._is_own = shared["connection"], False
        else:
            self._connect()
        bound: Bound = self._bound() if shared is None else shared["bound"]
        window = None
        if self._table.mode == "incremental":
            window = self._table.window(since, bound)
            if window is None:
                return None
        self._state = self._begin() if shared is None else shared["state"]
        self._columns = self._table.chosen(self._columns_there())
        self._table.require_time(self._columns, self.times, self.times_named)
        begin, end = window or (None, bound.now)
        facts = {"connection": self._connection, "bound": bound, "state": self._state}
        return Pull(from_=begin, to=end, identity=self._identity(), position=self._position(), facts=facts)

    def close(self) -> None:
        """End what runs, and give the connection back; a shared one is the first table's to close."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is None or not (self._is_own or self._is_read):
            return
        # A server that is silent does not hold up who closes.
        wait([in_background(partial(self._end, connection))], _CLOSE_SECONDS)

    # What a dialect says.
    @abstractmethod
    def _connect(self) -> None:
        """Open the connection, and set what changes how the server writes values."""

    @abstractmethod
    def _bound(self) -> Bound:
        """What bounds a window, asked before the state that is read."""

    @abstractmethod
    def _begin(self) -> Any:
        """Begin to see one state; what the other tables of it need is returned."""

    @abstractmethod
    def _columns_there(self) -> list[SqlColumn]: ...

    @property
    @abstractmethod
    def _names(self) -> dict[str, str]:
        """What stands for the schema and the table in the queries of the catalog."""

    @abstractmethod
    def _identity(self) -> dict[str, str]: ...

    @abstractmethod
    def _position(self) -> str | None: ...

    @abstractmethod
    def _explained(self) -> contextlib.AbstractContextManager[None]:
        """Turns the driver's errors into faults, without what the server says of values."""

    @abstractmethod
    def _end(self, connection: Any) -> None:
        """Close a connection, also one on which another thread reads."""

    @abstractmethod
    def _at(self, time: str) -> str:
        """A time in the database's SQL, to be compared with the cursor."""

    @abstractmethod
    def _quoted(self, name: str) -> str: ...

    @property
    @abstractmethod
    def _relation(self) -> str:
        """The table in a query."""

    # What dialects share.
    def _keys_there(self) -> list[str]:
        return [str(row[0]) for row in self._ask(self.keys_query.format(**self._names))]

    def _rows_there(self) -> int | None:
        rows = self._ask(self.rows_query.format(**self._names))
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    def _query(self, pull: Pull) -> str:
        """The query of a pull's rows."""
        selected = ", ".join(f"{c.select} AS {self._quoted(c.name)}" for c in self._columns)
        where = self._table.where(pull, self._quoted(str(self._table.pull.cursor)), self._at)
        return f"SELECT {selected} FROM {self._relation}{where}"  # noqa: S608 - names are quoted

    def _ask(self, query: str) -> Sequence[Sequence[Any]]:
        def asked() -> Sequence[Sequence[Any]]:
            with self._connection.cursor() as cursor:
                cursor.execute(query)
                rows: Sequence[Sequence[Any]] = cursor.fetchall()
                return rows

        with self._explained():
            return self._waited(asked)

    def _run(self, statement: str) -> None:
        def ran() -> None:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)

        with self._explained():
            self._waited(ran)

    def _waited(self, work: Callable[[], _Result]) -> _Result:
        """Do something in a thread, which is left behind if the reader is closed and the server is silent.

        A driver that is asked to cancel may wait until the server has answered that, too.

        Raises:
            TransientFault: The reader was closed meanwhile.
        """

        def ending() -> TransientFault | None:
            return TransientFault(CLOSED) if self._is_closed else None

        return done_unless(ending, work)


def fetched(
    cursor: Any, columns: Sequence[SqlColumn], array: Callable[[SqlColumn, Sequence[Any]], Any]
) -> Iterator[Chunk]:
    """The rows of a query that a cursor of the DB-API has executed; of none there is one empty chunk.

    Args:
        array: Makes the Arrow array of a column's selected values.
    """
    import pyarrow as pa

    any_rows = False
    while (rows := cursor.fetchmany(ROWS)) or not any_rows:
        any_rows = True
        values = list(zip(*rows, strict=True)) if rows else [() for _ in columns]
        arrays = [array(*pair) for pair in zip(columns, values, strict=True)]
        batch = pa.record_batch(arrays, names=[column.name for column in columns])
        yield Chunk(rows=made_exact(batch, columns))
        if not rows:
            break
