"""Tables of PostgreSQL and MariaDB that tests pull from, and people who change them meanwhile."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow.parquet as pq
import pytest

from harness.project import TemporaryProject
from kedro_lakehouse.errors import SourceRefusedError
from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.databases import MariaDb, Postgres

CREDENTIALS: Final = {"user": "puller", "password": "pulled-well"}
DIALECTS: Final = ("postgresql", "mariadb")
CHANGED: Final = "CREATE TABLE {name} (id int PRIMARY KEY, name text, updated_at {time} NOT NULL{default});"


class Shop:
    """One database: statements by its client, connections by its driver, and its declaration as a source."""

    def __init__(self, dialect: str, server: Postgres | MariaDb) -> None:
        self.dialect, self.server = dialect, server
        self.is_postgres = dialect == "postgresql"
        self.database = "postgres" if self.is_postgres else "shop"
        self.now = "now()" if self.is_postgres else "now(6)"
        self.time = "timestamptz" if self.is_postgres else "timestamp(6)"

    def script(self, text: str) -> list[str]:
        """Run statements."""
        return self.server.script(text if self.is_postgres else f"USE shop; SET sql_mode=''; {text}")

    def let_in(self) -> None:
        """Make the user of CREDENTIALS, who reads all and sees transactions; and the database of MariaDB."""
        if self.is_postgres:
            self.server.script(
                "CREATE ROLE puller LOGIN PASSWORD 'pulled-well' IN ROLE pg_read_all_data, pg_read_all_stats;"
            )
            return
        self.server.script(
            "CREATE DATABASE shop; CREATE USER 'puller'@'127.0.0.1' IDENTIFIED BY 'pulled-well';"
        )
        self.server.script("GRANT SELECT ON shop.* TO 'puller'@'127.0.0.1';")
        self.server.script("GRANT PROCESS, RELOAD, BINLOG MONITOR ON *.* TO 'puller'@'127.0.0.1';")

    def source(self, folder: str, **more: Any) -> dict[str, Any]:
        """The declaration of the source."""
        connection = {"host": "127.0.0.1", "port": self.server.port, "database": self.database}
        declared = {"type": "sql", "dialect": self.dialect, "connection": connection, "path": folder}
        return declared | {"credentials": self.dialect} | more

    def connect(self) -> Any:
        """A connection of a writer, in which transactions begin and end by statements."""
        if self.is_postgres:
            import adbc_driver_postgresql.dbapi as adbc

            place = f"host=127.0.0.1 port={self.server.port} user=postgres dbname=postgres"
            return adbc.connect(place, autocommit=True)
        import pymysql

        self.script(
            "CREATE USER IF NOT EXISTS 'writer'@'127.0.0.1'; GRANT ALL ON shop.* TO 'writer'@'127.0.0.1';"
        )
        return pymysql.connect(
            host="127.0.0.1", port=self.server.port, user="writer", database="shop", autocommit=True
        )


def run(connection: Any, *statements: str) -> list[Any]:
    """Run statements on a connection; the rows of the last one."""
    rows: list[Any] = []
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if statement.startswith("SELECT") else []
    return rows


class Writers:
    """People who insert and change rows in transactions of a millisecond to more than a second.

    Each transaction inserts a parent, changes some, waits, and inserts a child of its parent.
    """

    def __init__(self, shop: Shop, parents: str, children: str, *, count: int = 6, seed: int = 7) -> None:
        self._shop, self._parents, self._children = shop, parents, children
        self._ends, self._count, self._seed = threading.Event(), count, seed
        self._failed: list[Exception] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        connections = [self._shop.connect() for _ in range(self._count)]
        self._threads = [
            threading.Thread(target=self._work, args=(number, connection))
            for number, connection in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        assert not self._failed, self._failed

    def _work(self, number: int, connection: Any) -> None:
        rng = random.Random(self._seed * 100 + number)  # noqa: S311 - a test's
        row = number * 100_000
        try:
            while not self._ends.is_set():
                row += 1
                now = self._shop.now
                run(
                    connection,
                    "BEGIN",
                    f"INSERT INTO {self._parents} VALUES ({row}, 'new', {now})",
                    f"UPDATE {self._parents} SET name = 'n{rng.random():.9f}', updated_at = {now} "
                    f"WHERE id IN ({row}, {number * 100_000 + rng.randint(1, row % 100_000)})",
                )
                time.sleep(rng.choice([0.001, 0.01, 0.05, 0.2, 1.2]))
                run(connection, f"INSERT INTO {self._children} VALUES ({row}, {row}, {now})", "COMMIT")
        except Exception as error:  # noqa: BLE001 - the test tells it
            self._failed.append(error)
        finally:
            connection.close()


def folded(rows: list[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The last row of each key, by the time of its change."""
    found: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        if row["id"] not in found or found[row["id"]]["updated_at"] <= row["updated_at"]:
            found[row["id"]] = row
    return found


def make_table(shop: Shop, *names: str) -> None:
    """Make tables whose rows have a time of their change."""
    default = "" if shop.is_postgres else " DEFAULT now(6)"
    for name in names:
        shop.script(CHANGED.format(name=name, time=shop.time, default=default))


def made(path: Path, sources: dict[str, Any], tables: dict[str, Any]) -> TemporaryProject:
    """A project with the databases' credentials."""
    project = TemporaryProject.make(path, sources, tables)
    project.write("credentials", dict.fromkeys(DIALECTS, CREDENTIALS), env="local")
    return project


def bound(project: TemporaryProject, table: str) -> Any:
    """A table of a project, as a run binds it."""
    return Project.load(str(project.path / "conf"), None).bind(TableName.parse(table))


def assert_lacks_are_refused(project: TemporaryProject) -> None:
    """Tables `a.no_table`, `a.no_column` and `a.no_time` are refused, each for what the database lacks."""
    for table, words in (
        ("a.no_table", "there is no table no_table"),
        ("a.no_column", "no column nothing"),
        ("a.no_time", "a window needs a time"),
    ):
        with pytest.raises(SourceRefusedError, match=words):
            pull_now(bound(project, table))


def window(**more: Any) -> dict[str, Any]:
    """A table that is pulled by windows."""
    return {"keys": ["id"], "pull": {"mode": "incremental", "cursor": "updated_at"} | more}


def landed(project: TemporaryProject, table: str) -> list[Mapping[str, Any]]:
    """The rows of all files that sealed manifests name."""
    files = bound(project, table).open_source().files()
    paths = [file.path.removeprefix("file://") for file in files]
    return [row for path in paths for row in pq.read_table(path, partitioning=None).to_pylist()]


def names_in(shop: Shop, table: str) -> dict[int, str]:
    """The names in the database, by id."""
    lines = shop.script(f"SELECT concat(id, '|', name) FROM {table};")
    return {int(number): name for number, _, name in (line.partition("|") for line in lines)}


def of_one(shop: Shop, folder: Path, table: str) -> TemporaryProject:
    """A project with one table ``a.<table>`` that is pulled by windows."""
    source = {shop.dialect: shop.source(str(folder / "landing"))}
    return made(folder / "project", source, {f"a.{table}": {"source": shop.dialect} | window()})
