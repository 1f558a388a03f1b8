"""The contract's cases that say what a table with keys holds after batches under one declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.cases import table_cases
from conformance.reading import read_cases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.cases import TableCase


def _is_of_rules(case: TableCase) -> bool:
    """Whether a case needs no more than rules: it is not refused, and its declaration stays."""
    first = case.steps[0]
    stays = all(
        (s.options, s.columns, s.kinds) == (first.options, first.columns, first.kinds) for s in case.steps
    )
    return stays and bool(first.options.keys) and not (case.expect.get("error") or first.options.expect_error)


def _cases() -> dict[str, Sequence[TableCase]]:
    found = {}
    for case in read_cases():
        if case["kind"] in ("events", "schema", "pipeline"):
            tables = [t for t in table_cases(case) if _is_of_rules(t)]
            if tables:
                found[case["id"]] = tables
    return found


CASES: Mapping[str, Sequence[TableCase]] = _cases()
"""By the case's id; of a case with several tables those of which this is true."""
