"""Tables that cases share: many cases of one declaration are keys of one table, to spare runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from model.events import FROM_THE_ORDER, TRUNCATE, UPSERT

from conformance.events import sends_markers, variants
from conformance.typed import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from model.events import Event

    from conformance.cases import Row, Step, TableCase
    from conformance.reading import Options

OP, TIME, MEMBER = "event_op", "event_time", "event_case"
CHANGES_SOURCE = {
    "type": "changes", "path": "${globals:landing}/cases", "file_format": "parquet", "op_column": OP,
    "op_mapping": {"upsert": "upsert", "delete": "delete", "truncate": "truncate"},
}  # fmt: skip
_COUNTED = {"metrics", "metrics_last_batch", "quarantine", "error", "commits", "types"}


@dataclass(frozen=True)
class Member:
    """One case in one of its variants."""

    case: TableCase
    variant: str = "as_written"

    @property
    def name(self) -> str:
        """What tells this member's rows from the others' in a shared table."""
        return f"{self.case.id}/{self.case.name}/{self.variant}"


@dataclass
class Lot:
    """One declared table and the members whose events it takes."""

    table: str
    members: list[Member] = field(default_factory=list)
    alone: bool = False

    @property
    def rounds(self) -> int:
        """How many batches land."""
        return max(len(m.case.steps) for m in self.members)

    def steps(self, number: int) -> list[tuple[Member, Step]]:
        """What lands in one round."""
        return [(m, m.case.steps[number]) for m in self.members if number < len(m.case.steps)]

    def types(self, number: int | None = None) -> dict[str, str]:
        """The columns that land in a round, or ever."""
        if self.alone and number is not None:
            return dict(self.members[0].case.steps[number].kinds.columns)
        return {n: t for m in self.members for n, t in m.case.kinds.columns.items()}

    def declaration(self, number: int) -> dict[str, Any]:
        """The table's declaration in a round."""
        step = self.members[0].case.steps[min(number, len(self.members[0].case.steps) - 1)]
        own = [OP, *order_names(step), *([TIME] if step.kinds.time else [])]
        found = declared(step.options) | {
            "source": "cases",
            "order_by": order_names(step),
            "columns": {"exclude": own[1:]},
        }
        if step.kinds.time:
            found["effective_time"] = TIME
        if not self.alone:
            found["keys"] = [MEMBER, *found["keys"]]
        events = [e for m in self.members for s in m.case.steps for e in s.events]
        marked = {
            n: t for n, t in self.types().items() if t != "string" and sends_markers(events, n, step.options)
        }
        return found | ({"types": marked | found.get("types", {})} if marked else {})

    def schema(self, number: int) -> dict[str, pa.DataType]:
        """The columns of a round's file."""
        step = self.steps(number)[0][1]
        marked = self.declaration(number).get("types", {})
        columns = {n: arrow_type("string" if n in marked else t) for n, t in self.types(number).items()}
        facts = {OP: pa.string()} | {
            n: arrow_type(t) for n, t in zip(order_names(step), step.kinds.order, strict=True)
        }
        facts |= {TIME: arrow_type(step.kinds.time)} if step.kinds.time else {}
        return facts | ({} if self.alone else {MEMBER: pa.string()}) | columns

    def rows(self, number: int) -> list[Row]:
        """The rows of a round's file."""
        marked = self.declaration(number).get("types", {})
        return [
            _record(e, step, marked) | ({} if self.alone else {MEMBER: member.name})
            for member, step in self.steps(number)
            for e in step.events
        ]


def order_names(step: Step) -> list[str]:
    """The columns in which the elements of an order land."""
    return [f"event_seq{i}" for i in range(len(step.kinds.order))]


def _record(event: Event, step: Step, marked: Iterable[str]) -> Row:
    row = dict(event.row)
    for name in marked:
        row[name] = None if row.get(name) is None else str(row[name])
    found = row | {OP: event.op} | dict(zip(order_names(step), event.order, strict=True))
    return found if event.at is FROM_THE_ORDER else found | {TIME: event.at}


def declared(options: Options) -> dict[str, Any]:
    """The part of a declaration that a case's config says."""
    found: dict[str, Any] = {"keys": list(options.keys), "history": True}
    if options.track is not None:
        found["history"] = {"track": {"include": list(options.track)}}
    if options.ignore_null:
        found["ignore_null"] = "*" if options.ignore_null == "*" else list(options.ignore_null)
    as_they_are = ("unset_marker", "on_tie", "hard_deletes", "initial_valid_from", "max_delete_fraction",
                   "max_invalid_fraction")  # fmt: skip
    found |= {n: getattr(options, n) for n in as_they_are if getattr(options, n) is not None}
    found |= {n: dict(getattr(options, n)) for n in ("types", "rename", "checks") if getattr(options, n)}
    if options.delete_scope:
        found["delete_scope"] = list(options.delete_scope)
    if options.allow_empty:
        found["allow_empty_extract"] = True
    if options.updated_at:
        found["valid_from"] = {"updated_at": options.updated_at}
    if options.valid_from:
        found["valid_from"] = options.valid_from
    return found


def members_of(case: TableCase) -> list[Member]:
    """A case, and where the order of arrival does not matter also its variants."""
    found = [Member(case)]
    if case.order_invariant:
        for name, batches in variants([s.events for s in case.steps], case.id).items():
            steps = [replace(case.steps[0], events=events) for events in batches]
            found.append(Member(replace(case, steps=steps), name))
    return found


def stands_alone(member: Member) -> bool:
    """Whether a member needs a table of its own: a neighbour would disturb it, or be counted with it."""
    case = member.case
    first = case.steps[0]
    events = [e for s in case.steps for e in s.events]
    return (
        bool(_COUNTED & set(case.expect) and member.variant == "as_written")
        or any(e.op == TRUNCATE for e in events)
        or not all(e.op == UPSERT or set(e.row) <= set(first.kinds.columns) for e in events)
        or first.options.on_tie == "fail"
        or first.options.max_invalid_fraction is not None
        or any(
            (s.options, s.kinds, s.columns) != (first.options, first.kinds, first.columns) for s in case.steps
        )
        or bool(case.name)
    )


def pack(cases: Sequence[TableCase]) -> list[Lot]:
    """Put the members of all cases into as few tables as their declarations allow."""
    lots: list[Lot] = []
    for member in (m for case in cases if case.crash is None for m in members_of(case)):
        lot = None if stands_alone(member) else next((x for x in lots if _fits(x, member)), None)
        if lot is None:
            lot = Lot(f"cases.t{len(lots):03}", alone=stands_alone(member))
            lots.append(lot)
        lot.members.append(member)
    return lots


def _fits(lot: Lot, member: Member) -> bool:
    if lot.alone:
        return False
    one, two = lot.members[0].case.steps[0], member.case.steps[0]
    plain = {"columns": None, "metrics": (), "expect_error": None}
    if replace(one.options, **plain) != replace(two.options, **plain):
        return False
    held = lot.types()
    return (
        one.kinds.order == two.kinds.order
        and one.kinds.time == two.kinds.time
        and all(held.get(n, t) == t for n, t in two.kinds.columns.items())
    )
