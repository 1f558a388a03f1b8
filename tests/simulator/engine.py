"""How rows are computed where there is no Spark: plain lists, and the fold in ten lines."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.testing.memory import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from kedro_lakehouse.changes.plan import MergePlan
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.lake_table import LakeTable

Event = dict[str, Any]
_FACT = ("id", "_order", "_op", "value")


def fold(events: Iterable[Event]) -> list[Event]:
    """The rows of a table with keys: of each key the last upsert, unless a delete is later."""
    last: dict[int, Event] = {}
    for event in sorted(events, key=lambda e: e["_order"]):
        last[event["id"]] = event
    return [_row(e) for e in last.values() if e["_op"] == "upsert"]


def added(events: Iterable[Event]) -> list[Event]:
    """The rows of a table without keys: one for each event."""
    return [_row(e) | {"_position": e["_position"]} for e in events]


def newest(events: Iterable[Event]) -> list[Event]:
    """The rows of a table that holds its newest file only."""
    events = list(events)
    last = max((e["_position"][0] for e in events), default=None)
    return [_row(e) | {"_position": e["_position"]} for e in events if e["_position"][0] == last]


def _row(event: Event) -> Event:
    return {"id": event["id"], "_order": event["_order"], "value": event["value"]}


FOLDS = {"merge": fold, "append": added, "replace": newest}


def same_rows(some: Iterable[Event], others: Iterable[Event]) -> bool:
    """Whether both hold the same rows, as often, in any order."""
    first, second = (Counter(repr(sorted(row.items())) for row in rows) for rows in (some, others))
    return first == second


class ListEngine:
    """Rows are dictionaries in lists."""

    def events(self, table: LakeTable, accepted: Any, rejected: Any, token: BatchToken) -> ListEvents:
        return ListEvents(table, accepted, rejected)

    def accepted(self, table: LakeTable, *, after: int = 0, upto: int) -> list[Event]:
        """The events of some batches that no decision withdrew."""
        held = table.read("changes")
        gone = {(w.file, w.row) for w in table.decisions.excluded(table.name)}
        return [e for e in held.rows if after < e["_batch"] <= upto and e["_position"] not in gone]

    def pending(self, table: LakeTable, *, after: int, upto: int) -> list[Event]:
        return self.accepted(table, after=after, upto=upto) if upto > after else []

    def merged(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> Merged:
        return Merged(self, table, plan.events, token)

    def added(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> Added:
        return Added(self, table, plan.events, token)

    def folded(self, table: LakeTable, kind: str, upto: int) -> Folded:
        return Folded(self, table, upto)

    def quarantined(self, table: LakeTable, *, before: int, more: Rows | None = None) -> Rows:
        held = table.read("quarantine")
        return Rows((*(r for r in held.rows if r["_batch"] < before), *(more.rows if more else ())))


class ListEvents:
    """The checked events of one batch."""

    def __init__(self, table: LakeTable, accepted: list[Event], rejected: list[Event]) -> None:
        self._table = table
        self._accepted, self._rejected = accepted, rejected

    def columns(self) -> dict[str, Any]:
        return {}

    def rejected(self) -> Rows:
        return Rows(tuple(e for e in self._rejected if e["_reasons"]))

    def reading(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def write(self, stage: Any, state: Any) -> Staged:
        valid = [e for e in self._accepted if not e["_reasons"]]
        rows = valid
        if self._table.config.write == "merge":
            held = self._table.read("changes").rows
            known = {tuple(e[c] for c in _FACT) for e in held}
            rows = [e for e in valid if tuple(e[c] for c in _FACT) not in known]
        stage.append(Rows(tuple(rows)))
        facts = sorted(json.dumps([e[c] for c in _FACT]) for e in rows)
        return Staged(
            events_in=len(self._accepted), quarantined=len(self._accepted) - len(valid), applied=len(rows),
            upserts=len(rows), digest=hashlib.sha256("".join(facts).encode()).hexdigest(),
        )  # fmt: skip


class _Target:
    def __init__(self, engine: ListEngine, table: LakeTable) -> None:
        self._engine, self._table = engine, table

    def columns(self, state: Any) -> dict[str, Any]:
        return {}

    def validate(self, stage: Any, state: Any) -> None:
        pass


class Merged(_Target):
    """Keys with pending events are folded again from the change log."""

    def __init__(self, engine: Any, table: Any, pending: Any, token: BatchToken) -> None:
        super().__init__(engine, table)
        self._pending, self._token = pending, token

    def write(self, stage: Any, state: Any) -> dict[str, int]:
        keys = {e["id"] for e in self._pending if e["_batch"] > state.batch}
        events = [e for e in self._engine.accepted(self._table, upto=self._token.batch) if e["id"] in keys]
        held = self._table.read("current").rows
        gone, rows = [r for r in held if r["id"] in keys], fold(events)
        stage.merge(Rows(tuple(gone)), Rows(tuple(rows)), ["id"])
        stage.expect(state.rows - len(gone) + len(rows))
        old = {r["id"] for r in gone}
        new = {r["id"] for r in rows}
        return {"inserted": len(new - old), "updated": len(new & old), "deleted": len(old - new)}


class Added(_Target):
    """The pending rows of a table without keys, or its newest file in the place of all rows."""

    def __init__(self, engine: Any, table: Any, pending: Any, token: BatchToken) -> None:
        super().__init__(engine, table)
        self._pending, self._token = pending, token

    def write(self, stage: Any, state: Any) -> dict[str, int]:
        pending = [e for e in self._pending if e["_batch"] > state.batch]
        if self._table.config.write == "append":
            rows = added(pending)
            stage.append(Rows(tuple(rows)))
            stage.expect(state.rows + len(rows))
            return {"inserted": len(rows)}
        held = self._table.read("current").rows
        rows = newest(pending)
        there = max((r["_position"][0] for r in held), default="")
        if rows and rows[0]["_position"][0] > there:
            stage.replace(Rows(tuple(rows)))
            return {"inserted": len(rows), "deleted": len(held)}
        if rows and rows[0]["_position"][0] == there:
            stage.append(Rows(tuple(rows)))
            return {"inserted": len(rows)}
        return {"inserted": 0}


class Folded(_Target):
    """What the whole change log makes of a target."""

    def __init__(self, engine: Any, table: Any, upto: int) -> None:
        super().__init__(engine, table)
        self._upto = upto

    def write(self, stage: Any, state: Any) -> dict[str, int]:
        rows = FOLDS[self._table.config.write](self._engine.accepted(self._table, upto=self._upto))
        stage.replace(Rows(tuple(rows)))
        stage.expect(len(rows))
        return {}
