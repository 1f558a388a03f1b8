"""Cases through real runs: records land in a folder, ``kedro run`` takes them, tables are read back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.project import ENV, FORMAT, TemporaryProject, write_parquet
from harness.soak import soaking
from model.values import ranks

from conformance.cases import Found
from conformance.lots import CHANGES_SOURCE, MEMBER, Lot, Member, declared
from conformance.typed import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.project import Outcome

    from conformance.cases import Row, SnapshotCase

EXTRACTS_SOURCE = {
    "type": "extract", "path": "${globals:landing}/extracts", "pattern": "*.parquet",
    "file_format": "parquet", "extract_time": {"from": "name", "pattern": "%Y-%m-%dT%H%M%S.%fZ"},
}  # fmt: skip


# Tables of ten rows need no second partition.
@dataclass
class Extracted:
    """One table of extracts: one extract a round, or all of them at once."""

    table: str
    case: SnapshotCase
    at_once: bool

    @property
    def rounds(self) -> int:
        """How many times extracts land."""
        return 1 if self.at_once else len(self.case.snapshots)

    def declaration(self) -> dict[str, Any]:
        """The table's declaration."""
        return declared(self.case.options) | {"source": "extracts"}

    def land(self, landing: Path, number: int) -> None:
        """Write the extracts of one round."""
        schema = {n: arrow_type(t) for n, t in self.case.kinds.columns.items()}
        wanted = self.case.snapshots if self.at_once else [self.case.snapshots[number]]
        for snapshot in wanted:
            folder = landing / "extracts" / self.table.partition(".")[2]
            write_parquet(folder / f"{snapshot.name}.parquet", snapshot.rows, schema)


def extracted(cases: Sequence[SnapshotCase]) -> list[Extracted]:
    """The tables of extracts: each case one by one; in a soak also as a backlog, where they are in order."""
    found = []
    for number, case in enumerate(cases):
        found.append(Extracted(f"extracts.s{number:03}", case, at_once=False))
        times = [(s.at, s.name) for s in case.snapshots]
        if soaking() and times == sorted(times):
            found.append(Extracted(f"extracts.s{number:03}b", case, at_once=True))
    return found


@dataclass
class Bench:
    """A project with the tables of all cases, run round by round."""

    project: TemporaryProject
    lots: Sequence[Lot]
    extracts: Sequence[Extracted]
    outcomes: list[Outcome] = field(default_factory=list)

    @classmethod
    def make(
        cls,
        path: Path,
        lots: Sequence[Lot],
        extracts: Sequence[Extracted],
        *,
        table_format: str = FORMAT,
        env: str | None = ENV,
    ) -> Bench:
        """Make the project, with the table format of an environment; nothing has landed yet."""
        tables = _tables(lots, extracts, 0)
        project = TemporaryProject.make(path, _SOURCES, tables, table_format=table_format, env=env)
        return cls(project, lots, extracts)

    def run(self) -> None:
        """Land and run every round."""
        for number in range(max([x.rounds for x in [*self.lots, *self.extracts]], default=0)):
            self.round(number)

    def land(self, number: int) -> list[str]:
        """Declare what a round declares, and land its files; the tables that it is about."""
        self.project.declare(_SOURCES, _tables(self.lots, self.extracts, number))
        for lot in self.lots:
            for batch in lot.batches_of(number):
                folder = self.project.landing / lot.table.replace(".", "/")
                write_parquet(folder / f"r{batch:02}.parquet", lot.rows(batch), lot.schema(batch))
        for table in self.extracts:
            if number < table.rounds:
                table.land(self.project.landing, number)
        return [x.table for x in [*self.lots, *self.extracts] if number < x.rounds]

    def round(self, number: int) -> None:
        """Land one round's files, and run the tables that it is about.

        In a soak every other round takes the large way, and so goes on with what the small way left.
        """
        if soaking():
            self.project.set_globals(small_batch=0 if number % 2 else 2000)
        self.run_once(self.land(number))

    def run_once(self, tables: Sequence[str] = ()) -> None:
        """Run these tables, else all, on what has landed."""
        self.outcomes.append(self.project.attempt(namespaces=list(tables)))

    def found(self, table: str) -> Found:
        """What a table holds, and what its runs said."""
        found = Found(
            current=[plain_row(r) for r in self.project.rows(table)],
            history=[plain_row(r) for r in self.project.rows(f"{table}_history")],
            reasons=[r["_reasons"][0] for r in self.project.rows(f"{table}_quarantine")],
        )
        for outcome in self.outcomes:
            found.batches += _counts(outcome, table)
            if table in outcome.failed:
                found.errors += codes(outcome.failed[table])
        state = self.project.state(table)
        found.types = {n: t.simpleString() for n, t in state.columns.items()} if state else {}
        commits = [r for r in self.project.ops("batches") if (r["table"], r["stage"]) == (table, "current")]
        found.commits = len(commits)
        return found

    def found_of(self, lot: Lot, member: Member) -> Found:
        """What a table holds of one of its members."""
        if lot.table not in self._lots:
            self._lots[lot.table] = self.found(lot.table)
        found = self._lots[lot.table]
        if lot.alone:
            return found

        def own(rows: list[Row] | None) -> list[Row]:
            return [r for r in rows or [] if r[MEMBER] == member.name]

        return Found(current=own(found.current), history=own(found.history), errors=found.errors)

    _lots: dict[str, Found] = field(default_factory=dict)


_SOURCES = {
    "cases": CHANGES_SOURCE, "cases_one_by_one": CHANGES_SOURCE | {"max_files": 1},
    "extracts": EXTRACTS_SOURCE,
}  # fmt: skip


def _tables(lots: Sequence[Lot], extracts: Sequence[Extracted], number: int) -> dict[str, Any]:
    tables = {lot.table: lot.declaration(number) for lot in lots}
    return tables | {x.table: x.declaration() for x in extracts}


def _counts(outcome: Outcome, table: str) -> list[dict[str, Any]]:
    """The counts of a run's batches of a table; a target takes several batches as one, with the last."""
    found: dict[int, dict[str, Any]] = {}
    for report in (r for r in outcome.reports if r.table == table):
        counts = found.setdefault(report.batch, {})
        counts |= {n: c for n, c in report.counts.items() if c is not None}
        for name in ("min_order", "max_order"):
            if text := getattr(report, name):
                counts[name] = tuple(json.loads(text).values())
    return [found[batch] for batch in sorted(found)]


def plain_row(row: Row) -> Row:
    """A stored row with orders as the model has them: tuples."""
    orders = ("_order", "_order_from", "_order_to", "_order_last")
    return {n: tuple(v.values()) if n in orders and v is not None else v for n, v in row.items()}


def codes(error: BaseException) -> list[str]:
    """The code of a failure, and those of the refusals that it stands for."""
    inner = [c for e in getattr(error, "errors", ()) for c in codes(e)]
    return [getattr(error, "code", f"{type(error).__name__}: {error}"), *inner]


def by_key(rows: Sequence[Row], names: Sequence[str]) -> dict[Any, Row]:
    """Rows by the ranks of some columns."""
    return {ranks(r[n] for n in names): r for r in rows}
