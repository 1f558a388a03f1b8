"""Every case through real runs on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.by_model import run_events
from conformance.by_product import Bench, extracted
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.generated import broken_properties, property_case
from conformance.lots import pack
from conformance.open import marked
from conformance.reading import read_cases

if TYPE_CHECKING:
    from conformance.cases import SnapshotCase, TableCase
    from conformance.lots import Lot, Member

pytestmark = pytest.mark.spark

CASES = {c["id"]: c for c in read_cases()}
OF_EVENTS = [
    i for i, c in CASES.items() if c["kind"] in ("events", "schema", "pipeline") and "crash" not in c
]
OF_SNAPSHOTS = [i for i, c in CASES.items() if c["kind"] == "snapshots"]
GENERATED = [i for i, c in CASES.items() if c["kind"] == "property"]


def table_cases_of_all() -> list[TableCase]:
    return [t for i in OF_EVENTS for t in table_cases(CASES[i])]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    generated = [property_case(CASES[i])[0] for i in GENERATED]
    lots = pack([*table_cases_of_all(), *generated])
    bench = Bench.make(
        tmp_path_factory.mktemp("conformance") / "project", lots,
        extracted([snapshot_case(CASES[i]) for i in OF_SNAPSHOTS]),
    )  # fmt: skip
    bench.run()
    return bench


def members(bench: Bench, case: str) -> list[tuple[Lot, Member]]:
    found = [(lot, m) for lot in bench.lots for m in lot.members if m.case.id == case]
    assert found
    return found


@pytest.mark.parametrize("case", marked(OF_EVENTS))
def test_change_events(bench: Bench, case: str) -> None:
    words: list[Any] = []
    for lot, member in members(bench, case):
        found = bench.found_of(lot, member)
        only_rows = member.variant != "as_written"
        if only_rows:
            assert found.errors == []
        words += [(member.variant, w) for w in judge(member.case, found, only_rows=only_rows)]
    assert words == []


@pytest.mark.parametrize("case", marked(OF_SNAPSHOTS))
def test_extracts(bench: Bench, case: str) -> None:
    words: list[Any] = []
    for table in (x for x in bench.extracts if x.case.id == case):
        words += [(table.at_once, w) for w in judge_snapshots(table.case, bench.found(table.table))]
    assert words == []


@pytest.mark.parametrize("case", marked(GENERATED))
def test_properties(bench: Bench, case: str) -> None:
    ((lot, member),) = members(bench, case)
    table, rules = property_case(CASES[case])
    words = broken_properties(CASES[case], bench.found_of(lot, member), run_events(table), table, rules)
    assert words == []
