"""Tables that cases share: many cases of one declaration are keys of one table, to spare runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from model.events import FROM_THE_ORDER, TRUNCATE

from conformance.events import sends_markers, variants
from conformance.typed import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from model.events import Event

    from conformance.cases import Row, Step, TableCase
    from conformance.reading import Options

OP, TIME, MEMBER = "event_op", "event_time", "event_case"
CHANGES_SOURCE = {
    "type": "changes", "path": "${globals:landing}/cases", "file_format": "parquet", "op_column": OP,
    "op_mapping": {"upsert": "upsert", "delete": "delete", "truncate": "truncate"},
}  # fmt: skip
AS_WRITTEN = "as_written"
_SIMPLEST = {"bigint": 0, "string": ""}
_BY_INGESTION = {"events_in", "applied", "duplicates", "quarantined", "sequence_ties", "too_late"}
_COUNTED = {"metrics", "metrics_last_batch", "quarantine", "error", "commits", "types"}


@dataclass(frozen=True)
class Member:
    """One case in one of its variants."""

    case: TableCase
    variant: str = AS_WRITTEN

    @property
    def name(self) -> str:
        """What tells this member's rows from the others' in a shared table."""
        return f"{self.case.id}/{self.case.name}/{self.variant}"


@dataclass
class Lot:
    """One declared table and the members whose events it takes.

    Members that share a table have a key more, their name; a key column of others holds nothing but its
    type's simplest value in their rows. ``at_a_time`` batches land before a run, each a batch still.
    ``more`` is what the table declares beside what its members do.
    """

    table: str
    members: list[Member] = field(default_factory=list)
    alone: bool = False
    at_a_time: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> Step:
        """The first step of the first member."""
        return self.members[0].case.steps[0]

    @property
    def batches(self) -> int:
        """How many batches land in all."""
        return max(len(m.case.steps) for m in self.members)

    @property
    def rounds(self) -> int:
        """How many runs that takes."""
        return -(-self.batches // self.at_a_time)

    def batches_of(self, number: int) -> range:
        """The batches that land before one run."""
        return range(number * self.at_a_time, min((number + 1) * self.at_a_time, self.batches))

    def steps(self, batch: int) -> list[tuple[Member, Step]]:
        """What a batch holds."""
        return [(m, m.case.steps[batch]) for m in self.members if batch < len(m.case.steps)]

    def types(self, batch: int | None = None) -> dict[str, str]:
        """The columns that land in a batch, or ever."""
        if self.alone and batch is not None:
            return dict(self.members[0].case.steps[batch].kinds.columns)
        return {n: t for m in self.members for n, t in m.case.kinds.columns.items()}

    @property
    def keys(self) -> list[str]:
        """The key columns of all members."""
        own = dict.fromkeys(k for m in self.members for k in m.case.steps[0].options.keys)
        return [*([] if self.alone else [MEMBER]), *own]

    def declaration(self, number: int) -> dict[str, Any]:
        """The table's declaration before a run."""
        steps = self.members[0].case.steps
        step = steps[min(number * self.at_a_time, len(steps) - 1)]
        own = [*order_names(step), *([TIME] if step.kinds.time else [])]
        found = declared(step.options) | {
            "source": "cases" if self.at_a_time == 1 else "cases_one_by_one",
            "order_by": order_names(step),
            "columns": {"exclude": own},
        }
        if step.kinds.time:
            found["effective_time"] = TIME
        if not self.alone:
            found["keys"] = self.keys
        events = [e for m in self.members for s in m.case.steps for e in s.events]
        marked = {
            n: t for n, t in self.types().items() if t != "string" and sends_markers(events, n, step.options)
        }
        found |= self.more
        return found | ({"types": marked | found.get("types", {})} if marked else {})

    def schema(self, batch: int) -> dict[str, pa.DataType]:
        """The columns of a batch's file."""
        step = self.steps(batch)[0][1]
        marked = self.declaration(batch // self.at_a_time).get("types", {})
        columns = {n: arrow_type("string" if n in marked else t) for n, t in self.types(batch).items()}
        facts = {OP: pa.string()} | {
            n: arrow_type(t) for n, t in zip(order_names(step), step.kinds.order, strict=True)
        }
        facts |= {TIME: arrow_type(step.kinds.time)} if step.kinds.time else {}
        return facts | ({} if self.alone else {MEMBER: pa.string()}) | columns

    def rows(self, batch: int) -> list[Row]:
        """The rows of a batch's file."""
        marked = self.declaration(batch // self.at_a_time).get("types", {})
        return [
            (self._keys_of(member) | _record(e, step, marked))
            for member, step in self.steps(batch)
            for e in step.events
        ]

    def _keys_of(self, member: Member) -> Row:
        """The member's name, and a value for each key column that it does not have."""
        if self.alone:
            return {}
        types, own = self.types(), member.case.steps[0].options.keys
        others = {k: _SIMPLEST[types[k]] for k in self.keys if k not in (MEMBER, *own)}
        return {MEMBER: member.name} | others


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
        truncated = any(e.op == TRUNCATE for s in case.steps for e in s.events)
        for name, batches in variants([s.events for s in case.steps], case.id).items():
            if truncated and name == "reversed":
                continue  # such a case needs a table for each variant: the shuffled one must do
            steps = [replace(case.steps[0], events=events) for events in batches]
            found.append(Member(replace(case, steps=steps), name))
    return found


def is_counted(member: Member) -> bool:
    """Whether a member expects more than rows, so that nothing else may be in its table."""
    return bool(_COUNTED & set(member.case.expect)) and member.variant == AS_WRITTEN


def ingestion_alone_counts(member: Member) -> bool:
    """Whether what is counted beside the rows is known once a batch is recorded."""
    expect = member.case.expect
    counted = _COUNTED & set(expect)
    return (
        member.case.order_invariant
        and counted <= {"metrics", "quarantine"}
        and (set(expect.get("metrics", {})) <= _BY_INGESTION)
    )


def stands_alone(member: Member) -> bool:
    """Whether a neighbour in the same table would disturb a member."""
    case = member.case
    first = case.steps[0]
    return (
        any(e.op == TRUNCATE for s in case.steps for e in s.events)
        or first.options.on_tie == "fail"
        or first.options.max_invalid_fraction is not None
        or any(
            (s.options, s.kinds, s.columns) != (first.options, first.kinds, first.columns) for s in case.steps
        )
        or bool(case.name)
        or not set(first.options.keys) <= set(first.kinds.columns)
        or any(first.kinds.columns[k] not in _SIMPLEST for k in first.options.keys)
    )


def pack(cases: Sequence[TableCase]) -> list[Lot]:
    """Put the members of all cases into as few tables as their declarations allow.

    A case that counts what ingestion counts has a table of its own that takes all batches in one run,
    and is a member of a shared table too.
    """
    lots: list[Lot] = []

    def open_lot(member: Member, *, alone: bool, at_a_time: int = 1) -> None:
        lots.append(Lot(f"cases.t{len(lots):03}", [member], alone=alone, at_a_time=at_a_time))

    for member in (m for case in cases if case.crash is None for m in members_of(case)):
        alone = stands_alone(member)
        if is_counted(member):
            at_once = ingestion_alone_counts(member) and not alone
            open_lot(member, alone=True, at_a_time=max(2, len(member.case.steps)) if at_once else 1)
            if not at_once:
                continue
            member = replace(member, variant="rows")  # noqa: PLW2901 - and again for its rows
        if alone:
            open_lot(member, alone=True)
        elif member.case.expect == {}:
            open_lot(member, alone=True, at_a_time=2)  # a generated history of many batches
        elif lot := next((x for x in lots if _fits(x, member)), None):
            lot.members.append(member)
        else:
            open_lot(member, alone=False)
    return lots


def as_written(lots: Sequence[Lot]) -> list[Lot]:
    """Without the variants: other orders and batches of the same events are the format's least concern."""
    return [
        replace(lot, members=own)
        for lot in lots
        if (own := [m for m in lot.members if m.variant == AS_WRITTEN])
    ]


_ALIKE = {
    "keys": (), "columns": None, "metrics": (), "expect_error": None, "on_tie": None,
}  # fmt: skip


def _fits(lot: Lot, member: Member) -> bool:
    if lot.alone:
        return False
    one, two = lot.first, member.case.steps[0]
    ties = {(s.options.on_tie or "delete_wins") for s in (one, two)}
    if replace(one.options, **_ALIKE) != replace(two.options, **_ALIKE) or len(ties) > 1:
        return False
    held, keys = lot.types(), set(lot.keys)
    own = set(two.options.keys)
    return (
        (one.kinds.order, one.kinds.time) == (two.kinds.order, two.kinds.time)
        and all(held.get(n, t) == t for n, t in two.kinds.columns.items())
        and all((n in keys) == (n in own) for n in two.kinds.columns if n in held)
    )
