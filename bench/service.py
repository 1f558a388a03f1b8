"""How long the metadata service takes to answer one client and eight, and what memory it holds.

The lake has ``--datasets`` tables of pulled snapshots, ``--snapshots`` in all, one file each. Clients keep
their connections; each asks for the newest snapshot, one by its id, and a page of 100, of one dataset after
the other. ``python bench/service.py --requests 2000``; with more than ``PART`` requests a line is printed
after each so many, and shows whether memory grows.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import pyarrow as pa  # noqa: E402
from harness.catalogs import embedded_conf  # noqa: E402
from harness.served import SNAPSHOT_ID, ServedLake, make_pulled, pulled_id  # noqa: E402

from kedro_lakehouse.config.loading import load_declarations  # noqa: E402
from kedro_lakehouse.config.sources import DmsSourceConfig  # noqa: E402
from kedro_lakehouse.project import Project  # noqa: E402
from kedro_lakehouse.service.tokens import hash_of_token, new_token  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TABLE = "devices.d{}"
PART = 10_000


def opened(folder: Path, datasets: int, token: str) -> ServedLake:
    """The project over a folder."""
    tables = {TABLE.format(n): {"source": "shop", "write": "append"} for n in range(datasets)}
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    project = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(folder), lakehouse=str(folder),
        cache=str(folder), _grants=lambda: {"reader": [{"database": "devices"}]},
        _service=lambda: {"service": {"rate": 1_000_000, "query": {"output": str(folder / "results")}}},
        _credentials=lambda: {"service_tokens": {"reader": hash_of_token(token)}},
    )  # fmt: skip
    return ServedLake(project, folder, {"reader": token})


def fill(lake: ServedLake, datasets: int, snapshots: int) -> None:
    """Append the snapshots of each dataset, fifty to a commit."""
    lake.project.catalog.ensure_namespace("devices")
    each = snapshots // datasets
    for number in range(datasets):
        name = TABLE.format(number)
        make_pulled(lake, name)
        for first in range(1, each + 1, 50):
            numbers = range(first, min(first + 50, each + 1))
            rows = [{"id": n, "site": "s", SNAPSHOT_ID: pulled_id(n)} for n in numbers]
            table = lake.table(name)
            table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))


def serve(folder: str, datasets: int, token: str, port: int, pipe: Connection) -> None:
    """Serve until the other end of the pipe asks."""
    import uvicorn

    from kedro_lakehouse.service.app import made_app
    from kedro_lakehouse.service.server import settings

    app = made_app(opened(Path(folder), datasets, token).project)
    server = uvicorn.Server(settings(app, "127.0.0.1", port))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    pipe.send("started")
    pipe.recv()


def memory_mb(pid: int | None) -> float:
    """The memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def client(port: int, token: str, paths: list[str], requests: int, taken: list[float]) -> None:
    """Ask again and again; the seconds of each answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(requests):
        begun = time.perf_counter()
        connection.request("GET", paths[number % len(paths)], headers={"Authorization": f"Bearer {token}"})
        found = connection.getresponse()
        found.read()
        taken.append(time.perf_counter() - begun)
        assert found.status == http.HTTPStatus.OK, found.status  # noqa: S101 - a benchmark of refusals measures nothing


def measured(port: int, token: str, paths: list[str], clients: int, requests: int) -> str:
    """The median and the 95th percentile of so many clients, in milliseconds."""
    taken: list[float] = []
    own = [
        threading.Thread(target=client, args=(port, token, paths, requests // clients, taken))
        for _ in range(clients)
    ]
    for one in own:
        one.start()
    for one in own:
        one.join()
    cuts = statistics.quantiles(taken, n=20)
    return f"{clients} client(s): p50 {cuts[9] * 1000:.1f} ms, p95 {cuts[18] * 1000:.1f} ms"


def main() -> None:
    """Make the lake, start the service in a process of its own, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=8)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=2_000)
    given = parser.parse_args()
    token = new_token()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        lake = opened(Path(folder), given.datasets, token)
        begun = time.perf_counter()
        fill(lake, given.datasets, given.snapshots)
        seconds = time.perf_counter() - begun
        print(f"{given.datasets} datasets, {given.snapshots} snapshots, made in {seconds:.0f} s")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        server = context.Process(target=serve, args=(folder, given.datasets, token, port, there))
        server.start()
        here.recv()
        base = [f"/v1/datasets/{TABLE.format(n)}/snapshots" for n in range(given.datasets)]
        paths = [p + more for p in base for more in ("/latest", f"/{pulled_id(1)}", "?limit=100")]
        first: list[float] = []
        client(port, token, base, len(base), first)
        print(f"first answer of a dataset: {statistics.median(first) * 1000:.0f} ms")
        for clients in (1, 8):
            for begun in range(0, given.requests, PART):
                requests = min(PART, given.requests - begun)
                times = measured(port, token, paths, clients, requests)
                memory = f"memory {memory_mb(server.pid):.0f} MB after {begun + requests:,} requests"
                print(f"{times}, {memory}", flush=True)
        here.send("end")
        server.join()


if __name__ == "__main__":
    main()
