"""How long the commands that only look take to start and to answer: `tables`, `runs` and `search`.

Usage: ``.venv/bin/python bench/start.py [--tables 15 200] [--best-of 3] [--imports]``; no JVM is started.

For each number of tables it makes a project in a temporary folder that looks as if it had run ten times:
pyiceberg writes the stored tables of the first one, the others get copies of their metadata, and the package
writes its own tables. Then each command is run as a user does, in a process of its own.
Beside them it times imports alone: those that no command can do without, and those of pyiceberg. With
``--imports`` it also tells which modules take longest to import. Exits 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from lake import ROOT, BenchProject, load

from kedro_lakehouse.column_search.indexing import change_index
from kedro_lakehouse.column_search.lake_index import apply_change, pending_index
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, RUNS
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from kedro_lakehouse.names import Role

GOAL: Final = 1.2
"""Seconds that a command may take on two idle cores."""
ROUNDS: Final = 10
"""How many runs the projects have behind them."""
SOURCES: Final = {"files": {"type": "changes", "path": "${globals:landing}", "op_column": "op"}}
DECLARED: Final[dict[str, Any]] = {"source": "files", "keys": ["id"], "order_by": ["n"], "history": True}
STAGES: Final[dict[Role, str]] = {"changes": "ingestion", "current": "current", "history": "history"}
BEGUN: Final = dt.datetime(2026, 6, 1, 6, tzinfo=dt.UTC)
ROWS: Final = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "full_name": [f"name {number}" for number in range(100)],
        "email": [f"name{number}@example.com" for number in range(100)],
        "city": [f"city {number % 7}" for number in range(100)],
        "amount": pa.array([number / 7 for number in range(100)]),
        "_order": pa.array([{"n": number} for number in range(100)], pa.struct({"n": pa.int64()})),
    }
)
COMMANDS: Final = (("tables",), ("runs",), ("search", "mail"))
FLOORS: Final = {
    "Python": "",
    "Kedro's command line": "import kedro.framework.cli.cli",
    "Kedro's configuration": "import kedro.framework.cli.cli, kedro.config, kedro.framework.startup",
    "pyiceberg's SQL catalog and metadata": "import pyiceberg.catalog.sql, pyiceberg.table",
    "the same with Arrow and its reader": "import pyiceberg.catalog.sql, pyiceberg.io.pyarrow",
}
_IMPORT_TIME: Final = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")


def made_project(folder: Path, count: int) -> None:
    """Make a project of so many tables that has run."""
    names = [f"crm.t{number:03}" for number in range(count)]
    BenchProject(folder).write(SOURCES, dict.fromkeys(names, DECLARED))
    parameters = ROOT / "conf/base/parameters_column_index.yml"
    (folder / "conf/base" / parameters.name).write_bytes(parameters.read_bytes())
    os.chdir(folder)
    project = activate(Project.load(str(folder / "conf"), None))
    project.catalog.ensure_namespace("crm")
    with closing(sqlite3.connect(project.catalog.place)) as catalog:
        catalog.execute("PRAGMA journal_mode=WAL")  # as Spark leaves it
    tables = [TableName.parse(name) for name in names]
    for role in STAGES:
        first = first_table(project, tables[0], role)
        for name in tables[1:]:
            copied_table(project, first, name, role)
    for number in range(ROUNDS):
        record_run(project, names, number)
    apply_change(project, change_index(pending_index(project)))


def report_of(table: str, role: Role, number: int) -> CommitReport:
    """What the commit of one run did to a stored table."""
    return CommitReport(
        table=table,
        stage=STAGES[role],
        batch=number + 1,
        batches=1,
        content_hash=f"{number:064x}",
        run_id=run_id(number),
        committed_at=(BEGUN + dt.timedelta(days=number)).isoformat(timespec="milliseconds"),
        correlation_id=run_id(number),
        counts={"inserted": 100, "updated": 0, "deleted": 0, "late": 0, "stale_ignored": 0},
    )


def run_id(number: int) -> str:
    """The name of a run."""
    return f"{BEGUN + dt.timedelta(days=number):%Y%m%dT%H%M%S}_{number:08x}"


def first_table(project: Project, name: TableName, role: Role) -> Table:
    """Write a stored table, with a snapshot for each of its last commits."""
    made = project.catalog.catalog.create_table(name.with_suffix(role).identifier, schema=ROWS.schema)
    made.append(ROWS)
    for number in range(ROUNDS - 2, ROUNDS):
        with made.transaction() as transaction:
            transaction.overwrite(ROWS)
            transaction.set_properties({BOOKMARK: report_of(str(name), role, number).to_property()})
    return made


def copied_table(project: Project, first: Table, name: TableName, role: Role) -> None:
    """Give another table the same metadata in a file of its own; the data files are those of the first."""
    stored = name.with_suffix(role)
    metadata = json.loads(Path(first.metadata_location.removeprefix("file://")).read_text(encoding="utf-8"))
    place = f"{project.lakehouse}/warehouse/crm/{stored.table}"
    report = report_of(str(name), role, ROUNDS - 1)
    metadata |= {"table-uuid": str(uuid.uuid4()), "location": f"file://{place}"}
    metadata["properties"][BOOKMARK] = report.to_property()
    file = Path(place, "metadata", f"00003-{uuid.uuid4()}.metadata.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(metadata), encoding="utf-8")
    project.catalog.catalog.register_table(stored.identifier, f"file://{file}")


def record_run(project: Project, names: list[str], number: int) -> None:
    """Write what a run leaves in the project's own tables."""
    at = BEGUN + dt.timedelta(days=number)
    run = {
        "run_id": run_id(number), "correlation_id": run_id(number), "pipeline": "__default__", "env": "local",
        "status": "succeeded", "started_at": at, "ended_at": at + dt.timedelta(seconds=90),
        "tables": names, "failed": [], "recovered": [],
    }  # fmt: skip
    planned = [
        {
            "table": name, "batch": number + 1, "content_hash": f"{number:064x}", "run_id": run_id(number),
            "files": [{"path": f"{name}/{number}.parquet", "size": 4096, "modified": 0}],
            "refused": [], "waiting": [], "planned_at": at, "epoch": 0, "follows": "", "guards": "",
        }
        for name in names
    ]  # fmt: skip
    commits = [report_of(name, role, number).row(number) for name in names for role in STAGES]
    for table, rows in ((BATCH_LEDGER, planned), (BATCHES, commits), (RUNS, [run])):
        project.ops.append(table, rows)


