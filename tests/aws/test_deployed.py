"""What ``kedro lakehouse deploy`` renders, at work: cfn-lint, the job's own script, Airflow's DAG parser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import boto3
import pytest
import yaml
from cfnlint.api import lint_all
from harness.aws import LAKEHOUSE, ProjectOnAws
from harness.oracle import differences_from_expected
from harness.places import CRAWLED
from harness.project import ROOT
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.aws

UV = ROOT / ".venv/bin/uv"
PARSE = """
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder={folder!r}, collect_dags=True)
print("PARSED " + json.dumps({{
    "errors": {{str(k): v for k, v in bag.import_errors.items()}},
    "dags": {{
        name: {{
            "paused": dag.is_paused_upon_creation, "runs": dag.max_active_runs, "catchup": dag.catchup,
            "tasks": {{task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks}},
            "commands": {{task.task_id: task.bash_command for task in dag.tasks}},
        }} for name, dag in bag.dags.items()
    }},
}}))
"""


def deploy(project: ProjectOnAws, target: str) -> Path:
    """Render a target with an empty wheel: the package is installed here."""
    wheel, out = project.path / "project-0.1.0-py3-none-any.whl", project.path.parent / target
    wheel.write_bytes(b"")
    words = [] if target == "airflow" else ["--wheel", str(wheel)]
    done = project.kedro("lakehouse", "deploy", "--env", "aws", "--target", target, "--out", str(out), *words)
    wheel.unlink()
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("target", ["glue", "emr-serverless"])
def test_cfn_lint_finds_nothing(project: ProjectOnAws, target: str) -> None:
    if target == "glue":  # the crawlers are the same in both
        discovery = project.path / "conf/aws/discovery.yml"
        discovery.write_text(yaml.safe_dump(CRAWLED), encoding="utf-8")
    found = lint_all((deploy(project, target) / "template.yml").read_text(encoding="utf-8"))
    assert [str(match) for match in found if not match.rule.id.startswith("I")] == []  # I: for information


def test_the_wheel_is_built_and_holds_what_the_job_starts(aws: str, tmp_path: Path) -> None:
    done = ProjectOnAws(ROOT).kedro(
        "lakehouse", "deploy", "--env", "aws", "--target", "glue", "--out", str(tmp_path / "out"), "--json"
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "out/artifacts").glob("*.whl")
    assert str(wheel) in json.loads(done.stdout)["files"]
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"kedro_lakehouse/deploy/{f}" for f in ("job.py", "templates/airflow_dag.py.j2")} <= names


@only_in_soak
def test_the_script_of_the_job_runs_the_configuration_from_s3(project: ProjectOnAws, tmp_path: Path) -> None:
    out = deploy(project, "glue")
    boto3.client("s3").upload_file(str(out / "artifacts/conf.zip"), LAKEHOUSE, "artifacts/conf.zip")
    cache, bucket = f"{ROOT}/.cache", f"LAKEHOUSE_BUCKET={LAKEHOUSE}"
    (tmp_path / ".cache").symlink_to(cache)
    arguments = {
        "--conf_archive": f"s3://{LAKEHOUSE}/artifacts/conf.zip", "--package": "kedro_lakehouse",
        "--env": "aws", "--variables": f"{bucket},LAKEHOUSE_KMS_KEY=", "--JOB_NAME": "kedro-lakehouse",
        "--pipelines": "ingestion,cdc_merge", "--namespaces": "dms_sample.sport_league",
        "--dag_name": "kedro-lakehouse", "--task_id": "run", "--correlation_id": "d32c5kddcf5bb8c3",
    }  # fmt: skip
    words = [word for pair in arguments.items() for word in pair]
    done = subprocess.run(
        [sys.executable, str(out / "artifacts/main.py"), *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    table = project.opened().catalog.find(TableName("dms_sample", "sport_league"))
    assert table is not None
    assert differences_from_expected("sport_league", table.scan().to_arrow()) == (0, 0)
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert {line["correlation_id"] for line in told} == {"kedro-lakehouse.run d32c5kddcf5bb8c3"}
    runs = {row["correlation_id"] for row in project.opened().ops.read("runs")}
    assert "kedro-lakehouse.run d32c5kddcf5bb8c3" in runs


@only_in_soak  # it installs Airflow
def test_airflow_parses_the_dag(project: ProjectOnAws, tmp_path: Path) -> None:
    """In an environment of its own: Airflow's pins and ours do not go together."""
    python = tmp_path / "venv/bin/python"
    made = [UV, "venv", "-q", tmp_path / "venv", "--python", sys.executable]
    installed = [UV, "pip", "install", "-q", "--python", python, "apache-airflow==3.3.2"]
    for command in (made, installed):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    }  # fmt: skip
    parsed = subprocess.run(
        [python, "-c", PARSE.format(folder=str(deploy(project, "airflow")))],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert parsed.returncode == 0, parsed.stderr[-3000:]
    (line,) = [line for line in parsed.stdout.splitlines() if line.startswith("PARSED ")]
    found = json.loads(line.removeprefix("PARSED "))
    assert found["errors"] == {}
    dag = found["dags"]["kedro_lakehouse_aws"]
    assert (dag["paused"], dag["runs"], dag["catchup"]) == (True, 1, False)
    assert dag["tasks"] == {"dms_sample": [], "ops": ["dms_sample"]}
    assert dag["commands"]["dms_sample"].endswith(
        "run --env=aws --pipelines=__default__ --namespaces=dms_sample"
    )
