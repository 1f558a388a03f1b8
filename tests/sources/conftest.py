"""The servers of the tests of pulled sources: each started once a run."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from harness.commands import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import MariaDb, Postgres
    from harness.pulled import Shop

__all__ = ["call"]

Database = TypeVar("Database", "MariaDb", "Postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that asks the user ``puller`` for a password."""
    from harness.databases import Postgres

    with _running("initdb", Postgres) as running:
        rules = running.folder / "data/pg_hba.conf"
        rules.write_text(
            f"host all puller all scram-sha-256\n{rules.read_text(encoding='utf-8')}", encoding="utf-8"
        )
        running.script("SELECT pg_reload_conf();")
        running.script("CREATE ROLE puller LOGIN PASSWORD 'pulled-well'; GRANT pg_read_all_stats TO puller;")
        running.script("GRANT pg_read_all_data TO puller;")
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server with the user ``puller``, who has a password."""
    from harness.databases import MariaDb

    with _running("mariadbd", MariaDb) as running:
        running.script("CREATE DATABASE shop; CREATE USER 'puller'@'127.0.0.1' IDENTIFIED BY 'pulled-well';")
        running.script("GRANT SELECT ON shop.* TO 'puller'@'127.0.0.1';")
        running.script("GRANT PROCESS, RELOAD, BINLOG MONITOR ON *.* TO 'puller'@'127.0.0.1';")
        yield running


@pytest.fixture(scope="session")
def shops(postgres: Postgres, mariadb: MariaDb) -> dict[str, Shop]:
    """Both databases."""
    from harness.pulled import Shop

    return {"postgresql": Shop("postgresql", postgres), "mariadb": Shop("mariadb", mariadb)}


@contextmanager
def _running(program: str, kind: type[Database]) -> Iterator[Database]:
    """A database server, in a folder that its own user can reach: pytest's are closed to others."""
    from harness.databases import INSTALLED_BY, is_installed

    if not is_installed(program):
        pytest.skip(INSTALLED_BY[program])
    with tempfile.TemporaryDirectory(prefix=f"kedro-lakehouse-{kind.user}-") as folder:
        running = kind(Path(folder, "server"))
        try:
            yield running
        finally:
            running.stop()
