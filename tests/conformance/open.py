"""Cases that the package does not meet yet, each with its reason: the day one passes, its mark must go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

OPEN: dict[str, str] = {}


def marked(cases: Iterable[str]) -> list[Any]:
    """Cases as parameters; open ones are expected to fail."""
    return [
        pytest.param(c, marks=pytest.mark.xfail(reason=OPEN[c], strict=True)) if c in OPEN else c
        for c in cases
    ]
