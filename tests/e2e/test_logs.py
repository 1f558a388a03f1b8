"""One id through everything that a scheduled run writes: lines, jobs, records, commits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from harness.project import SMALL, TemporaryProject, write_parquet

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import _Active

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.e2e

KEDRO = str(Path(sys.executable).with_name("kedro"))
SCHEDULED = "manual__2022-07-12T00:22:36.111190+00:00"
ID = f"data_pipeline.glue_task {SCHEDULED}"
AIRFLOW = {
    "AIRFLOW_CTX_DAG_ID": "data_pipeline", "AIRFLOW_CTX_TASK_ID": "glue_task",
    "AIRFLOW_CTX_DAG_RUN_ID": SCHEDULED,
}  # fmt: skip
TABLES = ("shop.alpha", "shop.beta", "shop.gamma")
ROW = {"id": pa.int64(), "name": pa.string(), "seq": pa.string()}
CANARY = "CANARY-IN-A-ROW"


@dataclass
class Run:
    """What a scheduled run wrote to its console, and its project."""

    project: TemporaryProject
    stderr: str
    jobs: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("logs") / "project"
    source = {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"}
    # The last one fails while its rows are read: the value is in Spark's message, and must not be in a line.
    checks = {"gamma": {"checks": {"number": "cast(name as int) > 0"}}}
    tables = {t: {"source": "shop", "keys": ["id"], **checks.get(t[5:], {})} for t in TABLES}
    project = TemporaryProject.make(path, {"shop": source}, tables)
    (path / "events").mkdir()
    events = {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{path}/events",
        "spark.eventLog.compress": "false",
    }  # fmt: skip
    project.write("spark", {**SMALL, **events}, env="local")
    project.write("globals", {"small_batch": 0}, env="local")  # jobs are what is looked at
    for table in TABLES:
        rows = [{"id": n, "name": CANARY, "seq": None} for n in range(3)]
        write_parquet(project.landing / table.replace(".", "/") / "LOAD00000001.parquet", rows, ROW)
    told = {"KEDRO_LAKEHOUSE_LOG_FORMAT": "json", "KEDRO_LAKEHOUSE_JVM_LOG_LEVEL": "info", **AIRFLOW}
    ended = subprocess.run(
        [KEDRO, "run"], cwd=path, capture_output=True, text=True, check=False, env=os.environ | told
    )
    assert ended.returncode == 1, ended.stderr[-2000:]
    found = Run(project, ended.stderr)
    for file in (path / "events").rglob("events_*"):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                found.jobs.append(event["Properties"])
    return found


@pytest.fixture
def logs(ran: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(ran.project.path)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *words: CliRunner().invoke(lakehouse, ["logs", *words])


def kept(called: Any) -> list[dict[str, Any]]:
    assert called.exit_code == 0, called.output
    return json.loads(called.stdout)


def test_every_line_on_the_console_carries_the_id(ran: Run) -> None:
    lines = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    assert {line["origin"] for line in lines} == {"python", "jvm"}
    assert {(line["correlation_id"], line["pipeline"]) for line in lines} == {(ID, "__default__")}
    told = [line for line in lines if line["message"].startswith("shop.")]
    assert {line["batch"] for line in told if line["level"] == "INFO"} == {1}


def test_a_whole_run_is_printed_in_the_order_of_time(logs: Callable[..., Any]) -> None:
    lines = kept(logs(SCHEDULED, "--json"))
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    origins = {"executor" if line.get("task") else line["origin"] for line in lines}
    assert origins == {"python", "jvm", "executor"}
    assert {line["correlation_id"] for line in lines} == {ID}
    assert len({line["run_id"] for line in lines}) == 1
    assert all(line["table"] for line in lines if line.get("task"))
    assert kept(logs("data_pipeline.glue_task", SCHEDULED, "--json")) == lines
    assert kept(logs("--json")) == lines


def test_lines_of_one_table_never_name_another(logs: Callable[..., Any]) -> None:
    lines = kept(logs(SCHEDULED, "--json"))
    for table in TABLES:
        of_table = [line for line in lines if line["table"] == table]
        assert {line["origin"] for line in of_table} == {"python", "jvm"}
        others = {other[5:] for other in TABLES} - {table[5:]}
        assert not [line for line in of_table if any(other in line["message"] for other in others)]
        assert {line["node"].rpartition(".")[0] for line in of_table} == {table}


def test_no_line_holds_a_value_of_a_row(ran: Run, logs: Callable[..., Any]) -> None:
    assert "shop.gamma" in ran.stderr
    assert CANARY not in ran.stderr
    assert CANARY not in logs(SCHEDULED, "--json").stdout


def test_jobs_are_described_by_id_table_and_batch(ran: Run) -> None:
    of_tables = [job for job in ran.jobs if job.get("mdc.table")]
    assert {job["mdc.table"] for job in of_tables} == set(TABLES)
    for job in of_tables:
        assert job["spark.job.description"].startswith(f"{ID}: {job['mdc.table']}.")
    assert any(job["spark.job.description"] == f"{ID}: shop.alpha.merge batch 1" for job in of_tables)
    assert all(ID in job["spark.job.description"] for job in ran.jobs)


def test_records_and_commits_carry_the_id(ran: Run) -> None:
    project = ran.project
    assert {row["correlation_id"] for row in project.ops("batches")} == {ID}
    assert {row["correlation_id"] for row in project.ops("runs")} == {ID}
    for table in ("shop.alpha_changes", "shop.alpha"):
        assert project.state(table).bookmark.correlation_id == ID
    found = project._project.catalog.catalog.load_table("shop.alpha").current_snapshot()
    assert found.summary.additional_properties["kedro_lakehouse.correlation_id"] == ID


def test_a_run_that_is_not_kept_is_told(logs: Callable[..., Any]) -> None:
    ended = logs("manual__2020", "--json")
    assert ended.exit_code == 1
    error = json.loads(ended.stderr)["error"]
    assert error["code"] == "LOG_NOT_FOUND"
    assert "data_pipeline.glue_task manual__2022-07-12" in error["message"]
