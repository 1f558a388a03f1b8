"""What a thousand cycles of the loop leave behind: memory, threads, open files, files of tables, read time.

A part of streams.py: ``--cycles 1000``. One topic gets twenty messages five times a second, and the loop has
one small batch after the other. Between two cycles a table is maintained. While a file named
``pause`` lies in ``--folder`` nothing is sent, and the loop idles; one named ``stop`` ends the cycles early.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from harness.kafka import running_broker
from lake import ROOT, BenchProject, load

from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEM: Final = TableName("shop", "item")
STORED: Final = (ITEM, ITEM.with_suffix("history"), ITEM.with_suffix("changes"))
ROWS, KEYS = 20, 5_000
"""Rows at once, and keys."""
TURNS, WARM = 40, 10
"""How often each table is read, and how many of these readings warm Spark up and do not count."""
PATIENCE, PAUSE, AT_REST = 120.0, 0.2, 100.0
"""Seconds: until the last rows are published, between two sendings, until the tables were found at rest."""
FIRST_SHOWN, SHOWN = 10, 100


@dataclass(frozen=True)
class Usage:
    """What a process and those that it started use."""

    python_mb: float
    jvm_mb: float
    others_mb: float
    threads: int
    jvm_threads: int
    files: int
    jvm_files: int


def usage(pid: int) -> Usage:
    """What the loop uses: its own process, its JVM, and the others together."""
    found = {"own": [pid], "jvm": [], "others": []}
    for child in _below(pid):
        name = Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
        found["jvm" if name == "java" else "others"].append(child)

    def megabytes(pids: list[int]) -> float:
        pages = sum(int(Path(f"/proc/{p}/statm").read_text(encoding="utf-8").split()[1]) for p in pids)
        return pages * 4096 / 1e6

    def counted(pids: list[int], what: str) -> int:
        return sum(len(list(Path(f"/proc/{p}/{what}").iterdir())) for p in pids)

    own, jvm, others = found["own"], found["jvm"], found["others"]
    return Usage(
        python_mb=megabytes(own), jvm_mb=megabytes(jvm), others_mb=megabytes(others),
        threads=counted(own, "task"), jvm_threads=counted(jvm, "task"),
        files=counted(own, "fd"), jvm_files=counted(jvm, "fd"),
    )  # fmt: skip


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield int(child)
            yield from _below(int(child))


class Cycles:
    """A topic, the loop that follows it in a process of its own, and the table that it makes."""

    def __init__(self, folder: Path, broker: Any, table: dict[str, Any], maintain: str) -> None:
        """Declare the table and start the loop."""
        self.folder, self.number, self.ended = folder, 0, 0.0
        broker.make_topic("item", 2)
        source = {"type": "kafka", "bootstrap_servers": broker.address, "decoder": "json"}
        self.bench = BenchProject(folder).write({"shop": source}, {str(ITEM): table})
        self.producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 1})
        words = [ROOT / ".venv/bin/kedro", "lakehouse", "stream", "--every", "1 s", "--maintain", maintain]
        with (folder / "loop.txt").open("wb") as log:
            self.loop = subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def run(self, cycles: int) -> None:
        """Send rows until there were so many cycles, print what the loop uses, and wait for the last rows."""
        project = Project.load(str(self.folder / "conf"), None)
        print(
            "| cycles | seconds a cycle | Python, MB | JVM, MB | others, MB | threads | files open | files |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        since, at, due, idle = time.perf_counter(), 0, FIRST_SHOWN, 0.0
        while (batch := self._batch(project)) < cycles and not (self.folder.parent / "stop").exists():
            if batch >= due:
                self._show(batch, (time.perf_counter() - since - idle) / (batch - at))
                since, at, due, idle = time.perf_counter(), batch, (batch // SHOWN + 1) * SHOWN, 0.0
            begun = time.perf_counter()
            while (self.folder.parent / "pause").exists():
                time.sleep(0.5)
            idle += time.perf_counter() - begun
            self._send()
            time.sleep(PAUSE)
        self._show(batch, (time.perf_counter() - since - idle) / max(batch - at, 1))
        patience = time.perf_counter() + PATIENCE
        while not self._is_published(project):
            if time.perf_counter() > patience:
                raise SystemExit(self._log())
            time.sleep(PAUSE)
        self.ended = time.perf_counter()

    def _batch(self, project: Project) -> int:
        """The number of the last batch; each cycle has one."""
        if self.loop.poll() is not None:
            raise SystemExit(self._log())
        log = project.bind(ITEM).state("changes")
        return log.batch if log else 0

    def _log(self) -> str:
        return (self.folder / "loop.txt").read_text(encoding="utf-8")[-3000:]

    def _send(self) -> None:
        for _ in range(ROWS):
            row = {"id": self.number * 7919 % KEYS, "at": self.number, "n": self.number, "pad": "x" * 100}
            self.producer.produce("item", json.dumps(row), partition=self.number % 2)
            self.number += 1
        self.producer.flush()

    def _is_published(self, project: Project) -> bool:
        """Whether current and history have the batch with the last row that was sent."""
        log, table = project.bind(ITEM).state("changes"), project.bind(ITEM)
        if log is None or log.rows < self.number:
            return False
        states = [table.state(kind) for kind in table.targets]
        return all(state is not None and state.batch == log.batch for state in states)

    def _show(self, done: int, seconds: float) -> None:
        used = usage(self.loop.pid)
        files = " + ".join(str(self._files(stored)) for stored in STORED)
        print(
            f"| {done:,} | {seconds:.2f} | {used.python_mb:.0f} | {used.jvm_mb:.0f} "
            f"| {used.others_mb:.0f} | {used.threads} + {used.jvm_threads} | {used.files} + {used.jvm_files} "
            f"| {files} |",
            flush=True,
        )

    def _files(self, stored: TableName) -> int:
        """The files below a stored table, data and metadata."""
        root = self.folder / "lakehouse/warehouse" / stored.namespace / stored.table
        return sum(1 for file in root.rglob("*") if file.is_file())

    def stop(self) -> None:
        """End the loop after the batch in hand."""
        self.loop.terminate()
        self.loop.wait(60)

    def rest(self) -> None:
        """Wait until the loop has found the tables at rest, a minute after their last rows."""
        time.sleep(max(0.0, self.ended + AT_REST - time.perf_counter()))

    def read_times(self, copies: str) -> dict[str, tuple[float, float]]:
        """How long each table takes to read, and a copy of it that was just written."""
        project, found = self.bench.open(), {}
        lake = project.format_of(ITEM)
        for stored in STORED[:2]:
            rows = lake.read(stored)
            print(f"{stored}: {_files_read(project, stored)}")
            fresh = TableName("shop", f"{stored.table}_{copies}")
            lake.create(fresh, {f.name: f.dataType for f in rows.schema.fields}, Layout())
            with lake.stage(fresh, lake.state(fresh)) as stage:
                stage.append(rows.coalesce(1))
                stage.publish(lake.state(stored).bookmark)
            timed: dict[TableName, list[float]] = {stored: [], fresh: []}
            for turn in range(TURNS):
                for one in (stored, fresh) if turn % 2 else (fresh, stored):
                    begun = time.perf_counter()
                    lake.read(one).selectExpr("count(*)", "sum(n)", "sum(hash(pad, id, at))").collect()
                    timed[one].append(time.perf_counter() - begun)
            middle = {name: statistics.median(seconds[WARM:]) for name, seconds in timed.items()}
            found[str(stored)] = middle[stored], middle[fresh]
        project.session.stop()
        return found


def _files_read(project: Project, stored: TableName) -> str:
    """How many files a reader of the table opens."""
    table = project.catalog.find(stored)
    tasks, manifests = list(table.scan().plan_files()), table.current_snapshot().manifests(table.io)
    deletes = {delete.file_path for task in tasks for delete in task.delete_files}
    return f"{len(manifests)} manifests, {len(tasks)} data files, {len(deletes)} files of deletes"


def run_cycles(folder: Path, table: dict[str, Any], cycles: int, maintain: str) -> list[str]:
    """Run the loop for so many cycles, and print what it uses and how the tables read.

    Returns:
        What is wrong: rows that are lost or doubled.
    """
    with running_broker(folder / "broker") as broker:
        made = Cycles(folder, broker, table, maintain)
        try:
            made.run(cycles)
            times = {"after the last cycle": made.read_times("fresh")}
            made.rest()
            times["at rest"] = made.read_times("fresh_at_rest")
        finally:
            made.stop()
        wrong = []
    project = Project.load(str(folder / "conf"), None)
    for stored, expected in zip(STORED, (min(made.number, KEYS), made.number, made.number), strict=True):
        if (rows := project.catalog.rows(stored)) != expected:
            wrong.append(f"{stored}: {rows:,} rows, not {expected:,}")
    for when, found in times.items():
        for stored, (seconds, fresh) in found.items():
            ratio = seconds / fresh
            print(f"{stored} {when}: read in {seconds:.3f} s, fresh in {fresh:.3f} s, ratio {ratio:.2f}")
    print(f"load {load()}")
    return wrong
