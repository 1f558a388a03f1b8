"""Which cases are run where: `make conformance` runs all of them, on each format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rules.cases import CASES

from conformance.reading import BESIDE_RULES, SWITCH

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED = ("schema-02", "snap-empty-01", "trunc-01")
"""Those that Delta and Hudi run each time: new and wider columns, an empty extract, a truncate."""


def chosen(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All cases; where the environment asks for it, those that rules alone (``tests/rules``) cannot prove."""
    if os.environ.get(SWITCH) != BESIDE_RULES:
        return list(cases)
    return [c for c in cases if c["id"] not in CASES or "crash" in c]
