"""Iceberg in Glue's catalog over a line that loses requests and answers: no batch is lost or doubled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from harness.lossy import WAYS, LossyGlue, lossy_glue
from harness.oracle import differences_from_expected
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    import pyarrow as pa
    from harness.aws import ProjectOnAws

    Ran = tuple[ProjectOnAws, LossyGlue, list[subprocess.CompletedProcess[str]]]

pytestmark = [pytest.mark.aws, only_in_soak]

TABLES = ("seat_type", "sport_team")
RUNS = 12
"""More than it takes: each run brings every table some commits further."""


@pytest.fixture(scope="module")
def ran(aws: str, project: ProjectOnAws) -> Iterator[Ran]:
    """Two tables after as many runs as it took to end one without an error."""
    project.declare(TABLES)
    settings = project.path / "conf/aws/spark.yml"
    with lossy_glue(aws) as line, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_MAX_ATTEMPTS", "2")  # clients give up sooner
        text = settings.read_text(encoding="utf-8")
        key = "spark.sql.catalog.lake.glue.endpoint: "
        settings.write_text(text.replace(f"{key}${{globals:endpoint}}", key + line.address), encoding="utf-8")
        runs = []
        while not runs or (runs[-1].returncode and len(runs) < RUNS):
            runs.append(project.kedro("run", "--env=aws"))
        yield project, line, runs


def found(project: ProjectOnAws, namespace: str, table: str) -> pa.Table:
    stored = project.opened().catalog.find(TableName(namespace, table))
    assert stored is not None
    return stored.scan().to_arrow()


def test_what_was_lost_is_told_as_unknown_and_a_later_run_ends_well(ran: Ran) -> None:
    _, line, runs = ran
    print(len(runs), "runs;", dict(line.met))  # noqa: T201
    assert set(line.met) == {"nothing lost", *WAYS}
    assert runs[-1].returncode == 0, runs[-1].stderr[-3000:]
    failures = [
        text for run in runs for text in run.stderr.splitlines() if " ERROR " in text and " failed: " in text
    ]
    assert failures
    assert [text for text in failures if "COMMIT_UNKNOWN" not in text] == []


@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_the_database_after_its_last_change(ran: Ran, table: str) -> None:
    project, _, _ = ran
    assert differences_from_expected(table, found(project, "dms_sample", table)) == (0, 0)


def test_every_batch_is_there_once(ran: Ran) -> None:
    project, _, _ = ran
    batches = found(project, "ops", "batches").to_pylist()
    met = Counter((row["table"], row["stage"], row["batch"]) for row in batches)
    stages = ("ingestion", "current", "history")
    assert met == Counter((f"dms_sample.{table}", stage, 1) for table in TABLES for stage in stages)
