"""Insurance policies in Delta and, in the same run, in Iceberg: the same declarations make the same rows."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from harness.formats import context_of
from harness.project import Outcome, TemporaryProject, write_text
from harness.soak import only_in_soak

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.names import TableName
from kedro_lakehouse.testing.samples import report

pytestmark = [pytest.mark.spark, pytest.mark.delta]

COLUMNS = [
    "policy_id", "expiry_date", "location_name", "state_code", "region_name",
    "insured_value", "business_type", "earthquake_coverage", "flood_coverage",
]  # fmt: skip
SOURCES = {
    "insurer": {
        "type": "dms", "path": "${globals:landing}", "file_format": "csv",
        "full_load": "full-load*", "changes": "cdc-load*",
        "csv": {"full_load": {"header": True}, "changes": {"header": False}},
    }
}  # fmt: skip
POLICY = {
    "source": "insurer", "entity": "insurance", "keys": ["policy_id"],
    "types": {c: {"policy_id": "int", "insured_value": "int", "expiry_date": "date"}.get(c, "string")
              for c in COLUMNS},
}  # fmt: skip
VIEW = {"name": "dim_policy", "open_end": "none", "end": "exclusive", "grain": "timestamp"}
TABLES: dict[str, Any] = {
    "insurance.policy": POLICY | {"history": {"view": VIEW}},
    "insurance.twin": POLICY | {"history": True, "format": "iceberg"},
    "insurance.record": POLICY | {"keys": [], "write": "append"},
}


def policies() -> dict[int, list[Any]]:
    draw = random.Random(16)  # noqa: S311 - made-up data
    found = {}
    for key in range(100460, 100485):
        value = draw.randrange(100, 900) * 1000
        kind = draw.choice(["Retail", "Farming", "Hospitality"])
        found[key] = [key, "2023-01-02", f"place {key}", "NY", "East", value, kind, "N", "N"]
    return found


def line(*values: Any) -> str:
    return ",".join(map(str, values)) + "\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    path = tmp_path_factory.mktemp("delta") / "project"
    return TemporaryProject.make(path, SOURCES, TABLES, table_format="delta")


@pytest.fixture(scope="module")
def loaded(project: TemporaryProject) -> Outcome:
    text = line(*COLUMNS) + "".join(line(*row) for row in policies().values())
    write_text(project.landing / "insurance/fullload/full-load.csv", text)
    return project.attempt()


def changed() -> list[list[Any]]:
    full = policies()
    first, second, third = (list(full[k]) for k in (100462, 100463, 100475))
    first[1], second[5], third[8] = "2024-12-31", 1000000, "Y"
    new = [[k, "2025-01-02", f"place {k}", "VA", "East", 5000, "Retail", "N", "N"] for k in (110001, 110002)]
    return [first, second, third, *new]


@pytest.fixture(scope="module")
def upserted(project: TemporaryProject, loaded: Outcome) -> Outcome:
    marks = ["U", "U", "U", "I", "I"]
    text = "".join(line(op, *row) for op, row in zip(marks, changed(), strict=True))
    write_text(project.landing / "insurance/cdcload/cdc-load.csv", text)
    return project.attempt()


@pytest.fixture(scope="module")
def merged(project: TemporaryProject, upserted: Outcome) -> dict[int, list[Any]]:
    """The policies before any later file."""
    return current(project, "policy")


@pytest.fixture(scope="module")
def deleted(project: TemporaryProject, merged: dict[int, list[Any]]) -> Outcome:
    row = changed()[3]
    twice = line("U", *row[:5], 1, *row[6:]) + line("U", *row[:5], 2, *row[6:]) + line("D", *changed()[4])
    write_text(project.landing / "insurance/cdcload/cdc-load_2.csv", twice)
    return project.attempt()


def current(project: TemporaryProject, table: str) -> dict[int, list[Any]]:
    rows = project.rows(f"insurance.{table}", ",".join(COLUMNS))
    found = {r["policy_id"]: [str(v) for v in r.values()] for r in rows}
    assert len(found) == len(rows)
    return found


def test_updates_and_inserts_meet_their_policies(loaded, upserted, merged):
    assert (loaded.failed, upserted.failed) == ({}, {})
    expected = policies() | {row[0]: row for row in changed()}
    assert len(expected) == 27
    assert merged == {k: [str(v) for v in row] for k, row in expected.items()}
    assert upserted.counts("insurance.policy", "current")[0]["updated"] == 3


def test_the_later_line_wins_and_deletes_delete(project, deleted):
    assert deleted.failed == {}
    rows = current(project, "policy")
    assert len(rows) == 26
    assert rows[110001][5] == "2"
    assert 110002 not in rows


def test_both_formats_hold_the_same(project, deleted):
    assert [project.format_of(f"insurance.{t}").name for t in ("policy", "twin")] == ["delta", "iceberg"]
    assert current(project, "policy") == current(project, "twin")
    histories = [
        sorted(
            (
                tuple(v for k, v in row.items() if k != "_batch")
                for row in project.rows(f"insurance.{t}_history")
            ),
            key=repr,
        )
        for t in ("policy", "twin")
    ]
    assert histories[0] == histories[1]
    assert (
        project.state("insurance.policy").bookmark.counts == project.state("insurance.twin").bookmark.counts
    )
    assert len(project.rows("insurance.record")) == 25 + 5 + 2


def test_they_are_read_by_name_and_by_the_catalog(project, deleted):
    frame = project.frame("insurance.policy.current")
    assert frame.count() == 26
    session = frame.sparkSession
    joined = session.sql(
        "SELECT count(*) FROM spark_catalog.insurance.policy p JOIN lake.insurance.twin t USING (policy_id)"
    )
    assert joined.collect()[0][0] == 26
    assert session.table("spark_catalog.insurance.dim_policy").where("effective_to is null").count() == 26


def test_a_query_is_answered_and_names_what_another_catalog_has(project, deleted, answer, refusal):
    asked = "select count(*) as n from {}"
    assert answer("sql", asked.format("insurance.policy"), "--engine", "spark") == [{"n": 26}]
    assert answer("sql", asked.format("insurance.twin")) == [{"n": 26}]
    refused = refusal("sql", asked.format("insurance.twin"), "--engine", "spark")
    assert refused["code"] == "UNSUPPORTED"
    assert refused["remedy"].startswith("Write lake.insurance.twin in its place, ")
    assert answer("sql", asked.format("lake.insurance.twin"), "--engine", "spark") == [{"n": 26}]


def test_deleted_rows_are_marked_in_deletion_vectors(project, deleted):
    log = project.path / "lakehouse/warehouse/insurance/policy/_delta_log"
    entries = [
        json.loads(line) for f in sorted(log.glob("*.json")) for line in f.read_text("utf-8").splitlines()
    ]
    assert any(e["add"].get("deletionVector") for e in entries if "add" in e)


def test_a_run_without_new_files_writes_nothing(project, deleted):
    before = project.state("insurance.policy")
    again = project.attempt()
    assert (again.reports, again.failed) == ([], {})
    assert project.state("insurance.policy").snapshot_id == before.snapshot_id


def test_sound_runs_log_no_error_of_the_jvm(project, deleted):
    logs = [json.loads(line) for path in (project.path / "lakehouse/logs").glob("*.jvm.jsonl")
            for line in path.read_text(encoding="utf-8").splitlines()]  # fmt: skip
    assert [(log["logger"], log["message"]) for log in logs if log["level"] == "ERROR"] == []


@only_in_soak
def test_a_replay_after_vacuum_adds_no_row(project, deleted):
    stored = [f"insurance.policy{role}" for role in ("", "_changes", "_history")]
    session = project.frame("insurance.policy.current").sparkSession
    before = {table: project.rows(table) for table in stored}
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    session.conf.set(check, "false")  # a test cannot wait for a week
    for table in stored:
        session.sql(f"OPTIMIZE spark_catalog.{table}")
        session.sql(f"VACUUM spark_catalog.{table} RETAIN 0 HOURS")
    session.conf.unset(check)
    landed = project.landing / "insurance/cdcload/cdc-load_2.csv"
    write_text(landed, landed.read_text(encoding="utf-8"))  # with another time: its events are known
    assert project.attempt(namespaces=["insurance.policy"]).failed == {}
    assert {table: sorted(map(repr, project.rows(table))) for table in stored} == {
        table: sorted(map(repr, rows)) for table, rows in before.items()
    }


def test_a_table_is_made_where_a_killed_run_left_half_of_it(project, loaded):
    lake, name = DeltaFormat(context_of(project._project, "test")), TableName("insurance", "half")
    columns = project.state("insurance.policy").columns
    log = project.path / "lakehouse/warehouse/insurance/half/_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    for unfinished in (f".{0:020}.json.8d8f8b5e.tmp", f"..{0:020}.json.8d8f8b5e.tmp.crc"):
        (log / unfinished).write_bytes(b"crc\0")
    lake.create(name, columns, Layout())
    uuid = lake.uuid(name)
    lake.create(name, columns, Layout())  # a writer that lost the race to make it
    assert lake.uuid(name) == uuid
    assert lake.state(name).columns == columns
    assert not list(log.glob("*.tmp*"))


def test_the_name_of_a_table_that_is_gone_makes_no_table(project, loaded):
    gone = TableName("insurance", "gone")
    made = DeltaFormat(context_of(project._project, "test"))
    made.sql(gone)
    assert made.state(gone) is None
    assert not (project.path / "lakehouse/warehouse/insurance/gone").exists()


def test_a_dropped_table_leaves_nothing_staged(project, loaded):
    name, source = TableName("insurance", "dropped"), TableName("insurance", "policy")
    lake = DeltaFormat(context_of(project._project, "ours"))
    rows = project._project.format_of(source).read(source)
    lake.create(name, {f.name: f.dataType for f in rows.schema.fields}, Layout())
    beside = project.path / "lakehouse/warehouse/insurance"
    with lake.stage(name, lake.state(name)) as stage:
        stage.append(rows)
        assert list(beside.glob(".stage_dropped.*"))
        lake.drop(name)
        assert not list(beside.glob(".stage_dropped.*"))
        with pytest.raises(CommitConflictError):
            stage.publish(report(1))
    assert lake.state(name) is None


def test_a_misspelled_table_is_told_by_the_name_that_spark_knows(upserted: Outcome, refusal: Any) -> None:
    by_spark = refusal("sql", "from insurance.polcy", "--engine", "spark")["message"]
    assert "Did you mean 'insurance.policy'?" in by_spark
    whole = refusal("sql", "from lake.insurance.polcy_history", "--engine", "spark")["message"]
    assert "Did you mean 'insurance.policy_history'?" in whole
    assert "Did you mean 'insurance.policy'?" in refusal("sql", "from insurance.polcy")["message"]


def test_names_and_columns_of_delta_are_shown_without_spark(upserted: Outcome, answer: Any) -> None:
    shown = {row["table"]: row for row in answer("sql", "show tables")}
    assert (shown["insurance.policy"]["format"], shown["insurance.policy"]["rows"]) == ("delta", 26)
    assert shown["insurance.twin"]["format"] == "iceberg"
    assert "insurance.dim_policy" in shown
    described = answer("sql", "describe insurance.policy")
    assert (described[0]["column_name"], described[0]["note"]) == ("policy_id", "key")
