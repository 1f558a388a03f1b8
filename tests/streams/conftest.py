"""The servers of the tests of streams: each started once a run."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from harness.commands import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.kafka import Broker, Postgres

__all__ = ["call"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker."""
    from harness.kafka import running_broker

    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, in a folder that its own user can reach: pytest's are closed to others."""
    from harness.kafka import Postgres

    if shutil.which("initdb") is None:
        pytest.skip("PostgreSQL's server is not there: apt-get install postgresql-15, and put it on PATH")
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-postgres-") as folder:
        running = Postgres(Path(folder, "server"))
        try:
            yield running
        finally:
            running.stop()
