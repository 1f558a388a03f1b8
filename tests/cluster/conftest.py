"""A standalone cluster of two workers, and projects whose commands run on it with ``--env=cluster``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.cluster import standalone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers with a core each, whose executors log every task."""
    with standalone(
        tmp_path_factory.mktemp("cluster"), environment={"KEDRO_LAKEHOUSE_JVM_LOG_LEVEL": "info"}
    ) as made:
        yield made
