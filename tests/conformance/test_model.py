"""Every case through the plain model: what the model says is what the cases' sources say."""

from __future__ import annotations

import pytest
from model.fold import as_of
from model.values import ranks

from conformance.asof import expected_rows, queries_of, versions_of
from conformance.by_model import rebatched, run_events, run_snapshots
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.events import variants
from conformance.generated import broken_properties, property_case
from conformance.reading import check_keys, read_cases

pytestmark = pytest.mark.unit

CASES = {c["id"]: c for c in read_cases()}
OF_EVENTS = [i for i, c in CASES.items() if c["kind"] in ("events", "schema", "pipeline")]
OF_SNAPSHOTS = [i for i, c in CASES.items() if c["kind"] == "snapshots"]


@pytest.mark.parametrize("case", OF_EVENTS)
def test_change_events(case: str) -> None:
    for table in table_cases(CASES[case]):
        assert judge(table, run_events(table)) == []


@pytest.mark.parametrize("case", [i for i in OF_EVENTS if CASES[i].get("order_invariant")])
def test_arrival_order_batching_and_repetition_change_nothing(case: str) -> None:
    for table in table_cases(CASES[case]):
        batches = [s.events for s in table.steps]
        for variant, other in variants(batches, case).items():
            found = run_events(rebatched(table, other))
            assert judge(table, found, only_rows=True) == [], variant


@pytest.mark.parametrize("case", OF_SNAPSHOTS)
def test_extracts(case: str) -> None:
    table = snapshot_case(CASES[case])
    assert judge_snapshots(table, run_snapshots(table)) == []


@pytest.mark.parametrize("case", [i for i, c in CASES.items() if c["kind"] == "asof"])
def test_as_of(case: str) -> None:
    check_keys(CASES[case])
    for query in queries_of(CASES[case]):
        found = as_of(versions_of(CASES[case]), query["at"], ["id"])
        assert expected_rows(CASES[case], found) == sorted(query["rows"], key=repr)


@pytest.mark.parametrize("case", [i for i, c in CASES.items() if c["kind"] == "property"])
def test_properties(case: str) -> None:
    table, rules = property_case(CASES[case])
    batched = run_events(table)
    at_once = run_events(
        rebatched(table, [sorted((e for s in table.steps for e in s.events), key=lambda e: ranks(e.order))])
    )
    assert broken_properties(CASES[case], batched, at_once, table, rules) == []


@pytest.mark.parametrize("case", [i for i, c in CASES.items() if c["kind"] == "rowhash"])
def test_rows_that_must_differ_differ_in_rank(case: str) -> None:
    check_keys(CASES[case])
    assert all(ranks(a) != ranks(b) for a, b in CASES[case]["must_differ"])
    assert all(ranks(a) == ranks(b) for a, b in CASES[case]["must_equal"])
