"""Which cases are run where: `make conformance` runs all of them, on each format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rules.cases import CASES

from conformance.reading import BESIDE_RULES, SWITCH

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED = (
    "autocdc-docs-01", "spark-05", "spark-20", "seq-01", "trunc-01", "keychg-02", "keys-04", "change-02",
    "replay-01", "ts-01", "noop-01", "schema-02", "dbt-ts-01", "snap-empty-01",
)  # fmt: skip
"""Those that Delta runs each time: deletes, truncates, moved keys, new and wider columns, repeats."""
NAMED_FOR_HUDI = ("autocdc-docs-01", "keychg-02", "replay-01", "schema-02", "snap-empty-01", "trunc-01")
"""The cases of ``NAMED`` that Hudi runs each time. Spark makes every Hudi table, so each case takes long."""


def chosen(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All cases; where the environment asks for it, those that rules alone (``tests/rules``) cannot prove."""
    if os.environ.get(SWITCH) != BESIDE_RULES:
        return list(cases)
    return [c for c in cases if c["id"] not in CASES or "crash" in c]
