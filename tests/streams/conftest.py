"""The servers of the tests of streams: each started once a run."""

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
    from harness.kafka import Broker

__all__ = ["call"]

Database = TypeVar("Database", "MariaDb", "Postgres")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker."""
    from harness.kafka import running_broker

    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server."""
    from harness.databases import Postgres

    with _running("initdb", Postgres) as running:
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server."""
    from harness.databases import MariaDb

    with _running("mariadbd", MariaDb) as running:
        yield running


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
