"""Tables of SQLite files as a source that kedro-lakehouse asks for their rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from kedro_lakehouse.config.base import Name  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Chunk, CrawledEntity, Entity, EntityColumn, Pull, PullCapabilities

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from kedro_lakehouse.pulls.protocol import Since

TYPES = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string(), "BLOB": pa.binary()}
AT_ONCE = 10_000
COLUMNS = "SELECT name, type, pk FROM pragma_table_info(?)"
TABLES = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*'"


class SqliteConfig(PulledSourceConfig):
    """A file of SQLite; a table's `entity` is a table or view in it."""

    database: Name
    """Path of the file."""


class SqliteSource:
    """One table of a file, read in one transaction: it is seen as it is when the pull is planned."""

    config_model: ClassVar = SqliteConfig
    capabilities: ClassVar = PullCapabilities(
        modes=frozenset({"full", "snapshot"}), lands="parquet", crawls=True
    )

    def __init__(self, config: SqliteConfig, name: Any, table: Any, credentials: Mapping[str, Any]) -> None:
        """Store the declarations; nothing is opened yet."""
        self._file, self._entity = Path(config.database), table.entity
        self._base: sqlite3.Connection | None = None

    @classmethod
    def crawl(
        cls, config: SqliteConfig, credentials: Mapping[str, Any], *, whole: bool
    ) -> Generator[CrawledEntity, None, None]:
        """Every table and view of the file; there are no secrets, and nothing is looked at in part."""
        del credentials, whole
        with faults(), closing(sqlite3.connect(f"file:{config.database}?mode=ro", uri=True)) as base:
            for name, kind in base.execute(TABLES).fetchall():
                yield CrawledEntity(name=name, kind=kind, entity=described(base.execute(COLUMNS, [name])))

    def describe(self) -> Entity:
        """The columns and keys, as the file's catalog has them."""
        with faults():
            return described(self._asked(COLUMNS, self._entity))

    def plan(self, since: Since) -> Pull:
        """Begin the transaction in which all is read."""
        if not self._file.exists():  # SQLite would make an empty one
            raise TerminalFault("there is no such file", "Correct `database` in sources.yml.")
        with faults():
            self._asked("BEGIN")
            self._asked("SELECT count(*) FROM sqlite_schema")  # from here on all is read as it is now
        return Pull(from_=None, to=datetime.now(UTC).isoformat(), identity={"file": str(self._file)})

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read the rows in chunks."""
        columns = self.describe().columns
        if not columns:
            raise TerminalFault(f"there is no table '{self._entity}'", "Correct `entity` in tables.yml.")
        schema = pa.schema([(c.name, TYPES.get(c.type.upper(), pa.string())) for c in columns])
        names = ", ".join(f'"{name}"' for name in schema.names)
        yield Chunk(rows=schema.empty_table())  # a table without rows has columns, too
        with faults():
            rows = self._asked(f'SELECT {names} FROM "{self._entity}"')  # noqa: S608 - names of its catalog
            while some := rows.fetchmany(AT_ONCE):
                values = zip(*some, strict=True)
                arrays = [pa.array(one, kind) for one, kind in zip(values, schema.types, strict=True)]
                yield Chunk(rows=pa.Table.from_arrays(arrays, schema=schema))

    def close(self) -> None:
        """End a read, and close the file."""
        if self._base is not None:
            self._base.interrupt()
            self._base.close()

    def _asked(self, statement: str, *values: str) -> sqlite3.Cursor:
        if self._base is None:
            self._base = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None)
        return self._base.execute(statement, values)


def described(found: Iterable[tuple[str, str, int]]) -> Entity:
    """What the file's catalog says of a table."""
    rows = list(found)
    columns = tuple(EntityColumn(name=name, type=kind) for name, kind, _ in rows)
    return Entity(columns=columns, keys=tuple(name for name, _, key in rows if key))


@contextmanager
def faults() -> Iterator[None]:
    """Say what may pass by itself, and what someone must mend; no value of a row is in the text."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InexactFault("a value is not of its column's type", "Declare the column as TEXT.") from error
    except sqlite3.DatabaseError as error:
        kind = TransientFault if "locked" in str(error) or "interrupted" in str(error) else TerminalFault
        raise kind(f"SQLite: {type(error).__name__} {getattr(error, 'sqlite_errorname', '')}") from error
