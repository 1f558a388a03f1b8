"""Random histories whose rows grow old and leave their table, by the rules alone, beside a model.

A row is old if its column ``w`` is below a limit, which grows once. The tables are brought up to each batch,
and their rows are moved, as commits do it; some moves are killed between their two commits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from conformance.comparing import row_differences
from model.table import Table
from property.histories import ROUNDS, table_of
from pyspark.sql import functions as F

from kedro_lakehouse.changes import lifetimes, plan, plan_rows
from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.plan import LATE, TIED, Target
from kedro_lakehouse.commits.small_rules import frame_of
from rules.frames import Tables, _merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model.events import Event
    from property.histories import Design
    from pyspark.sql import DataFrame, SparkSession

AGE = "w"


@dataclass
class AgingTables(Tables):
    """The tables of a case, the current one without its old rows, and their archive."""

    archive: pa.Table | None = None
    archived: int = 0
    """The batch of the current table that the archive was written on."""
    moves: int = 0
    """The number of the last move that the current table has."""
    forgets: str = ""
    """A planted fault: what is left out."""
    returned: int = field(default=0)

    def _bring(self, kind: Any, past: pa.Table) -> None:
        if kind == "history":
            return  # it keeps everything
        if not self.moves:
            super()._bring(kind, past)
        elif self._has_new_truncate():
            # Only the change log knows which rows that have left it empties.
            self.held[kind] = current_rows(self._frame(past), self.contract).toArrow()
            self.moves = 0
        else:
            self._bring_rows_back(past)

    def _bring_rows_back(self, past: pa.Table) -> None:
        frame, held = self._frame(past), self.held["current"]
        target = Target(kind="current", rows=self._frame(held), past=frame, bookmark=self.batch - 1)
        events = frame.where((F.col(BATCH) == self.batch) & (F.col(OP) != TRUNCATE))
        left = lifetimes.rows_that_left(events, target, self.contract).toArrow()
        if not left.num_rows or self.forgets == "rows that left":
            super()._bring("current", past)
            return
        self.returned += left.num_rows
        back = self._frame(left)
        whole = replace(target, rows=target.rows.unionByName(back))
        marks = plan.mark_late(events, whole, self.contract).toArrow()
        late, tied = (bool(pc.any(marks[c]).as_py()) for c in (LATE, TIED))
        changed = plan_rows.changed_rows(self._frame(marks), whole, self.contract, late=late, tied=tied)
        planned = lifetimes.with_rows_that_left(changed, back, self.contract.keys).toArrow()
        self.held["current"] = _merged(held, planned, self.contract.keys)

    def move(self, limit: int, *, killed: bool) -> None:
        """Move the old rows to the archive; a killed move has written the archive only."""
        held, keys = self.held["current"], list(self.contract.keys)
        age = held[AGE].to_pylist()
        is_old = pa.array([value is not None and value < limit for value in age], pa.bool_())
        old, number = held.filter(is_old), self.moves + 1
        if not old.num_rows:
            return
        kept = held.schema.append(pa.field(lifetimes.MOVED, pa.int64())).empty_table()
        if number > 1 and self.archive is not None:
            archive = self._frame(self.archive)
            doomed = lifetimes.archived_rows_to_replace(
                archive, self._touched(), self._frame(old), keys, number
            )
            kept = archive.join(doomed, keys, "left_anti").select(*archive.columns).toArrow()
        moved = old.append_column(lifetimes.MOVED, pa.array([number] * old.num_rows, pa.int64()))
        self.archive, self.archived = pa.concat_tables([kept, moved.cast(kept.schema)]), self.batch
        if not killed:
            self.held["current"], self.moves = held.filter(pc.invert(is_old)), number

    def both(self) -> list[dict[str, Any]]:
        """What a query over both tables shows."""
        found = self.rows("current")
        if self.archive is not None and self.moves:
            touched = self._touched()
            if self.forgets == "touched keys":
                touched = touched.limit(0)
            counted = lifetimes.archived_rows_that_count(
                self._frame(self.archive), self._frame(self.held["current"]), touched, self.contract.keys,
                self.moves + (self.forgets == "the last move"),
            )  # fmt: skip
            for row in counted.toArrow().to_pylist():
                found.append(row | {"_order": tuple(row["_order"].values())})
        return found

    def _touched(self) -> DataFrame:
        since = (F.col(BATCH) > self.archived) & (F.col(BATCH) <= self.batch) & (F.col(OP) != TRUNCATE)
        return self._frame(self.past()).where(since).select(*self.contract.keys).distinct()

    def _frame(self, rows: pa.Table) -> DataFrame:
        return frame_of(self.session, rows)


def differences(
    session: SparkSession, design: Design, number: int, seed: int, forgets: str = ""
) -> tuple[dict[str, list[str]], int]:
    """Where both tables differ from the model's, or a row is in the wrong one; how many rows came back."""
    case, chance = table_of(design, number, seed), random.Random(f"{design.name}/{seed}")  # noqa: S311
    tables, model = AgingTables(session, case, forgets=forgets), None

    def compare(when: str) -> dict[str, list[str]]:
        assert model is not None
        words = row_differences(model.current, tables.both(), "both")
        return {f"{design.name}, {when}": words[:4]} if words else {}

    model = Table(tables.rules)
    batches: list[Sequence[Event]] = [step.events for step in case.steps]
    late = [e for batch in batches for e in chance.sample(list(batch), len(batch) // 4)]  # again: duplicates
    for batch, events in enumerate([*batches, late], 1):
        model.apply(events)
        tables.apply(events)
        if found := compare(f"batch {batch}"):
            return found, tables.returned
        limit = 2 if batch < ROUNDS else 3
        if chance.random() < 0.5:
            tables.move(limit, killed=True)
            if found := compare(f"killed after batch {batch}"):
                return found, tables.returned
        if chance.random() < 0.8 or batch == 1:
            tables.move(limit, killed=False)
            if found := compare(f"moved after batch {batch}"):
                return found, tables.returned
            if wrong := [r for r in tables.rows("current") if r[AGE] is not None and r[AGE] < limit]:
                return {f"{design.name}, batch {batch}": [f"old, and still there: {wrong[0]}"]}, 0
    return {}, tables.returned


FORGETS = ("rows that left", "touched keys")
"""Faults, each of which must be found."""
