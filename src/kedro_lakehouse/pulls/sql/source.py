"""A table of a database, pulled in the way of its dialect."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.config.databases import Dialect, SqlSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.pulls.protocol import PullCapabilities
from kedro_lakehouse.pulls.sql.dialect import SqlTable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.protocol import Chunk, CrawledEntity, Entity, Pull, Since
    from kedro_lakehouse.pulls.sql.reader import SqlReader


_READERS: Final[Mapping[Dialect, tuple[str, str]]] = {
    "postgresql": ("postgresql", "PostgresReader"),
    "mariadb": ("mariadb", "MariaReader"),
    "mysql": ("mariadb", "MariaReader"),
    "sqlserver": ("sqlserver", "SqlServerReader"),
    "oracle": ("oracle", "OracleReader"),
    "jdbc": ("jdbc", "JdbcReader"),
}
"""The module and the class that asks a database, by its dialect."""


class SqlSource:
    """One table of a database; nothing is resumed, because a lost connection loses its state."""

    config_model: ClassVar[type[SqlSourceConfig]] = SqlSourceConfig
    capabilities: ClassVar[PullCapabilities] = PullCapabilities(
        modes=frozenset({"full", "incremental", "snapshot"}), lands="parquet", one_state=True, crawls=True
    )

    def __init__(
        self, config: SqlSourceConfig, name: TableName, table: TableConfig, credentials: Mapping[str, Any]
    ) -> None:
        """Store the declarations and the secrets; nothing is contacted yet."""
        del name
        self._reader = _reader(SqlTable(config, table), credentials)

    @classmethod
    def crawl(
        cls, config: SqlSourceConfig, credentials: Mapping[str, Any], *, whole: bool
    ) -> Generator[CrawledEntity, None, None]:
        """The tables and views of the database, as its catalog describes them."""
        del whole  # the catalog tells all
        with closing(_reader(_table(config), credentials)) as reader:
            for found in reader.tables():
                reader.turn_to(_table(config, found.name))
                yield replace(found, entity=reader.describe())

    def describe(self) -> Entity:
        """The columns, the primary key, and the database's estimate of the number of rows."""
        return self._reader.describe()

    def plan(self, since: Since) -> Pull | None:
        """Fix the state that is read, and for a window its end, by the server's clock."""
        return self._reader.plan(since)

    def read(self, pull: Pull, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Read the planned rows in batches."""
        del state
        return self._reader.read(pull)

    def close(self) -> None:
        """End what runs, and give the connection back."""
        self._reader.close()


def _table(config: SqlSourceConfig, entity: str = "") -> SqlTable:
    """A table that nobody has declared."""
    undeclared = TableConfig(source="crawled", write="replace")
    return SqlTable(config, undeclared.model_copy(update={"entity": entity}))


def _reader(table: SqlTable, credentials: Mapping[str, Any]) -> SqlReader:
    """The reader of the declared dialect; only its module, and so only its driver, is imported."""
    module, name = _READERS[table.config.dialect]
    reader: SqlReader = getattr(import_module(f"{__package__}.{module}"), name)(table, credentials)
    return reader
