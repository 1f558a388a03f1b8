"""The servers of the tests of streams: each started once a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.commands import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import MariaDb, Postgres
    from harness.kafka import Broker

__all__ = ["call"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker."""
    from harness.kafka import running_broker

    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server."""
    from harness.databases import Postgres, running_database

    with running_database("initdb", Postgres) as running:
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server."""
    from harness.databases import MariaDb, running_database

    with running_database("mariadbd", MariaDb) as running:
        yield running
