"""After an erasure the lake is what it would be had the subject never been in it, and no file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness.erasures import (
    ANNA,
    BELA,
    CARL,
    CUSTOMERS,
    ORDERS,
    SITES,
    STORED,
    VISITS,
    land,
    made,
    rows,
)
from harness.kills import stopping
from harness.soak import only_in_soak, soaking

from kedro_lakehouse.erasure.erase import erase, plan_erasure, rectify
from kedro_lakehouse.erasure.evidence import is_signed
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.lake_table import erasure_key
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from harness.project import TemporaryProject

pytestmark = pytest.mark.spark


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("iceberg", marks=pytest.mark.slow),
        pytest.param("delta", marks=[pytest.mark.delta, only_in_soak]),
    ],
)
def table_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory, table_format: str) -> dict[str, list[str]]:
    project = made(tmp_path_factory.mktemp("without") / "project", table_format, whole=False)
    return {table: rows(project, table) for table in STORED}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, table_format: str) -> TemporaryProject:
    return made(tmp_path_factory.mktemp("erasure") / "project", table_format, whole=True)


@pytest.fixture(scope="module")
def erased(project: TemporaryProject) -> Any:
    opened = activate(Project.load(str(project.path / "conf"), None))
    before = {table: rows(project, table) for table in STORED}
    plan = plan_erasure(opened, [ANNA])
    assert {table: rows(project, table) for table in STORED} == before
    if soaking():
        with stopping("erasure", "staged"), pytest.raises(KeyboardInterrupt):
            erase(opened, [ANNA])
        assert {table: rows(project, table) for table in STORED} == before
    left = plan.removed
    while left and (soaking() or left == plan.removed):
        with stopping("erasure", "published"), pytest.raises(KeyboardInterrupt):
            erase(opened, [ANNA])
        done, left = left, plan_erasure(opened, [ANNA]).removed
        assert 0 <= len(left) < len(done)
    evidence = erase(opened, [ANNA])
    assert [one["table"] for one in evidence.removed] == [one.table for one in left]
    project.run("ingestion", "cdc_merge", "scd2")
    return evidence


def test_the_tables_are_those_of_a_lake_that_never_had_the_subject(
    project: TemporaryProject, erased: Any, without: dict[str, list[str]]
) -> None:
    assert erased.tables[-1] != "shop.order"
    for table in STORED:
        assert rows(project, table) == without[table], table


def test_no_file_of_the_tables_holds_the_subject(project: TemporaryProject, erased: Any) -> None:
    wanted = Wanted.of([ANNA, "Anna Q. Vandermeulen", "Anna Vandermeulen-Krol"], ["id", "customer"])
    found = search_files([str(project.path / "lakehouse")], wanted)
    assert [(one.path, one.hits) for one in found.found] == []
    assert found.files > 50
    others = search_files([str(project.path / "lakehouse")], Wanted.of([CARL], ["id", "customer"]))
    assert others.found


def test_an_erasure_again_finds_nothing(project: TemporaryProject, erased: Any) -> None:
    opened = activate(Project.load(str(project.path / "conf"), None))
    before = {t: project.state(t).version for t in STORED if project.state(t)}
    assert plan_erasure(opened, [ANNA]).removed == ()
    assert erase(opened, [ANNA]).removed == ()
    assert {t: project.state(t).version for t in before} == before
    assert str(TableName("shop", "customer")) in erased.tables


def test_later_events_of_the_subject_are_refused_and_not_kept(project: TemporaryProject, erased: Any) -> None:
    land(
        project,
        "customer",
        9,
        "op,id,name,age,n,ts",
        [f"U,{ANNA},Anna Q. Vandermeulen,30,20", f"U,{BELA},Bela,41,20"],
    )
    land(project, "site", 9, "op,site,customer,city,n,ts", [f"U,9,{ANNA},Rome,20", f"U,8,{BELA},Rome,20"])
    land(project, "order", 9, "op,order,line,site,note,n,ts", ["U,9,1,4,q,20", "U,9,2,8,q,20"])
    project.run("ingestion", "cdc_merge", "scd2")
    assert {row["id"]: row["age"] for row in project.rows("shop.customer")} == {int(BELA): 41, int(CARL): 51}
    assert int(ANNA) not in {row["customer"] for row in project.rows("shop.site_changes")}
    assert [(r["order"], r["line"]) for r in project.rows("shop.order") if r["order"] == 9] == [(9, 2)]
    for table in ("customer", "site", "order"):
        refused = [r for r in project.rows(f"shop.{table}_quarantine") if "erased_subject" in r["_reasons"]]
        assert [(r["_position"]["file"], r["_position"]["row"], r["_raw"]) for r in refused] == [
            ("009.csv", 1, None)
        ]
    wanted = Wanted.of([ANNA, "Anna Q. Vandermeulen"], ["id", "customer"])
    assert search_files([str(project.path / "lakehouse")], wanted).found == []


def test_the_records_of_erasures_are_keyed_hashes_and_their_evidence_is_signed(
    project: TemporaryProject, erased: Any
) -> None:
    opened = activate(Project.load(str(project.path / "conf"), None))
    rows = opened.ops.read("erasures")
    assert {row["table"] for row in rows if row["subject"]} == {
        "shop.customer", "shop.site", "shop.order", "shop.visit", "shop.spent", "shop.request",
    }  # fmt: skip
    assert ANNA not in repr(rows)
    signed = erased.signed(erasure_key(opened))
    assert is_signed(signed, erasure_key(opened))
    assert not is_signed(signed | {"files": 0}, erasure_key(opened))
    assert not is_signed(signed, b"another key, also long enough")
    assert erased.is_done, (erased.found, erased.pending)


def test_landed_files_lose_the_records_that_name_the_subject(project: TemporaryProject, erased: Any) -> None:
    """And those of sites 1 to 4 in the orders: these were the subject's at some time."""
    named = {
        "customer": [[ANNA in line for line in lines] for lines in CUSTOMERS],
        "site": [[ANNA in line for line, _ in lines] for lines in SITES],
        "order": [[of_anna for _, of_anna in lines] for lines in ORDERS],
        "visit": [[ANNA in line for line in lines] for lines in VISITS],
    }
    for entity, files in named.items():
        for number, lines in enumerate(files, 1):
            text = (project.landing / f"shop/{entity}/{number:03}.csv").read_text()
            assert [not line.strip() for line in text.splitlines()[1:]] == lines, (entity, number)


@only_in_soak
def test_a_rectification_changes_every_version_of_the_subject_and_nothing_else(
    project: TemporaryProject, erased: Any
) -> None:
    opened = activate(Project.load(str(project.path / "conf"), None))
    before = {table: project.rows(table) for table in STORED}
    changed = rectify(opened, [BELA], {"name": "B. Right"})
    assert {one.table for one in changed} == {
        "shop.customer", "shop.customer_history", "shop.customer_changes",
    }  # fmt: skip
    for table, held in before.items():
        right = [
            row | ({"name": "B. Right"} if row.get("id") == int(BELA) and row.get("_op") != "delete" else {})
            if "customer" in table and "quarantine" not in table
            else row
            for row in held
        ]
        assert sorted(map(repr, project.rows(table))) == sorted(map(repr, right)), table
    assert rectify(opened, [BELA], {"name": "B. Right"}, dry_run=True) == []
    wanted = Wanted.of(["Bela"])
    tables = f"{project.path}/lakehouse/warehouse/shop"
    found = search_files(
        [f"{tables}/customer", f"{tables}/customer_history", f"{tables}/customer_changes"], wanted
    )
    assert (found.found, found.files > 0) == ([], True)
