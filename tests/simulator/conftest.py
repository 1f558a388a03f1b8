"""Fixtures of the simulator's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.world import installed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """What the simulator changes in a process, for the time of a test."""
    with installed():
        yield
