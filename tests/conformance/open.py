"""Cases that the package does not meet yet, each with its reason: the day one passes, its mark must go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_DECODER = "no decoder of this format is registered yet"
OPEN: dict[str, str] = dict.fromkeys(("dec-01", "dec-03", "dec-05"), _NO_DECODER)


def marked(cases: Iterable[str]) -> list[Any]:
    """Cases as parameters; open ones are expected to fail."""
    return [
        pytest.param(c, marks=pytest.mark.xfail(reason=OPEN[c], strict=True)) if c in OPEN else c
        for c in cases
    ]
