"""A Spark standalone cluster on this machine: a master and workers, each a process, and their executors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from harness.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
_PATIENCE = 60


def _until(reached: Any, what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not reached():
        assert time.monotonic() < end, f"{what} within {_PATIENCE} s"
        time.sleep(0.1)


@dataclass
class Cluster:
    """A running cluster; ``folder`` holds what its processes log."""

    folder: Path
    url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self, *, memory: str = "3g") -> None:
        """Start a worker of one core and wait until the master has it."""
        number = len(self.workers) + 1
        words = [
            "--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", memory,
            "--work-dir", str(self.folder / f"worker-{number}"), self.url,
        ]  # fmt: skip
        log = self.folder / f"worker-{number}.log"
        self.workers.append(_started("worker.Worker", words, log, self.environment))
        _until(lambda: "Successfully registered" in log.read_text(), f"worker {number} registers")

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors at once, as if its machine lost power."""
        worker = self.workers[number - 1]
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def executor_lines(self) -> list[str]:
        """What all executors logged so far."""
        files = sorted(self.folder.glob("worker-*/app-*/*/stderr"))
        return [line for file in files for line in file.read_text(errors="replace").splitlines()]


def _started(
    program: str, words: list[str], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start one of Spark's daemons, in a group of its own."""
    command = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{program}", *words]
    env = os.environ | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST} | environment
    with log.open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, env=env, start_new_session=True)


@contextlib.contextmanager
def standalone(
    folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A master and workers of one core each, while the block runs.

    Args:
        folder: Where the processes log, and the executors work.
        workers: How many workers.
        environment: What the processes of the cluster have in their environment beside this one's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "master.log"
    words = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
    master = _started("master.Master", words, log, environment or {})
    cluster = Cluster(folder, f"spark://{HOST}:{port}", environment or {})
    try:
        _until(lambda: "New state: ALIVE" in log.read_text(), "the master starts")
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
