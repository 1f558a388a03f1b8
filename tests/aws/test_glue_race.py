"""Two Spark writers of one Iceberg table in Glue, whose versions are compared as AWS compares them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from harness.soak import only_in_soak
from harness.versions import versioned_glue

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from harness.aws import ProjectOnAws

pytestmark = pytest.mark.aws

ROWS = 10
_WRITE = """
import sys
from kedro_lakehouse.project import Project

spark = Project.load("conf", "aws").session
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[2])):
    spark.sql(f"INSERT INTO lake.shop.race VALUES ('{sys.argv[1]}', {n})")
"""
_MAKE = """
from kedro_lakehouse.project import Project

spark = Project.load("conf", "aws").session
spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
spark.sql("CREATE TABLE lake.shop.race (writer STRING, n INT)")
spark.sql("ALTER TABLE lake.shop.race SET TBLPROPERTIES ('commit.retry.num-retries' = '50')")
"""


def started(project: ProjectOnAws, text: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, *words],
        cwd=project.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@only_in_soak
def test_each_row_of_two_writers_is_there_once(aws: str, project: ProjectOnAws) -> None:
    settings = project.path / "conf/aws/spark.yml"
    text = settings.read_text(encoding="utf-8")
    key = "spark.sql.catalog.lake.glue.endpoint: "
    with versioned_glue(aws) as line:
        settings.write_text(text.replace(f"{key}${{globals:endpoint}}", key + line.address), encoding="utf-8")
        made = started(project, _MAKE)
        told = made.communicate(timeout=300)[1]
        assert made.returncode == 0, told[-3000:]
        writers = [started(project, _WRITE, name, str(ROWS)) for name in ("a", "b")]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        line.let_two_meet()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        ended = [(writer.communicate(timeout=600)[1], writer.returncode) for writer in writers]
        assert [error[-3000:] for error, code in ended if code] == []
        stored = project.opened().catalog.find(TableName("shop", "race"))
        assert stored is not None
        found = stored.scan().to_arrow().to_pylist()
        print(dict(line.met))  # noqa: T201
    assert sorted((row["writer"], row["n"]) for row in found) == [(w, n) for w in "ab" for n in range(ROWS)]
    assert line.met["refused"] > 0
    assert line.met["unversioned"] == 0
