"""The servers of the tests of pulled sources: each started once a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.commands import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import MariaDb, Postgres
    from harness.pulled import Shop

__all__ = ["call"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that asks the user ``puller`` for a password."""
    from harness.databases import Postgres, running_database
    from harness.pulled import Shop

    with running_database("initdb", Postgres) as running:
        rules = running.folder / "data/pg_hba.conf"
        rules.write_text(
            f"host all puller all scram-sha-256\n{rules.read_text(encoding='utf-8')}", encoding="utf-8"
        )
        running.script("SELECT pg_reload_conf();")
        Shop("postgresql", running).let_in()
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server with the user ``puller``, who has a password."""
    from harness.databases import MariaDb, running_database
    from harness.pulled import Shop

    with running_database("mariadbd", MariaDb) as running:
        Shop("mariadb", running).let_in()
        yield running


@pytest.fixture(scope="session")
def shops(postgres: Postgres, mariadb: MariaDb) -> dict[str, Shop]:
    """Both databases."""
    from harness.pulled import Shop

    return {"postgresql": Shop("postgresql", postgres), "mariadb": Shop("mariadb", mariadb)}
