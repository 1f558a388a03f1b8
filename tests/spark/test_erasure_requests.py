"""Requests in a table: the person goes from every table, the requests last of all."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from harness.erasures import BELA, CARL, CUSTOMERS, KEY, SOURCES, TABLES, land
from harness.kills import stopping
from harness.project import TemporaryProject
from harness.soak import only_in_soak

from kedro_lakehouse.erasure.erase import erase
from kedro_lakehouse.erasure.requests import DONE, known_erasures
from kedro_lakehouse.errors import ErasureNotDoneError
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.preview.plan import plan_run
from kedro_lakehouse.project import Project, activate

HEAD = "op,request,customer,until,n,ts"
DORA = "7001004"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Customers and requests: of the other tables an erasure by arguments is tried."""
    tables = {name: TABLES[name] for name in ("shop.customer", "shop.request")}
    made = TemporaryProject.make(tmp_path_factory.mktemp("requests") / "project", SOURCES, tables)
    made.write("credentials", KEY, env="local")
    land(made, "customer", 1, "op,id,name,age,n,ts", CUSTOMERS[0])
    return made


def test_requests_of_a_table_are_met_and_go_with_the_person(project: TemporaryProject) -> None:
    land(project, "request", 1, HEAD, [f"U,1,{BELA},2026-03-01,1", f"U,2,{BELA},2026-02-01,1", "U,3,,,1"])
    project.run("ingestion", "cdc_merge", "scd2")
    opened = activate(Project.load(str(project.path / "conf"), None))
    assert plan_run(opened).erasures == [
        {"table": "shop.request", "requests": 2, "due": datetime(2026, 2, 1, tzinfo=UTC)}
    ]
    project.run("erasure")
    opened = activate(Project.load(str(project.path / "conf"), None))
    assert plan_run(opened).erasures == []
    last = known_erasures(opened.ops)[0]
    assert (last.status, last.subjects, last.due) == (DONE, 1, datetime(2026, 2, 1, tzinfo=UTC))
    assert last.is_late(datetime.now(UTC))
    assert int(BELA) not in {row["id"] for row in project.rows("shop.customer_changes")}
    assert [row["request"] for row in project.rows("shop.request")] == [3]
    places = [str(project.path / "lakehouse"), str(project.landing)]
    assert search_files(places, Wanted.of([BELA], ["id", "customer"])).found == []
    project.run("erasure")
    assert known_erasures(opened.ops)[0].erasure == last.erasure


def kill_each_commit(project: TemporaryProject, person: str, role: str) -> None:
    """Run the erasure of a person, killed after each commit, until no row of requests names the person."""
    while [row for row in project.rows(f"shop.request{role}") if row["customer"] == int(person)]:
        with stopping("erasure", "published"):
            assert [type(error) for error in project.failures("erasure").values()] == [KeyboardInterrupt]


@only_in_soak
def test_an_erasure_that_was_killed_goes_on_although_its_request_is_gone(project: TemporaryProject) -> None:
    land(project, "request", 2, HEAD, [f"U,9,{CARL},2026-03-01,5"])
    project.run("ingestion", "cdc_merge", "scd2")
    kill_each_commit(project, CARL, "")
    assert int(CARL) in {row["customer"] for row in project.rows("shop.request_changes")}
    project.run("erasure")
    opened = activate(Project.load(str(project.path / "conf"), None))
    last = known_erasures(opened.ops)[0]
    assert (last.status, last.subjects) == (DONE, 1)
    assert search_files([str(project.path / "lakehouse")], Wanted.of([CARL], ["id", "customer"])).found == []


@only_in_soak
def test_an_erasure_that_was_killed_before_its_search_is_not_called_proved(project: TemporaryProject) -> None:
    land(project, "request", 3, HEAD, [f"U,10,{DORA},2026-03-01,6"])
    land(project, "customer", 2, "op,id,name,age,n,ts", [f"U,{DORA},Dora,30,6"])
    project.run("ingestion", "cdc_merge", "scd2")
    kill_each_commit(project, DORA, "_changes")
    (error,) = project.failures("erasure").values()
    assert isinstance(error, ErasureNotDoneError)
    opened = activate(Project.load(str(project.path / "conf"), None))
    last = known_erasures(opened.ops)[0]
    assert (last.status, last.subjects) == ("pending", 1)
    assert "find-value" in last.pending[0]
    assert search_files([str(project.path / "lakehouse")], Wanted.of([DORA], ["id", "customer"])).found == []
    assert erase(opened, [DORA]).is_done  # by its argument: a request about an erased person is refused
    assert known_erasures(opened.ops)[0].status == DONE
