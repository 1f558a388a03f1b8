"""``kedro run --env=cluster`` as a user types it: executors are processes apart from the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml
from harness.oracle import DMS_TABLES, differences_from_expected
from harness.project import DATA, ROOT
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from harness.cluster import Cluster

pytestmark = pytest.mark.cluster
TABLES = ("person", "player", "sport_location", "ticket_purchase_hist")
"""Large and small ones of the bundled task; each way that an event takes is the same for all of them."""
MIDST = 4
"""After so many tasks of a worker the first batches are being written; a whole run gives it eight to ten."""


@dataclass(frozen=True)
class ProjectOnCluster:
    """A copy of the repository's configuration, with the bundled DMS task."""

    path: Path
    cluster: Cluster

    @classmethod
    def make(cls, path: Path, cluster: Cluster) -> ProjectOnCluster:
        """Copy the configuration and the landed files of some tables."""
        shutil.copytree(ROOT / "conf", path / "conf", ignore=shutil.ignore_patterns("local"))
        (path / "conf/local").mkdir()
        (path / "src").mkdir()
        shutil.copy(ROOT / "pyproject.toml", path / "pyproject.toml")
        (path / ".cache").symlink_to(ROOT / ".cache")
        shutil.copytree(DATA / "01_raw/dms_sample", path / "data/01_raw/dms_sample")
        made = cls(path, cluster)
        others = {f"dms_sample.{table}": None for table in DMS_TABLES if table not in TABLES}
        made.write("tables", {"sp500.constituents": None} | others)
        made.write("expectations", {"dms_sample": None})
        made.write("spark", {"spark.sql.shuffle.partitions": "2"})  # the files are small
        return made

    def write(self, name: str, content: dict[str, object]) -> None:
        """Write these keys into a file of the environment."""
        path = self.path / f"conf/cluster/{name}.yml"
        held = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(yaml.safe_dump(held | content), encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start ``kedro ...`` in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "kedro", *words],
            cwd=self.path, env=os.environ | {"SPARK_MASTER": self.cluster.url},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def kedro(self, *words: str) -> str:
        """Run ``kedro ...``, which must succeed; what it printed."""
        started = self.start(*words)
        printed, _ = started.communicate(timeout=600)
        assert started.returncode == 0, printed[-5000:]
        return printed

    def run(self, *options: str) -> str:
        """Run the pipelines that make tables."""
        return self.kedro("run", "--env=cluster", "--pipelines=ingestion,cdc_merge,scd2", *options)

    def read(self, table: str) -> pa.Table:
        """A table as pyiceberg reads it."""
        found = self._opened().catalog.find(TableName.parse(table))
        assert found is not None, table
        return found.scan().to_arrow()

    def _opened(self) -> Project:
        return Project.load(str(self.path / "conf"), "cluster")


@pytest.fixture(scope="module")
def ran(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ProjectOnCluster:
    """The bundled DMS task, run once."""
    project = ProjectOnCluster.make(tmp_path_factory.mktemp("ran") / "project", cluster)
    project.run()
    return project


@only_in_soak
@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_the_database_after_its_last_change(ran: ProjectOnCluster, table: str) -> None:
    assert differences_from_expected(table, ran.read(f"dms_sample.{table}")) == (0, 0)


@only_in_soak
def test_both_workers_had_executors_whose_lines_name_the_run(ran: ProjectOnCluster) -> None:
    executors = {file.parents[2].name for file in ran.cluster.folder.glob("worker-*/app-*/*/stderr")}
    assert executors == {"worker-1", "worker-2"}
    run = json.loads(ran.kedro("lakehouse", "runs", "--env", "cluster", "--json"))[0]
    lines = [line for line in ran.cluster.executor_lines() if " Executor: " in line and "task" in line]
    assert lines
    assert any(f"[{run['run_id']}]" in line for line in lines), lines[:5]


@only_in_soak
def test_a_second_run_starts_no_application(ran: ProjectOnCluster) -> None:
    before = sorted(ran.cluster.folder.glob("worker-*/app-*"))
    ran.run()
    assert sorted(ran.cluster.folder.glob("worker-*/app-*")) == before


def tasks_of(cluster: Cluster, worker: int, known: set[Path]) -> int:
    """How many tasks a worker has begun in applications that are not among the known ones."""
    apps = set(cluster.folder.glob(f"worker-{worker}/app-*")) - known
    logs = [file.read_text(errors="replace") for app in apps for file in app.glob("*/stderr")]
    return sum(log.count("Running task") for log in logs)


def test_a_worker_that_dies_in_a_commit_costs_no_row(cluster: Cluster, tmp_path: Path) -> None:
    """Runs last: the worker is lost to the tests after it."""
    project = ProjectOnCluster.make(tmp_path / "project", cluster)
    known = set(cluster.folder.glob("worker-*/app-*"))
    running = project.start("run", "--env=cluster", "--pipelines=ingestion,cdc_merge,scd2")
    end = time.monotonic() + 120
    # Which of the two gets the first tasks is chance.
    while not (busy := [worker for worker in (1, 2) if tasks_of(cluster, worker, known) >= MIDST]):
        assert time.monotonic() < end
        assert running.poll() is None
        time.sleep(0.05)
    cluster.kill_worker(busy[0])
    printed, _ = running.communicate(timeout=600)
    assert running.returncode == 0, printed[-5000:]
    for table in TABLES:
        assert differences_from_expected(table, project.read(f"dms_sample.{table}")) == (0, 0), table
