"""Cases as plans: the tables that a case is about, step by step, and how what they hold is judged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from model.schema import FRAMEWORK

from conformance.comparing import (
    expected_current,
    expected_history,
    metric_differences,
    quarantine_differences,
    row_differences,
)
from conformance.events import Typing, columns_of, event_of, typing_of
from conformance.reading import check_keys, known, options_of
from conformance.typed import plain_type, time_of, type_of, typed

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from model.events import Event

    from conformance.reading import Options

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One batch, and the declaration that it meets."""

    options: Options
    columns: tuple[str, ...]
    kinds: Typing
    events: list[Event]


@dataclass(frozen=True, kw_only=True)
class TableCase:
    """One table that takes batches of change events."""

    id: str
    steps: list[Step]
    expect: Mapping[str, Any]
    order_invariant: bool = False
    crash: Mapping[str, Any] | None = None
    name: str = ""

    @property
    def kinds(self) -> Typing:
        """The types of all columns that the table ever has."""
        types = {dict(s.options.rename).get(n, n): t for s in self.steps for n, t in s.kinds.columns.items()}
        return replace(self.steps[-1].kinds, columns=types)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One extract: its time, its file's name, its rows."""

    at: dt.datetime
    name: str
    rows: list[Row]


@dataclass(frozen=True, kw_only=True)
class SnapshotCase:
    """One table that takes extracts."""

    id: str
    options: Options
    columns: tuple[str, ...]
    kinds: Typing
    snapshots: list[Snapshot]
    expect: Mapping[str, Any]


@dataclass(kw_only=True)
class Found:
    """What a table holds in the end, and what happened on the way; None where nobody looked."""

    current: list[Row] | None = None
    history: list[Row] | None = None
    reasons: list[str] | None = None
    batches: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    types: dict[str, str] | None = None
    commits: int | None = None

    @property
    def totals(self) -> dict[str, Any]:
        """Counts of all batches together."""
        found: dict[str, Any] = {}
        for counts in self.batches:
            for name, count in counts.items():
                found[name] = found.get(name, 0) + count if isinstance(count, int) else count
        return found


def table_cases(case: Mapping[str, Any]) -> list[TableCase]:
    """The tables of a case of change events: one, but for pipelines of several."""
    check_keys(case)
    if case["kind"] == "schema":
        return [_schema_case(case)]
    if "tables" in case:
        return _tables_of(case)
    config = dict(case.get("config", {})) | {n: case[n] for n in ("keys", "columns") if n in case}
    steps = _steps(case["batches"], config, case["id"])
    if again := case.get("reconfigure"):
        # The last batch arrives again under the new declaration, so that there is something to commit.
        steps += _steps(case["batches"], config | again, case["id"])[-1:]
    return [
        TableCase(
            id=case["id"], steps=steps, expect=case["expect"], crash=case.get("crash"),
            order_invariant=case.get("order_invariant", False),
        )
    ]  # fmt: skip


def _steps(batches: Sequence[Sequence[Row]], config: Mapping[str, Any], place: str) -> list[Step]:
    options = options_of(config, place)
    batches = [[{"row": {}} | e for e in b] for b in batches]
    raw = [e for b in batches for e in b]
    columns = columns_of(raw, options)
    kinds = typing_of(raw, columns, options)
    return [
        Step(options=options, columns=columns, kinds=kinds,
             events=[event_of(e, kinds, options, place) for e in batch])
        for batch in batches
    ]  # fmt: skip


def _tables_of(case: Mapping[str, Any]) -> list[TableCase]:
    known(case["expect"], {"tables", "failed", "error"}, f"{case['id']}: expect")
    found = []
    for name, table in case["tables"].items():
        known(table, {"keys", "columns", "batches", "config"}, f"{case['id']}.{name}")
        config = dict(case.get("config", {})) | table.get("config", {})
        config |= {n: table[n] for n in ("keys", "columns") if n in table}
        expect = case["expect"]["tables"].get(name, {})
        expect = {"scd1": expect} if isinstance(expect, list) else dict(expect)
        failed = case["expect"].get("failed", {})
        if name in failed:
            expect["error"] = failed[name] if isinstance(failed, dict) else "*"
        steps = _steps(table["batches"], config, f"{case['id']}.{name}")
        found.append(TableCase(id=case["id"], name=name, steps=steps, expect=expect))
    return found


def _schema_case(case: Mapping[str, Any]) -> TableCase:
    steps = []
    for step in case["steps"]:
        known(step, {"columns", "types", "events", "keys", "track", "rename", "config"}, case["id"])
        config = dict(case["config"]) | step.get("config", {})
        config |= {n: step[n] for n in ("keys", "track", "rename") if n in step}
        options = options_of(config, case["id"])
        given = [{"row": {}} | e for e in step["events"]]
        kinds = typing_of(given, step["columns"], options, step.get("types"))
        events = [event_of(e, kinds, options, case["id"]) for e in given]
        columns = tuple(dict(options.rename).get(c, c) for c in step["columns"])
        steps.append(Step(options=options, columns=columns, kinds=kinds, events=events))
    return TableCase(id=case["id"], steps=steps, expect=case["expect"])


