"""Named cases of the contract through real runs on Hudi."""

from __future__ import annotations

from typing import Final

import pytest
from conformance.by_product import Bench, extracted
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.lots import Lot, Member, pack
from conformance.reading import read_cases

pytestmark = pytest.mark.spark

EVENTS: Final = (
    "autocdc-docs-01", "autocdc-docs-03", "spark-01", "spark-05", "spark-09", "spark-13", "spark-17",
    "spark-20", "spark-24", "spark-29", "spark-33", "seq-01", "dlt-03", "trunc-01", "keychg-02", "keys-04",
    "change-02", "replay-01", "overlap-01", "ts-01", "noop-01", "schema-02",
)  # fmt: skip
EXTRACTS: Final = ("sqlmesh-time-01", "dbt-ts-01", "snap-empty-01")
CASES: Final = {c["id"]: c for c in read_cases() if c["id"] in (*EVENTS, *EXTRACTS)}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    # As written only: other orders and batches of the same events are the format's least concern.
    lots = [
        Lot(lot.table, own, alone=lot.alone, at_a_time=lot.at_a_time)
        for lot in pack([t for i in EVENTS for t in table_cases(CASES[i])])
        if (own := [m for m in lot.members if m.variant == "as_written"])
    ]
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
