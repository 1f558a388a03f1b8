"""A stored table against the model's, after a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.by_product import Bench, plain_row
from conformance.comparing import row_differences
from conformance.events import rules_of
from harness.project import FORMAT
from model.invariants import violations
from model.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from conformance.cases import TableCase
    from model.fold import Row

from conformance.lots import Lot, Member

EXACT = ("events_in", "applied", "duplicates", "quarantined", "sequence_ties", "late",
         "inserted", "updated", "deleted", "opened", "closed", "rewritten", "removed")  # fmt: skip


class Trial:
    """Tables of a project, and the model's beside them; ``more``: what else each of them declares."""

    def __init__(
        self, path: Path, cases: Sequence[TableCase], table_format: str = FORMAT, **more: Any
    ) -> None:
        lots = [Lot(f"cases.{c.id}", [Member(c)], alone=True, more=more) for c in cases]
        self.bench = Bench.make(path, lots, [], table_format=table_format)
        self.cases = {c.id: c for c in cases}
        self.models = {c.id: Table(rules_of(c.steps[0].options, c.steps[0].columns)) for c in cases}

    def run(self) -> dict[str, list[str]]:
        """Run all batches; after each, compare every table. The differences by table and batch."""
        found: dict[str, list[str]] = {}
        for number in range(max(len(c.steps) for c in self.cases.values())):
            self.bench.round(number)
            for name, case in self.cases.items():
                if number < len(case.steps):
                    counts = self.models[name].apply(case.steps[number].events)
                    if words := self.differences(name, counts):
                        found[f"{name}, batch {number + 1}"] = words
        return found

    def differences(self, name: str, counts: Mapping[str, int]) -> list[str]:
        """What a table holds and counted, beside what the model says; and the invariants that it breaks."""
        outcome, project, model = self.bench.outcomes[-1], self.bench.project, self.models[name]
        words = [f"failed: {e}" for t, e in outcome.failed.items() if t == f"cases.{name}"]
        current = [plain_row(r) for r in project.rows(f"cases.{name}")]
        history = [plain_row(r) for r in project.rows(f"cases.{name}_history")]
        words += row_differences(model.current, current, "current")
        words += row_differences(
            *versions_compared(model.history, history, model.rules.tombstones), "history"
        )
        words += violations(current, history, model.rules)
        if not self.cases[name].steps[0].events or name.startswith("truncated"):
            return words
        said: dict[str, Any] = {}
        for report in (r for r in outcome.reports if r.table == f"cases.{name}"):
            said |= report.counts
        return words + [
            f"metrics: {n} expected {counts[n]}, found {said.get(n)}"
            for n in EXACT
            if counts["events_in"] and (said.get(n) or 0) != counts[n]
        ]


def versions_compared(expected: list[Row], found: list[Row], tombstones: bool) -> tuple[list[Row], list[Row]]:
    """Versions as they are compared: all that the contract says, and of a tombstone not its last event."""

    def seen(row: Row) -> Row:
        if not tombstones:
            return {n: v for n, v in row.items() if n != "_tombstone"}
        return row | ({"_order_last": None} if row["_tombstone"] else {})

    current = [r | {"is_current": r["_order_to"] is None and not r["_tombstone"]} for r in expected]
    return [seen(r) for r in current], [seen(r) for r in found]
