"""Some of the contract's cases on Hudi; all of them by `make conformance FORMAT=hudi`."""

from __future__ import annotations

from typing import Final

import pytest
from conformance.by_product import Bench, extracted
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.lots import Lot, Member, as_written, pack
from conformance.named import NAMED
from conformance.reading import read_cases

pytestmark = pytest.mark.spark

CASES: Final = {c["id"]: c for c in read_cases() if c["id"] in NAMED}
EXTRACTS: Final = [i for i, c in CASES.items() if c["kind"] == "snapshots"]
EVENTS: Final = [i for i in CASES if i not in EXTRACTS]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    lots = as_written(pack([t for i in EVENTS for t in table_cases(CASES[i])]))
    found = extracted([snapshot_case(CASES[i]) for i in EXTRACTS])
    bench = Bench.make(tmp_path_factory.mktemp("conformance") / "project", lots, found, env="hudi")
    bench.run()
    return bench


@pytest.mark.parametrize("case", EVENTS)
def test_change_events(bench: Bench, case: str) -> None:
    members: list[tuple[Lot, Member]] = [
        (lot, m) for lot in bench.lots for m in lot.members if m.case.id == case
    ]
    assert members
    assert [w for lot, m in members for w in judge(m.case, bench.found_of(lot, m))] == []


@pytest.mark.parametrize("case", EXTRACTS)
def test_extracts(bench: Bench, case: str) -> None:
    tables = [x for x in bench.extracts if x.case.id == case]
    assert tables
    assert [w for t in tables for w in judge_snapshots(t.case, bench.found(t.table))] == []
