"""Where the time of a Spark run went: its SQL executions and their jobs, read from the event log.

Usage: ``.venv/bin/python bench/spark_jobs.py LOG [--from 12.5] [--to 20]``, where LOG is a file that
``spark.eventLog.enabled`` made, or a folder, of which the newest is taken. Times are seconds since the
log's first job or since ``--from``; a gap is time in which no job ran: planning, metadata, Python.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Job:
    """One Spark job: when it ran, which execution it was for, what its stages did."""

    number: int
    begun: float
    execution: int | None
    about: str
    stages: list[int]
    ended: float = 0.0


@dataclass
class Log:
    """What an event log says, times in seconds since the epoch."""

    jobs: dict[int, Job] = field(default_factory=dict)
    executions: dict[int, tuple[str, float, float]] = field(default_factory=dict)
    stages: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    """When each stage began and ended, and the number of its tasks."""
    metrics: dict[int, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Log:
        """Read a log of one application, rolled or not."""
        log = cls()
        parts = sorted(path.glob("events_*")) if path.is_dir() else [path]
        for part in parts:
            with part.open(encoding="utf-8") as lines:
                for line in lines:
                    log._take(json.loads(line))
        return log

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerJobStart":
            facts = event.get("Properties") or {}
            execution = facts.get("spark.sql.execution.id")
            self.jobs[event["Job ID"]] = Job(
                event["Job ID"], event["Submission Time"] / 1000, int(execution) if execution else None,
                facts.get("spark.job.description") or facts.get("callSite.short", ""), event["Stage IDs"],
            )  # fmt: skip
        elif kind == "SparkListenerJobEnd":
            self.jobs[event["Job ID"]].ended = event["Completion Time"] / 1000
        elif kind == "SparkListenerSQLExecutionStart":
            self.executions[event["executionId"]] = (event["description"], event["time"] / 1000, 0.0)
        elif kind == "SparkListenerSQLExecutionEnd":
            about, begun, _ = self.executions[event["executionId"]]
            self.executions[event["executionId"]] = (about, begun, event["time"] / 1000)
        elif kind == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            begun, ended = info.get("Submission Time", 0), info.get("Completion Time", 0)
            self.stages[info["Stage ID"]] = begun / 1000, ended / 1000, info["Number of Tasks"]
            accumulated = ((str(a.get("Name", "")), str(a.get("Value", ""))) for a in info["Accumulables"])
            self.metrics[info["Stage ID"]] = {
                name.removeprefix("internal.metrics."): int(value)
                for name, value in accumulated
                if name.startswith("internal.metrics.") and value.isdigit()
            }

    def busy_seconds(self, begin: float, end: float) -> float:
        """For how long at least one stage was at work, of those that began between two times."""
        total, until = 0.0, 0.0
        for begun, ended, _ in sorted(s for s in self.stages.values() if begin <= s[0] < end):
            total += max(ended - max(begun, until), 0.0)
            until = max(until, ended)
        return total

    def task_seconds(self, begin: float, end: float) -> float:
        """The time of all tasks together, of stages that began between two times."""
        known = {number for number, stage in self.stages.items() if begin <= stage[0] < end}
        return sum(self.metrics[number].get("executorRunTime", 0) for number in known) / 1000

    def moved(self, job: Job) -> tuple[int, int, int]:
        """Records read, records shuffled, and milliseconds of CPU of a job's stages."""
        found = [self.metrics.get(s, {}) for s in job.stages]
        return (
            sum(m.get("input.recordsRead", 0) for m in found),
            sum(m.get("shuffle.write.recordsWritten", 0) for m in found),
            sum(m.get("executorCpuTime", 0) for m in found) // 1_000_000,
        )


def show(log: Log, begin: float, end: float) -> None:
    """Print executions in their order, each with its jobs, and the time in which no job ran."""
    start = min(e[1] for e in log.executions.values()) + begin
    last = start
    busy, printed = 0.0, 0
    for number, (about, begun, ended) in sorted(log.executions.items(), key=lambda e: e[1][1]):
        if not start <= begun <= start - begin + end:
            continue
        print(f"{begun - start:7.2f} s  +{ended - begun:5.2f}  execution {number}: {about.strip()[:90]}")
        for job in sorted((j for j in log.jobs.values() if j.execution == number), key=lambda j: j.begun):
            read, shuffled, cpu = log.moved(job)
            ran = [log.stages[s] for s in job.stages if s in log.stages]
            gap = job.begun - last
            idle = f", {gap:.2f} s without a job before it" if gap > 0.02 else ""  # noqa: PLR2004 - seconds
            print(
                f"{'':9}  {job.ended - job.begun:6.2f}    job {job.number}: {len(ran)} of {len(job.stages)} "
                f"stages, {sum(tasks for *_, tasks in ran)} tasks, {cpu} ms CPU, {read:,} read, "
                f"{shuffled:,} shuffled{idle}"
            )
            busy += job.ended - max(job.begun, last) if job.ended > last else 0.0
            last, printed = max(last, job.ended), printed + 1
    print(f"{printed} jobs, {busy:.2f} s with a job running, of {last - start:.2f} s")


def main() -> None:
    """Print where the time of a log went."""
    parser = argparse.ArgumentParser(description="Where the time of a Spark run went, by its event log.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--from", dest="begin", type=float, default=0.0)
    parser.add_argument("--to", dest="end", type=float, default=float("inf"))
    options = parser.parse_args()
    path: Path = options.log
    if path.is_dir() and not list(path.glob("events_*")):
        path = max(path.iterdir(), key=lambda p: p.stat().st_mtime)
    show(Log.read(path), options.begin, options.end)


if __name__ == "__main__":
    main()
