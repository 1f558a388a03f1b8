"""Every case through real runs on Spark; `make test` asks for those that rules alone cannot prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness.kills import kill_at
from harness.project import TemporaryProject

from conformance.asof import expected_rows, queries_of
from conformance.by_model import run_events
from conformance.by_product import Bench, extracted
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.decoding import Decoded, decoder_is_registered
from conformance.generated import broken_properties, property_case
from conformance.lots import Lot, Member, pack
from conformance.named import chosen
from conformance.open import marked
from conformance.other_kinds import as_of_rows, canonical_texts, crash_point
from conformance.reading import check_keys, known, read_cases

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.cases import TableCase

pytestmark = pytest.mark.spark

CASES = {c["id"]: c for c in chosen(read_cases())}
OF_EVENTS = [
    i for i, c in CASES.items() if c["kind"] in ("events", "schema", "pipeline") and "crash" not in c
]
OF_SNAPSHOTS = [i for i, c in CASES.items() if c["kind"] == "snapshots"]
DECODED = [i for i, c in CASES.items() if c["kind"] == "decode"]
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


@pytest.mark.parametrize("case", marked([i for i, c in CASES.items() if c["kind"] == "asof"]))
def test_as_of(bench: Bench, case: str) -> None:
    check_keys(CASES[case])
    found = as_of_rows(bench.project, CASES[case])
    for query, rows in zip(queries_of(CASES[case]), found, strict=True):
        assert expected_rows(CASES[case], rows) == sorted(query["rows"], key=repr), query["at"]


@pytest.mark.parametrize("case", marked([i for i, c in CASES.items() if c["kind"] == "rowhash"]))
def test_row_texts(bench: Bench, case: str) -> None:
    check_keys(CASES[case])
    pairs = [*CASES[case]["must_differ"], *CASES[case]["must_equal"]]
    texts = canonical_texts(bench.project, pairs)
    differ = [one != two for one, two in texts]
    assert differ == [True] * len(CASES[case]["must_differ"]) + [False] * len(CASES[case]["must_equal"])


@pytest.mark.crash
@pytest.mark.parametrize("case", marked([i for i, c in CASES.items() if "crash" in c]))
def test_killed_runs(tmp_path: Path, case: str) -> None:
    (table,) = table_cases(CASES[case])
    lot = Lot("cases.killed", [Member(table)], alone=True)
    bench = Bench.make(tmp_path / "project", [lot], [])
    assert table.crash is not None
    for number in range(lot.rounds):
        bench.land(number)
        if number == known(table.crash, {"batch", "after", "before"}, case)["batch"]:
            kill_at(bench.project, {"": crash_point(table.crash)})
        bench.run_once()
    assert judge(table, bench.found(lot.table)) == []


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> tuple[TemporaryProject, dict[str, Decoded]]:
    known_formats = [i for i in DECODED if decoder_is_registered(CASES[i])]
    tables = {i: Decoded(f"decoded.d{n:03}", CASES[i]) for n, i in enumerate(known_formats)}
    sources = {f"s{i}": t.source for i, t in tables.items()}
    declared = {t.table: t.declaration(f"s{i}") for i, t in tables.items()}
    project = TemporaryProject.make(tmp_path_factory.mktemp("decoded") / "project", sources, declared)
    for table in tables.values():
        table.land(project.landing)
    project.run("ingestion")
    return project, tables


@pytest.mark.parametrize("case", marked(DECODED))
def test_decoders(decoded: tuple[TemporaryProject, dict[str, Decoded]], case: str) -> None:
    project, tables = decoded
    assert case in tables, f"no decoder is registered for {CASES[case]['format']}"
    assert tables[case].differences(project) == []


def test_every_case_is_run() -> None:
    others = [i for i, c in CASES.items() if c["kind"] in ("asof", "rowhash") or "crash" in c]
    assert {*OF_EVENTS, *OF_SNAPSHOTS, *GENERATED, *DECODED, *others} == set(CASES)
