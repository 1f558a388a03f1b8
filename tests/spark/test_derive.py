"""Derived tables: chained in one run, taken once per set of input commits, rebuilt alike after a kill."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from harness.project import Outcome, TemporaryProject, write_text
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CSV = {"file_format": "csv", "path": "${globals:landing}/crm", "pattern": "*.csv"}
SOURCES: dict[str, Any] = {
    "flagged": CSV | {"type": "changes", "op_column": "rec_source_status"},
    "whole": CSV | {"type": "extract", "extract_time": {"from": "name", "pattern": "%Y-%m-%d"}},
    "gone": CSV | {"type": "changes", "path": "${globals:landing}/not_mounted"},
}
JOIN = "select m.id, m.name, a.city from m left join a on m.id = a.id -- one row a key"
TABLES: dict[str, dict[str, Any]] = {
    "crm.master": {"source": "flagged", "keys": ["id"], "order_by": ["ts"], "types": {"id": "int"}},
    "crm.address": {"source": "whole", "keys": ["id"], "types": {"id": "int"}},
    "crm.both": {
        "derive": {"inputs": {"m": "crm.master", "a": "crm.address"}, "sql": JOIN}, "keys": ["id"],
        "history": {"view": {"name": "dim_both", "surrogate_key": "sk", "grain": "date", "end": "inclusive"}},
    },
    # An input of another derived table, with the same names inside its query.
    "crm.cities": {
        "derive": {
            "inputs": {"m": "crm.both"},
            "sql": "with named as (select * from m) select city, count(*) as n from named group by city",
        },
        "keys": ["city"], "types": {"n": "int"},
    },
    "crm.lost": {"source": "gone", "keys": ["id"], "order_by": ["ts"]},
    "crm.waiting": {
        "derive": {"inputs": {"x": "crm.none", "m": "crm.master"}, "sql": "select m.* from m"},
        "keys": ["id"],
    },
    "crm.none": {"source": "flagged", "keys": ["id"], "order_by": ["ts"]},
    "crm.orphan": {"derive": {"inputs": {"x": "crm.lost"}, "sql": "select * from x"}, "keys": ["id"]},
    "crm.wrong": {
        "derive": {"inputs": {"m": "crm.master"}, "sql": "select id, nmae from m"}, "keys": ["id"],
    },
    "crm.mistyped": {
        "derive": {"inputs": {"m": "crm.master"}, "sql": "selct id from m"}, "keys": ["id"],
    },
    "crm.emptied": {
        "derive": {"inputs": {"m": "crm.master"}, "sql": "select id from m where id < 0"}, "keys": ["id"],
    },
}  # fmt: skip
MASTER, ADDRESS = "id,name,ts,rec_source_status", "id,city"
HEALTHY = ("crm.master", "crm.address", "crm.both", "crm.cities")


def land(folder: Path, name: str, header: str, *lines: str) -> None:
    write_text(folder / "crm" / name, "\n".join([header, *lines]) + "\n")


@dataclass
class Runs:
    """The project after its last run, and what was to be seen in between."""

    project: TemporaryProject
    outcomes: list[Outcome] = field(default_factory=list)
    both: list[dict[int, tuple[str, str | None]]] = field(default_factory=list)
    cities: list[dict[str | None, int]] = field(default_factory=list)
    plans: list[int] = field(default_factory=list)

    def run(self, *pipelines: str, **options: Any) -> None:
        self.outcomes.append(self.project.attempt(*pipelines, **options))
        self.both.append({r["id"]: (r["name"], r["city"]) for r in self.project.rows("crm.both")})
        self.cities.append({r["city"]: r["n"] for r in self.project.rows("crm.cities")})
        self.plans.append(len(self.project.ops("batch_ledger")))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    found = Runs(TemporaryProject.make(tmp_path_factory.mktemp("derive") / "project", SOURCES, TABLES))
    landing = found.project.landing
    (landing / "crm/none").mkdir(parents=True)
    land(landing, "master/1.csv", MASTER, "1,ab,2026-01-01,I", "2,b,2026-01-01,I", "3,c,2026-01-01,I")
    land(landing, "address/2026-01-01.csv", ADDRESS, "1,Lyon", "2,Lyon")
    found.run()
    healthy = {"namespaces": list(HEALTHY)}
    # A delete by its status, a key that the file lacks, and a full extract that lacks a key.
    land(landing, "master/2.csv", MASTER, "3,,2026-01-02,D", "1,a,2026-01-02,U", "1,aa,2026-01-03,U")
    land(landing, "address/2026-01-02.csv", ADDRESS, "1,Lyon", "4,Oslo")
    found.run(**healthy)
    found.run(**healthy)
    # Only ingestion: the inputs come from storage, and the derived tables see what was published.
    land(landing, "master/3.csv", MASTER, "4,d,2026-01-04,I")
    found.run("ingestion", **healthy)
    found.run(**healthy)
    return found


def test_a_chain_of_derived_tables_is_made_in_one_run(runs: Runs) -> None:
    assert runs.both[0] == {1: ("ab", "Lyon"), 2: ("b", "Lyon"), 3: ("c", None)}
    assert runs.cities[0] == {"Lyon": 2}
    refused = runs.project.rows("crm.cities_quarantine")
    assert {(r["_batch"], *r["_reasons"]) for r in refused} == {(n, "null_key") for n in (1, 2, 3)}


def test_deletes_of_both_kinds_reach_the_derived_table(runs: Runs) -> None:
    assert runs.both[1] == {1: ("aa", "Lyon"), 2: ("b", None)}
    (counts,) = runs.outcomes[1].counts("crm.both", "ingestion")
    # 1 and 2 are changed, 3 is deleted; nothing else is told.
    assert (counts["events_in"], counts["applied"], counts["unchanged"]) == (3, 3, 0)


def test_types_come_from_the_query_or_as_declared(runs: Runs) -> None:
    kinds = {n: t.simpleString() for n, t in runs.project.state("crm.cities").columns.items()}
    assert (kinds["city"], kinds["n"]) == ("string", "int")
    assert runs.project.state("crm.both").columns["id"].simpleString() == "int"


def test_an_extract_is_named_by_its_input_commits_and_timed_by_the_latest(runs: Runs) -> None:
    found = {
        a: runs.project._project.catalog.find(TableName("crm", t))
        for a, t in (("m", "master"), ("a", "address"))
    }
    heads = {a: t.current_snapshot() for a, t in found.items() if t is not None}
    last = max(runs.project.rows("crm.both_changes"), key=lambda r: r["_batch"])
    assert last["_order"]["extract_name"] == "derived:" + ",".join(
        f"{a}@{s.snapshot_id}" for a, s in heads.items()
    )
    assert last["_order"]["extract_time"].timestamp() * 1000 == max(s.timestamp_ms for s in heads.values())


def test_without_new_commits_of_the_inputs_nothing_is_planned(runs: Runs) -> None:
    assert runs.outcomes[2].reports == []
    assert runs.plans[2] == runs.plans[1]


def test_ingestion_alone_derives_from_what_is_published(runs: Runs) -> None:
    assert {(r.table, r.stage) for r in runs.outcomes[3].reports} == {("crm.master", "ingestion")}
    assert runs.both[4] == {1: ("aa", "Lyon"), 2: ("b", None), 4: ("d", "Oslo")}
    assert runs.cities[4] == {"Lyon": 1, "Oslo": 1}


def test_a_table_waits_for_inputs_and_is_not_run_after_a_failed_one(runs: Runs) -> None:
    first = runs.outcomes[0]
    assert set(first.failed) == {"crm.lost", "crm.wrong", "crm.mistyped", "crm.emptied"}
    tables = {r.table for r in first.reports}
    assert tables == set(HEALTHY)


def test_a_wrong_query_names_its_place_and_an_empty_result_is_refused(runs: Runs) -> None:
    wrong, emptied = (runs.outcomes[0].failed[f"crm.{t}"] for t in ("wrong", "emptied"))
    assert (wrong.code, wrong.key) == ("CONFIGURATION", "crm.wrong.derive.sql")  # type: ignore[attr-defined]
    assert "nmae" in str(wrong)
    # What Spark says of the query itself, not of the statement in which it is run.
    mistyped = str(runs.outcomes[0].failed["crm.mistyped"])
    assert "'selct'" in mistyped
    assert "bracket" not in mistyped
    assert "')'" not in mistyped
    assert [e.code for e in emptied.errors] == ["SNAPSHOT_EMPTY"]  # type: ignore[attr-defined]


def test_two_loads_on_one_day_leave_no_version_that_ends_before_it_starts(runs: Runs) -> None:
    view = runs.project._project.session.table("lake.crm.dim_both").collect()
    assert len(runs.project.rows("crm.both_history")) == 6
    assert all(r["effective_from"] <= r["effective_to"] for r in view)
    assert sorted(r["id"] for r in view) == [1, 2, 4]


def test_a_killed_batch_is_rebuilt_from_the_same_commits(
    runs: Runs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tables = {k: TABLES[k] for k in ("crm.master", "crm.address", "crm.both")}
    project = TemporaryProject.make(tmp_path_factory.mktemp("derive") / "killed", SOURCES, tables)
    land(project.landing, "master/1.csv", MASTER, "1,a,2026-01-01,I")
    land(project.landing, "address/2026-01-01.csv", ADDRESS, "1,Lyon")
    project.run(namespaces=["crm.master", "crm.address"])
    planned = project.frame("crm.both.landing")
    next(planned)  # the batch is in the ledger, and nothing of it is written
    planned.close()
    land(project.landing, "master/2.csv", MASTER, "1,b,2026-01-02,U")
    project.run(namespaces=["crm.master"])
    project.run(namespaces=["crm.both"])
    events = sorted(project.rows("crm.both_changes", "name,_batch"), key=lambda r: r["_batch"])
    assert [(e["_batch"], e["name"]) for e in events] == [(1, "a"), (2, "b")]
    assert [r["name"] for r in project.rows("crm.both")] == ["b"]


@only_in_soak
def test_a_query_names_a_renamed_column_as_declared(tmp_path: Path) -> None:
    source = {
        "m": {"type": "changes", "path": "${globals:landing}/m", "file_format": "csv", "pattern": "*.csv"}
    }

    def declared(sql: str, **renamed: str) -> dict[str, Any]:
        made = {"source": "m", "keys": ["id"], "order_by": ["ts"], "rename": renamed}
        return {
            "m.film": made,
            "m.names": {"derive": {"inputs": {"m": "m.film"}, "sql": sql}, "keys": ["id"]},
        }

    project = TemporaryProject.make(tmp_path / "project", source, declared("select id, Title as t from m"))
    write_text(project.landing / "m/film/1.csv", "id,Title,ts\n1,a,1\n")
    project.run()
    # No commit of the input has come since the rename: its snapshot has the column by its old name.
    project.declare(source, declared("select id, name as t from m", Title="name"))
    project.run()
    with contextlib.chdir(project.path):
        done = CliRunner().invoke(lakehouse, ["rebuild", "m.names", "--from-landing", "--yes"])
    assert done.exit_code == 0, done.output
    assert [r["t"] for r in project.rows("m.names")] == ["a"]
    write_text(project.landing / "m/film/2.csv", "id,Title,ts\n1,b,2\n")
    project.run()
    assert [r["t"] for r in project.rows("m.names")] == ["b"]
