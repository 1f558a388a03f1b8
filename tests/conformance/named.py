"""The cases that tests of every day run on Spark; `make conformance` runs all of them, on each format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from conformance.reading import ONLY_NAMED, SWITCH

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED = (
    "autocdc-docs-01", "autocdc-docs-03", "spark-01", "spark-05", "spark-09", "spark-13", "spark-18",
    "spark-24", "spark-29", "spark-33", "seq-01", "dlt-03", "partial-01", "partial-05", "trunc-01",
    "keychg-02", "keys-04", "replay-01", "overlap-01", "noop-01", "schema-02", "tie-21",
    "dlt-scd2-02", "dbt-ts-01", "snap-empty-01",
)  # fmt: skip
_IN_TABLES = ("events", "schema", "pipeline", "snapshots")
"""The kinds of which there are many; of the others each case is run."""


def chosen(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All cases, or the named ones where the environment asks for these."""
    if os.environ.get(SWITCH) != ONLY_NAMED:
        return list(cases)
    return [c for c in cases if c["id"] in NAMED or c["kind"] not in _IN_TABLES or "crash" in c]