def timed(command: list[str], folder: Path, best_of: int) -> tuple[float, float]:
    """The least seconds that a command took, by the clock and of a processor."""
    measured = []
    for _ in range(best_of):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        measured.append((seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
    return min(wall for wall, _ in measured), min(processor for _, processor in measured)


def slow_imports(command: list[str], folder: Path, count: int = 25) -> Iterator[str]:
    """The modules that take longest to import, without what they import themselves."""
    words = [sys.executable, "-X", "importtime", *command]
    shown = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stderr
    own: dict[str, int] = {}
    for seconds, _, _, module in _IMPORT_TIME.findall(shown):
        package = ".".join(module.split(".")[:2])
        own[package] = own.get(package, 0) + int(seconds)
    yield f"{sum(own.values()) / 1000:7.0f} ms in all"
    for package in sorted(own, key=own.__getitem__, reverse=True)[:count]:
        yield f"{own[package] / 1000:7.1f} ms {package}"


def main() -> int:
    """Print the seconds of each command, and of what it cannot do without."""
    parser = argparse.ArgumentParser(description="Time the commands that only look at a project.")
    parser.add_argument("--tables", type=int, nargs="+", default=[15, 200], help="how many tables")
    parser.add_argument("--best-of", type=int, default=3, help="how often each command runs")
    parser.add_argument("--imports", action="store_true", help="tell what takes longest to import")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="a folder for the projects, which stay")
    chosen = parser.parse_args()
    kedro = str(Path(sys.executable).with_name("kedro"))
    missed = False
    with tempfile.TemporaryDirectory() as temporary:
        print("| what | tables | seconds | of a processor | load |\n| --- | --- | --- | --- | --- |")
        for what, code in FLOORS.items():
            wall, processor = timed([sys.executable, "-c", code], ROOT, chosen.best_of)
            print(f"| {what} | | {wall:.2f} | {processor:.2f} | {load()} |", flush=True)
        for count in chosen.tables:
            folder = (chosen.keep or Path(temporary)).resolve() / f"tables{count}"
            if not (folder / "made").exists():
                made_project(folder, count)
                (folder / "made").touch()
            for words in COMMANDS:
                command = [kedro, "lakehouse", *words]
                wall, processor = timed(command, folder, chosen.best_of)
                missed |= wall > GOAL
                print(f"| {words[0]} | {count} | {wall:.2f} | {processor:.2f} | {load()} |", flush=True)
                if chosen.imports:
                    print(*slow_imports(command, folder), sep="\n")
    packages = ("kedro", "pyiceberg", "pydantic", "pyarrow", "SQLAlchemy")
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
