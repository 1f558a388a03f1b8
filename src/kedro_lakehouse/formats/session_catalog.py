"""Register tables that lie at a path, and views on them, in Spark's own catalog for a session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.names import SPARK_CATALOG, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kedro_lakehouse.names import TableName

_writing = threading.Lock()
"""Guards Spark's own catalog, of which a process has only one."""


class SessionCatalog:
    """Registers ``spark_catalog.<namespace>.<table>`` at first use, so that SQL finds it by its name."""

    def __init__(self, session: Callable[[], SparkSession], provider: str) -> None:
        """Store how to get the session; nothing is registered yet."""
        self._session, self._provider = session, provider
        self._tables: set[TableName] = set()
        self._views: dict[TableName, str] = {}

    def register(self, table: TableName, path: str) -> None:
        """Register an existing table, once; its files stay as they are."""
        with _writing:
            if table in self._tables:
                return
            session, name = self._session(), self.sql(table)
            session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(SPARK_CATALOG, table.namespace)}")
            # Another lakehouse of this process may have registered a table of this name.
            session.sql(f"DROP TABLE IF EXISTS {name}")
            session.sql(f"CREATE TABLE {name} USING {self._provider} LOCATION {text(path)}")
            self._tables.add(table)

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Register a view unless it is registered with this digest; True if it was registered."""
        with _writing:
            if self._views.get(view) == digest:
                return False
            session = self._session()
            session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(SPARK_CATALOG, view.namespace)}")
            session.sql(f"CREATE OR REPLACE VIEW {self.sql(view)} AS {definition}")
            self._views[view] = digest
            return True

    def forget(self, table: TableName) -> None:
        """Remove a table's name from the catalog."""
        with _writing:
            self._session().sql(f"DROP TABLE IF EXISTS {self.sql(table)}")
            self._tables.discard(table)

    @staticmethod
    def sql(table: TableName) -> str:
        """The quoted name."""
        return quote(SPARK_CATALOG, table.namespace, table.table)
