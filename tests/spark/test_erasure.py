"""After an erasure the lake is what it would be had the subject never been in it, and no file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject, write_text

from kedro_lakehouse.erasure.erase import erase, plan_erasure
from kedro_lakehouse.erasure.evidence import is_signed
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.lake_table import erasure_key
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

ANNA, BELA, CARL = "7001001", "7001002", "7001003"
SOURCES: dict[str, Any] = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op",
    },
    "web": {"type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv"},
}  # fmt: skip
COMMON = {"source": "shop", "order_by": ["n"], "effective_time": "ts"}
TYPES = {"n": "int", "ts": "timestamp_ntz"}
TABLES: dict[str, Any] = {
    "shop.customer": COMMON | {
        "keys": ["id"], "types": TYPES | {"id": "bigint", "age": "int"}, "history": True, "subject": "id",
        "checks": {"grown": "age >= 18"}, "personal": ["name"],
    },
    "shop.site": COMMON | {
        "keys": ["site"], "types": TYPES | {"site": "int", "customer": "bigint"}, "history": True,
        "subject": "customer", "ignore_null": ["customer"],
    },
    "shop.order": COMMON | {
        "keys": ["order", "line"], "types": TYPES | {"order": "int", "line": "int", "site": "int"},
        "history": {"track": {"exclude": ["note"]}}, "subject": {"column": "site", "through": "shop.site"},
    },
    "shop.visit": {
        "source": "web", "write": "append", "types": {"customer": "bigint"}, "subject": "customer",
    },
    "shop.spent": {
        "derive": {
            "inputs": {"c": "shop.customer", "s": "shop.site"},
            "sql": "select c.id as customer, count(s.site) as sites "
            "from c left join s on s.customer = c.id group by c.id",
        },
        "keys": ["customer"], "history": True, "subject": "customer",
    },
}  # fmt: skip


def stamp(n: int) -> str:
    return f"2026-01-{n:02} 00:00:00"


CUSTOMERS = [
    [f"U,{ANNA},Anna Q. Vandermeulen,30,1", f"U,{BELA},Bela,40,1", f"U,{CARL},Carl,50,1"],
    [f"U,{ANNA},Anna Q. Vandermeulen,31,5", f"U,{BELA},Bela,17,4", f"U,{ANNA},Anna Vandermeulen-Krol,12,6"],
    [f"U,{ANNA},Anna Q. Vandermeulen,30,3", f"D,{CARL},,,5", f"D,{ANNA},,,9", f"U,{CARL},Carl,51,7"],
]
# Each event with the customer whom its row is about, as a person would tell it.
SITES = [
    [(f"U,1,{ANNA},Rome,1", ANNA), (f"U,2,{BELA},Oslo,1", BELA), (f"U,3,{ANNA},Bonn,1", ANNA)],
    [
        ("U,1,,Roma,4", ANNA),
        (f"U,3,{BELA},Bonn,5", BELA),
        (f"U,2,{ANNA},Oslo,5", ANNA),
        ("U,2,,Osl,6", ANNA),
    ],
    [("D,1,,,8", ANNA), (f"U,2,{CARL},Oslo,9", CARL), ("D,3,,,7", BELA), (f"U,3,{ANNA},Bonn,3", ANNA)],
    [(f"U,1,{BELA},Rome,12", BELA), (f"U,4,{ANNA},Linz,2", ANNA)],
]
ORDERS = [
    [("U,1,1,1,a,1", True), ("U,1,2,2,b,1", True), ("U,2,1,5,c,1", False), ("U,3,1,4,k,2", True)],
    [("U,1,1,1,z,3", True), ("U,2,1,5,d,4", False), ("U,5,1,6,x,2", False), ("D,5,1,,,6", False)],
]
VISITS = [[f"{ANNA},home", f"{BELA},home", f"{ANNA},home"], [f"{CARL},cart", f"{ANNA},cart"]]


def land(project: TemporaryProject, entity: str, number: int, head: str, lines: list[str]) -> None:
    dated = [f"{line},{stamp(int(line.rpartition(',')[2]))}" for line in lines] if "ts" in head else lines
    write_text(project.landing / f"shop/{entity}/{number:03}.csv", "\n".join([head, *dated, ""]))


def made(folder: Path, table_format: str, *, whole: bool) -> TemporaryProject:
    """A lake of all events, or of those that are not about Anna."""
    tables = {name: dict(table) for name, table in TABLES.items()}
    if table_format == "iceberg":
        tables["shop.customer"]["partition_by"] = ["bucket(4, id)"]
    project = TemporaryProject.make(folder, SOURCES, tables, table_format=table_format)
    project.write("credentials", {"erasure": {"key": "a key for the tests, long enough"}}, env="local")
    for number in range(1, 5):
        if number <= len(CUSTOMERS):
            lines = [line for line in CUSTOMERS[number - 1] if whole or ANNA not in line]
            land(project, "customer", number, "op,id,name,age,n,ts", lines)
        lines = [line for line, owner in SITES[number - 1] if whole or owner != ANNA]
        land(project, "site", number, "op,site,customer,city,n,ts", lines)
        if number <= len(ORDERS):
            # Sites 1 to 4 were Anna's at some time: their orders go with her.
            orders = [line for line, of_anna in ORDERS[number - 1] if whole or not of_anna]
            land(project, "order", number, "op,order,line,site,note,n,ts", orders)
            visits = [line for line in VISITS[number - 1] if whole or ANNA not in line]
            land(project, "visit", number, "customer,page", visits)
        if number in (2, 4):
            project.run("ingestion", "cdc_merge", "scd2")
    return project


STORED = [
    *(f"shop.{t}{s}" for t in ("customer", "site", "order")
      for s in ("", "_history", "_changes", "_quarantine")),
    "shop.visit", "shop.visit_changes", "shop.spent",
]  # fmt: skip
NOT_COMPARED = {"_batch", "_position"}


def rows(project: TemporaryProject, table: str) -> list[str]:
    # Without an order of its own, an event of a change-only file is ordered by its row in the file.
    left_out = NOT_COMPARED | ({"_order"} if "visit" in table else set())
    found = [{k: v for k, v in row.items() if k not in left_out} for row in project.rows(table)]
    return sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in found)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("iceberg", marks=pytest.mark.slow),
        pytest.param("delta", marks=pytest.mark.delta),
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
    evidence = erase(opened, [ANNA])
    assert [(one.table, one.removed) for one in plan.removed] == [
        (one["table"], one["removed"]) for one in evidence.removed
    ]
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
        "shop.customer", "shop.site", "shop.order", "shop.visit", "shop.spent",
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
    changed = {
        f"shop/{entity}/{number:03}.csv"
        for entity, files in named.items()
        for number, lines in enumerate(files, 1)
        if any(lines)
    }
    assert {path.rpartition("/landing/")[2] for path in erased.rewritten} == changed
    for entity, files in named.items():
        for number, lines in enumerate(files, 1):
            text = (project.landing / f"shop/{entity}/{number:03}.csv").read_text()
            assert [not line.strip() for line in text.splitlines()[1:]] == lines, (entity, number)
