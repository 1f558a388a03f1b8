"""`kedro lakehouse plan` says what the next run then does: batches, files, refusals, errors, what follows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.kills import stopping
from harness.planned import as_planned, committed
from harness.project import TemporaryProject, write_parquet, write_text
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq", "max_files": 1},
    "erp": {
        "type": "extract", "path": "${globals:landing}/erp", "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y%m%d"},
    },
}  # fmt: skip
TABLES = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True},
    "shop.fixed": {"source": "shop", "keys": ["id"], "schema_policy": "fixed"},
    "erp.price": {"source": "erp", "keys": ["id"], "max_delete_fraction": 0.5},
    "shop.priced": {
        "derive": {
            "inputs": {"i": "shop.item", "p": "erp.price"},
            "sql": "SELECT i.id, i.name, p.price FROM i LEFT JOIN p ON cast(p.id AS bigint) = i.id",
        },
        "keys": ["id"],
    },
    "shop.late": {
        "derive": {"inputs": {"x": "shop.nothing"}, "sql": "SELECT id FROM x"}, "keys": ["id"],
    },
    "shop.nothing": {"source": "shop", "keys": ["id"]},
}  # fmt: skip
ROW = {"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "seq": pa.string()}
Plan = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    project = TemporaryProject.make(tmp_path_factory.mktemp("plan") / "project", SOURCES, TABLES)
    (project.landing / "shop/nothing").mkdir(parents=True)
    for table in ("item", "fixed"):
        for n in (1, 2):
            land(project, table, n, ROW)
    extract(project, 20260101, 10)
    return project


def land(project: TemporaryProject, table: str, n: int, columns: dict[str, pa.DataType]) -> None:
    row = {"Op": "I", "id": n, "name": f"n{n}", "seq": str(n), "colour": "red"}
    write_parquet(project.landing / f"shop/{table}/2026010{n}-000001000.parquet", [row], columns)


def extract(project: TemporaryProject, day: int, rows: int) -> None:
    lines = "".join(f"{n},{n}.5\n" for n in range(rows))
    write_text(project.landing / f"erp/price/{day}.csv", f"id,price\n{lines}")


def plan_of(answer: Callable[..., Any]) -> Plan:
    return {one["table"]: one for one in answer("plan")["tables"]}


def batches(plan: Plan) -> dict[tuple[str, int], list[str]]:
    """The files of each batch that a plan foresees."""
    return {(t, batch["number"]): batch["files"] for t, one in plan.items() for batch in one["batches"]}


def files_in(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")} if folder.exists() else set()


def test_the_plan_is_what_the_run_does(project: TemporaryProject, answer: Callable[..., Any]) -> None:
    before = files_in(project.path)
    first = plan_of(answer)
    assert files_in(project.path) == before
    assert first["shop.item"]["rows"] == 2
    assert first["erp.price"]["rows"] == 10
    assert first["shop.priced"]["becomes"] == "computed"
    assert first["shop.priced"]["because"] == ["shop.item", "erp.price"]
    assert first["shop.item"]["dependents"] == ["shop.priced"]
    assert first["shop.nothing"]["becomes"] == "nothing"
    assert first["shop.late"]["becomes"] == "nothing"
    done = project.attempt()
    assert done.failed == {}
    assert committed(project, done.reports) == batches(first)

    again = plan_of(answer)
    assert {one["becomes"] for one in again.values()} == {"nothing"}
    assert project.run() == []

    land(project, "item", 3, ROW | {"colour": pa.string()})
    land(project, "fixed", 3, ROW | {"colour": pa.string()})
    extract(project, 20260102, 4)
    extract(project, 20251231, 10)
    before = files_in(project.path)
    third = plan_of(answer)
    assert files_in(project.path) == before
    assert third["shop.item"]["new_columns"] == {"colour": "string"}
    assert third["shop.fixed"]["becomes"] == "fails"
    refused = {one["file"]: one["code"] for one in third["erp.price"]["refused"]}
    assert refused == {"20260102.csv": "SNAPSHOT_DELETES_TOO_MANY", "20251231.csv": "SNAPSHOT_OUT_OF_ORDER"}
    assert third["erp.price"]["becomes"] == "nothing"
    assert third["shop.priced"]["because"] == ["shop.item"]
    done = project.attempt()
    assert committed(project, done.reports) == batches(third)
    assert done.failed["shop.fixed"].code == third["shop.fixed"]["error"]["code"] == "SCHEMA_FIXED"
    assert {one.extract: one.code for one in done.failed["erp.price"].errors} == refused

    last = plan_of(answer)
    assert {t: one["becomes"] for t, one in last.items() if one["becomes"] != "nothing"} == {
        "shop.fixed": "fails"
    }
    assert [one["before"] for one in last["erp.price"]["refused"]] == [True]
    assert {one: getattr(error, "code", "") for one, error in project.attempt().failed.items()} == {
        "shop.fixed": "SCHEMA_FIXED"
    }


def test_a_batch_that_was_begun_comes_before_that_of_changed_inputs(
    project: TemporaryProject, answer: Callable[..., Any]
) -> None:
    """Runs after the one above. The begun batch is finished from the inputs as they were."""
    land(project, "item", 4, ROW | {"colour": pa.string()})
    project.run(namespaces=["shop.item"])
    with stopping("ingestion", "planned"):
        failed = project.failures(namespaces=["shop.priced"])
    assert [type(error) for error in failed.values()] == [KeyboardInterrupt]
    begun = plan_of(answer)["shop.priced"]
    assert [batch["unfinished"] for batch in begun["batches"]] == [True]
    number = begun["batches"][0]["number"]
    land(project, "item", 5, ROW | {"colour": pa.string()})
    following = plan_of(answer)["shop.priced"]
    assert following["because"] == ["shop.item"]
    assert [batch["number"] for batch in following["batches"]] == [number, number + 1]
    with as_planned(project):
        project.attempt()
    assert {row["id"] for row in project.rows("shop.priced")} == {1, 2, 3, 4, 5}


@only_in_soak
def test_a_batch_that_was_begun_comes_before_inputs_that_have_changed_since(
    project: TemporaryProject, answer: Callable[..., Any]
) -> None:
    """Runs after the one above: nothing more lands, and the begun batch has older inputs all the same."""
    for n in (6, 7):
        land(project, "item", n, ROW | {"colour": pa.string()})
        project.run(namespaces=["shop.item"])
        if n == 6:
            with stopping("ingestion", "planned"):
                project.failures(namespaces=["shop.priced"])
    found = plan_of(answer)["shop.priced"]
    assert found["because"] == []
    assert [batch["unfinished"] for batch in found["batches"]] == [True, False]
    with as_planned(project):
        project.attempt()
    assert {row["id"] for row in project.rows("shop.priced")} == {1, 2, 3, 4, 5, 6, 7}


def test_spark_refuses_what_only_its_analyser_knows(
    project: TemporaryProject, call: Callable[..., Any], answer: Callable[..., Any]
) -> None:
    """Runs after the others: the tables are stored."""
    checks = {"is_odd": "array_size(name) > 1", "is_even": "length(name) > 0"}
    derive = TABLES["shop.priced"]["derive"] | {"sql": "SELECT i.id, array_size(i.name) AS n FROM i"}
    changed = {"shop.item": TABLES["shop.item"] | {"checks": checks}}
    changed["shop.priced"] = TABLES["shop.priced"] | {"derive": derive}
    project.declare(SOURCES, TABLES | changed)
    assert answer("check")["mistakes"] == []
    done = call("check", "--spark", "--output", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["mistakes"]
    assert [one["key"] for one in found] == ["shop.item.checks.is_odd", "shop.priced.derive.sql"]
    assert all("Spark refuses" in one["problem"] and one["line"] for one in found)
