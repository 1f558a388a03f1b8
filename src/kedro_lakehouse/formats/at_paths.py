"""What formats share whose tables lie at paths, and whose stages are files beside them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.formats.base import TableFormat
from kedro_lakehouse.formats.hadoop_files import delete_folder, is_there
from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.formats.staged_files import StagedFiles, drop_stages
from kedro_lakehouse.names import SPARK_CATALOG, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.formats.base import FormatContext, Stage
    from kedro_lakehouse.formats.staged_files import Commit
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
            # One that was dropped while Spark started: Spark would make a table without columns there.
            if not is_there(session, path):
                return
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


class FormatAtPaths(TableFormat):
    """Tables at ``<lakehouse>/warehouse/<namespace>/<table>``; SQL finds them in ``spark_catalog``."""

    _stages: ClassVar[type[StagedFiles]] = StagedFiles
    """The class of stages."""

    def __init__(self, context: FormatContext) -> None:
        """Store how to open the session, and where the tables lie; nothing is opened yet."""
        self._session, self._run_id = context.session, context.run_id
        lakehouse = context.lakehouse.rstrip("/")
        self._warehouse, self._leases = f"{lakehouse}/warehouse", f"{lakehouse}/leases"
        self._names = SessionCatalog(context.session, self.name)

    def _folder(self, table: TableName) -> str:
        return f"{self._warehouse}/{table.namespace}"

    def path(self, table: TableName) -> str:
        """The folder of a table."""
        return f"{self._folder(table)}/{table.table}"

    def sql(self, table: TableName) -> str:
        """Register the table in the session's catalog; return its quoted name there."""
        self._names.register(table, self.path(table))
        return self._names.sql(table)

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Register a view with the session unless it is there with this digest; True if it was registered."""
        return self._names.ensure_view(view, definition, digest)

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Drop the table, its files and its stages; with ``uuid``, only if the table still has that id."""
        if uuid is not None and self.uuid(table) != uuid:
            return
        self._names.forget(table)
        delete_folder(self._session(), self.path(table))
        drop_stages(self._session(), self._folder(table), table)

    def _stage(
        self,
        table: TableName,
        commit: Commit,
        is_current: Callable[[], bool],
        *,
        before: int,
        columns: Mapping[str, T.DataType],
    ) -> AbstractContextManager[Stage]:
        """Open a stage; what the block leaves unpublished is dropped. Arguments: see its class."""
        return self._stages(
            self._session(),
            table,
            self._folder(table),
            run_id=self._run_id,
            before=before,
            columns=columns,
            published=partial(self.read, table),
            is_current=is_current,
            commit=commit,
        ).opened()
