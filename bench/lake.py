"""What the benchmarks share: a project, the way back to a table's state, facts of the machine."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project

from kedro_lakehouse.ingestion.load import load_of
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.project import active_project
from kedro_lakehouse.runners import IsolatingThreadRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.project import Project

ROOT = Path(__file__).resolve().parents[1]
os.environ |= {"DO_NOT_TRACK": "1", "KEDRO_DISABLE_TELEMETRY": "1"}


class BenchProject:
    """The repository's settings, with declarations, landing folder and lakehouse of its own."""

    def __init__(self, folder: Path) -> None:
        """Keep where the project is."""
        self.folder = folder
        self.landing = folder / "landing"

    def write(
        self,
        sources: dict[str, Any],
        tables: dict[str, Any],
        spark: dict[str, str] | None = None,
        *,
        conversions: dict[str, Any] | None = None,
    ) -> BenchProject:
        """Write the configuration anew; landing folder and lakehouse stay as they are."""
        conf = self.folder / "conf"
        shutil.rmtree(conf, ignore_errors=True)
        # Suites across tables speak of the bundled ones.
        shutil.copytree(
            ROOT / "conf/base",
            conf / "base",
            ignore=shutil.ignore_patterns("expectations*", "parameters_column_index*"),
        )
        for name in ("logging.yml", "log4j2.properties"):
            shutil.copy(ROOT / "conf" / name, conf / name)
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        for part in (self.folder / "src", self.landing, conf / "local"):
            part.mkdir(parents=True, exist_ok=True)
        places = {
            "lakehouse": str(self.folder / "lakehouse"), "landing": str(self.landing), "conf": str(conf),
            "cache": str(ROOT / ".cache"), "driver_memory": os.environ.get("BENCH_DRIVER_MEMORY", "4g"),
        }  # fmt: skip
        for name, content in (("globals", places), ("sources", sources), ("tables", tables)):
            (conf / f"base/{name}.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        (conf / "base/convert.yml").write_text(yaml.safe_dump(conversions or {}), encoding="utf-8")
        (conf / "local/spark.yml").write_text(yaml.safe_dump(spark or {}), encoding="utf-8")
        return self

    def set_globals(self, **values: Any) -> None:
        """Give these globals other values, and keep the others."""
        file = self.folder / "conf/base/globals.yml"
        settings = yaml.safe_load(file.read_text(encoding="utf-8")) | values
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")

    def run(self, *pipelines: str) -> Project:
        """Run pipelines as ``kedro run`` does; the project with the reports of its commits."""
        bootstrap_project(self.folder)
        with KedroSession.create(project_path=self.folder) as session:
            session.run(pipeline_names=list(pipelines), runner=IsolatingThreadRunner())
        return active_project()

    def open(self) -> Project:
        """The project without a run, its Spark started."""
        bootstrap_project(self.folder)
        with KedroSession.create(project_path=self.folder) as session:
            session.load_context()
        project = active_project()
        bound = [project.bind(name) for name in project.declarations.tables]
        project.find_load = partial(load_of, bound, project.ops)  # as in a run
        project.session  # noqa: B018 - starts Spark
        logging.getLogger("kedro_lakehouse").setLevel(logging.WARNING)
        return project


class State:
    """A table as it stood once, to come back to before every repetition."""

    def __init__(self, project: Project, table: str, snapshot: int, bookmark: str) -> None:
        """Keep the published snapshot and bookmark."""
        self._project, self._name = project, TableName(*table.split("."))
        self.snapshot, self.bookmark = snapshot, bookmark

    @classmethod
    def kept(cls, project: Project, table: str, path: Path) -> State:
        """The state that an earlier run noted in a file; the first time the state as it is."""
        if not path.exists():
            found = project.catalog.find(TableName(*table.split(".")))
            facts = [found.current_snapshot().snapshot_id, found.properties[BOOKMARK]]
            path.write_text(json.dumps(facts), encoding="utf-8")
        return cls(project, table, *json.loads(path.read_text(encoding="utf-8")))

    def restore(self, *, batch: int | None = None) -> None:
        """Roll the table back; its bookmark as it was, or moved to ``batch`` as if that one were applied."""
        name = f"{self._name.namespace}.{self._name.table}"
        self._project.session.sql(f"CALL lake.system.set_current_snapshot('{name}', {self.snapshot})")
        text = self.bookmark
        if batch is not None:
            report = CommitReport.from_property(text)
            assert report is not None  # noqa: S101 - every published table has one
            planned = planned_hashes(self._project, self._name)[batch]
            text = dataclasses.replace(report, batch=batch, content_hash=planned).to_property()
        found = self._project.catalog.find(self._name)
        with found.transaction() as transaction:
            transaction.set_properties({BOOKMARK: text})


def planned_hashes(project: Project, name: TableName) -> dict[int, str]:
    """The content hash of each planned batch of a table, as its ledger has it."""
    rows = project.ops.read(BATCH_LEDGER, of_table=str(name))
    return {row["batch"]: row["content_hash"] for row in rows if row["batch"]}


def event_log(folder: Path) -> dict[str, str]:
    """Settings that make Spark write its event log, which spark_jobs.py reads."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
    }


def data_files(project: Project, table: str, *, batch: int | None = None) -> list[str]:
    """The data files of a table; of a record of changes only those of one batch."""
    import pyiceberg.expressions as built

    found = project.catalog.find(TableName(*table.split(".")))
    wanted: Any = built.AlwaysTrue() if batch is None else built.EqualTo("_batch", batch)
    return [task.file.file_path.removeprefix("file://").removeprefix("file:")
            for task in found.scan(row_filter=wanted).plan_files()]  # fmt: skip


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Add the seconds that the block took to a list."""
    begun = time.perf_counter()
    yield
    into.append(time.perf_counter() - begun)


def load() -> str:
    """The machine's load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _first(path: str, word: str) -> str:
    lines = Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(word)), "unknown")


def print_machine(project: Project, *packages: str) -> None:
    """Print the machine and the versions as a row of docs/performance.md."""
    session: Any = project.session
    java = session._jvm.System.getProperty("java.version")
    iceberg = str(session._jvm.org.apache.iceberg.IcebergBuild.version())
    memory = int(_first("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    print("| machine | cores | memory | Python | Java | Spark | Iceberg | others |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    others = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    print(
        f"| {_first('/proc/cpuinfo', 'model name')} | {os.cpu_count()} | {memory:.0f} GB "
        f"| {platform.python_version()} | {java} | {session.version} | {iceberg} | {others} |"
    )
