"""What takes longer than CI has: ``make soak`` runs it, with more tables, histories and commits."""

from __future__ import annotations

import os

import pytest

SOAK = "KEDRO_LAKEHOUSE_SOAK"


def soaking() -> bool:
    """Whether this run is to take its time."""
    return os.environ.get(SOAK, "") not in ("", "0")


only_in_soak = pytest.mark.skipif(not soaking(), reason="takes minutes; `make soak` runs it")
