"""Sources of type sql keep the contract of all pulled sources, on real servers."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")

from harness.jdbc import by_jdbc
from harness.pulled import Shop

from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.sql.source import SqlSource
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.databases import MariaDb, Postgres

pytestmark = pytest.mark.sources

_numbers = itertools.count()
_CREDENTIALS = {"user": "puller", "password": "pulled-well"}


class Table:
    """A table of a database that a test fills."""

    def __init__(self, database: Postgres | MariaDb, dialect: str) -> None:
        self.database, self.dialect, self.name = database, dialect, f"contract_{next(_numbers)}"
        self._make()

    def _make(self) -> None:
        times = "timestamptz" if self.dialect == "postgresql" else "timestamp(6)"
        now = "now()" if self.dialect == "postgresql" else "now(6)"
        self._run(
            f"CREATE TABLE {self.name} (id int PRIMARY KEY, name text, updated_at {times} DEFAULT {now});"
        )

    def _run(self, text: str) -> None:
        self.database.script(text if self.dialect == "postgresql" else f"USE shop; {text}")

    def put(self, rows: dict[int, str | None]) -> None:
        if not rows:
            return
        now = "now()" if self.dialect == "postgresql" else "now(6)"
        values = ", ".join(f"({n}, {self._literal(name)}, {now})" for n, name in rows.items())
        if self.dialect == "postgresql":
            anew = "ON CONFLICT (id) DO UPDATE SET name = excluded.name, updated_at = excluded.updated_at"
            self._run(f"INSERT INTO {self.name} VALUES {values} {anew};")
        else:
            self._run(f"REPLACE INTO {self.name} VALUES {values};")

    def _literal(self, name: str | None) -> str:
        if name is None:
            return "NULL"
        escaped = name.replace("'", "''")
        return "'" + (escaped if self.dialect == "postgresql" else escaped.replace("\\", "\\\\")) + "'"

    def remove(self, *ids: int) -> None:
        self._run(f"DELETE FROM {self.name} WHERE id IN ({', '.join(map(str, ids))});")

    def settle(self) -> None:
        time.sleep(1.1 if self.dialect == "postgresql" else 2.1)

    def make_anew(self) -> bool:
        self._run(f"DROP TABLE {self.name};")
        self._make()
        return self.dialect == "postgresql"


class _SqlContract(PulledSourceContract):
    def declared(self, origin: Any, mode: Any, folder: str) -> tuple[SqlSourceConfig, TableName, TableConfig]:
        database = "postgres" if origin.dialect == "postgresql" else "shop"
        config = SqlSourceConfig(
            type="sql", dialect=origin.dialect, path=folder,
            connection={"host": "127.0.0.1", "port": origin.database.port, "database": database},
        )  # fmt: skip
        pull = SqlPullConfig(mode=mode, cursor="updated_at" if mode == "incremental" else None)
        table = TableConfig(source="s", entity=origin.name, keys=("id",), pull=pull)
        return config, TableName("shop", origin.name), table

    def credentials(self, origin: Any) -> Mapping[str, Any]:
        del origin
        return _CREDENTIALS

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> SqlSource:
        return SqlSource(*self.declared(origin, mode, folder), {**_CREDENTIALS, **credentials})


class TestPostgres(_SqlContract):
    """The contract on PostgreSQL."""

    @pytest.fixture
    def origin(self, postgres: Postgres) -> Table:
        return Table(postgres, "postgresql")


class TestMariaDb(_SqlContract):
    """The contract on MariaDB."""

    @pytest.fixture
    def origin(self, mariadb: MariaDb) -> Table:
        return Table(mariadb, "mariadb")


class _SeenByJdbc(Table):
    def make_anew(self) -> bool:
        super().make_anew()
        return False  # JDBC does not tell


class TestJdbc(_SqlContract):
    """The contract on PostgreSQL by its JDBC driver."""

    @pytest.fixture
    def origin(self, postgres: Postgres) -> Table:
        return _SeenByJdbc(postgres, "postgresql")

    def declared(self, origin: Any, mode: Any, folder: str) -> tuple[SqlSourceConfig, TableName, TableConfig]:
        _, name, table = super().declared(origin, mode, folder)
        config = by_jdbc(Shop("postgresql", origin.database), folder)
        return SqlSourceConfig.model_validate(config), name, table
