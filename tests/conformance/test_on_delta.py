"""Some of the cases on Delta; all of them by `make conformance FORMAT=delta`."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.by_product import Bench, extracted
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.lots import as_written, pack
from conformance.named import NAMED
from conformance.reading import read_cases

pytestmark = [pytest.mark.spark, pytest.mark.delta]

CASES = {c["id"]: c for c in read_cases() if c["id"] in NAMED}
EXTRACTS = [i for i, c in CASES.items() if c["kind"] == "snapshots"]
EVENTS = [i for i in CASES if i not in EXTRACTS]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench.make(
        tmp_path_factory.mktemp("on_delta") / "project",
        as_written(pack([t for i in EVENTS for t in table_cases(CASES[i])])),
        extracted([snapshot_case(CASES[i]) for i in EXTRACTS]),
        table_format="delta",
    )
    bench.run()
    return bench


@pytest.mark.parametrize("case", EVENTS)
def test_change_events(bench: Bench, case: str) -> None:
    words: list[Any] = []
    for lot in bench.lots:
        for member in (m for m in lot.members if m.case.id == case):
            assert bench.project.format_of(lot.table).name == "delta"
            words += judge(member.case, bench.found_of(lot, member))
    assert words == []


@pytest.mark.parametrize("case", EXTRACTS)
def test_extracts(bench: Bench, case: str) -> None:
    tables = [x for x in bench.extracts if x.case.id == case]
    assert [w for t in tables for w in judge_snapshots(t.case, bench.found(t.table))] == []