def snapshot_case(case: Mapping[str, Any]) -> SnapshotCase:
    """The table of a case of extracts."""
    check_keys(case)
    options = options_of(case["config"], case["id"])
    rows = [r for s in case["snapshots"] for r in s["rows"]]
    times = [c for c in (options.valid_from, options.updated_at) if c]
    columns = options.columns or tuple(dict.fromkeys(n for r in rows for n in r))
    columns = tuple(dict.fromkeys([*columns, *times]))
    told = dict(options.types)
    types = {
        c: told.get(c) or ("timestamp" if c in times else type_of(r.get(c) for r in rows)) for c in columns
    }
    kinds = Typing(columns=types, order=("timestamp", "string"))
    snapshots: list[Snapshot] = []
    for given in case["snapshots"]:
        known(given, {"at", "rows"}, f"{case['id']}: snapshot")
        for row in given["rows"]:
            known(row, columns, f"{case['id']}: row")
        content = [{n: typed(v, types[n]) for n, v in r.items()} for r in given["rows"]]
        at = time_of(given["at"])
        same_time = [s for s in snapshots if s.at == at]
        repeated = next((s for s in same_time if s.rows == content), None)
        name = f"{at:%Y-%m-%dT%H%M%S}.{at.microsecond:06}Z" + f"_{len(same_time)}" * bool(same_time)
        snapshots.append(repeated or Snapshot(at=at, name=name, rows=content))
    return SnapshotCase(
        id=case["id"], options=options, columns=columns, kinds=kinds, snapshots=snapshots,
        expect=case["expect"],
    )  # fmt: skip


def judge(case: TableCase, found: Found, *, only_rows: bool = False) -> list[str]:
    """How a table differs from what its case expects; ``only_rows``: counts and failures do not matter."""
    expect = known(
        case.expect,
        {"scd1", "scd2", "metrics", "metrics_last_batch", "quarantine", "error", "commits", "types"},
        f"{case.id}: expect",
    )
    kinds, words = case.kinds, []
    if "scd1" in expect:
        words += row_differences(
            expected_current(expect["scd1"], kinds, case.id), found.current or [], "scd1"
        )
    if "scd2" in expect:
        rows = expected_history(expect["scd2"], kinds, case.id, times=False)
        words += row_differences(rows, found.history or [], "scd2")
    if only_rows:
        return words
    expected_error = expect.get("error") or case.steps[0].options.expect_error
    words += error_differences(expected_error, found.errors)
    if "metrics" in expect:
        words += metric_differences(expect["metrics"], found.totals, case.id)
    if "metrics_last_batch" in expect:
        words += metric_differences(expect["metrics_last_batch"], (found.batches or [{}])[-1], case.id)
    if "quarantine" in expect:
        words += quarantine_differences(expect["quarantine"], found.reasons or [])
    for name, kind in expect.get("types", {}).items():
        held = plain_type((found.types or {}).get(name, "none"))
        words += [] if held == plain_type(kind) else [f"type of {name}: expected {kind}, found {held}"]
    if "commits" in expect and found.commits is not None and found.commits != expect["commits"]:
        words.append(f"commits: expected {expect['commits']}, found {found.commits}")
    return words


def judge_snapshots(case: SnapshotCase, found: Found) -> list[str]:
    """How a table of extracts differs from what its case expects."""
    expect = known(case.expect, {"scd1", "scd2", "metrics", "quarantine", "error"}, f"{case.id}: expect")
    words = error_differences(expect.get("error") or case.options.expect_error, found.errors)
    if "scd1" in expect:
        words += row_differences(
            expected_current(expect["scd1"], case.kinds, case.id), found.current or [], "scd1"
        )
    if "scd2" in expect:
        rows = expected_history(expect["scd2"], case.kinds, case.id, times=True)
        words += row_differences(rows, found.history or [], "scd2")
    metrics = dict(case.options.metrics) | dict(expect.get("metrics", {}))
    words += metric_differences(metrics, found.totals, case.id)
    if "quarantine" in expect:
        words += quarantine_differences(expect["quarantine"], found.reasons or [])
    return words


def error_differences(expected: str | None, found: Sequence[str]) -> list[str]:
    """An expected failure that did not happen, or one that nobody expected."""
    if expected is None:
        return [f"failed with {sorted(set(found))}"] if found else []
    if expected == "*":
        return [] if found else ["expected to fail, and did not"]
    return [] if expected in found else [f"expected to fail with {expected}, found {sorted(set(found))}"]


def is_reserved(name: str) -> bool:
    """Whether a case's column has a name of the framework's, so that it can only be refused."""
    return name in FRAMEWORK
