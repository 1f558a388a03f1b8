"""How fast a pull reads and lands from databases, an API and MongoDB beside other readers, and its memory.

Usage: ``.venv/bin/python bench/sources.py [--rows 1000000] [--repeats 5] [--records 100000]
[--only postgresql mariadb jdbc rest mongodb] [--no-peers] [--no-runs] [--peers adbc connectorx ...]``.

Each reader has a process of its own. A pull of ours is what ``kedro lakehouse pull`` does: it asks the
catalog, reads, lands a file, computes its hash and seals it. The others write a parquet file
(plain_sources.py), each with its packages in an environment that ``uv run`` makes and forgets; where one
fails, the table gives the reason. What a published table takes is the whole command ``kedro run``, which also
starts Spark, ingests the pull and writes the table; its memory is that of Python, without Java. ``jdbc`` is
PostgreSQL by its JDBC driver: its time includes the start of the Spark that reads.
``--rows 10000000 --repeats 1 --no-peers --no-runs`` shows the memory.

Databases and packages as for ``make test-sources``. Exits 1 where a reader of ours has not all rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "bench")]

from plain_sources import READERS, peak  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.project import TemporaryProject

UV: Final = str(Path(sys.executable).with_name("uv"))
COLUMNS: Final = {
    "postgresql": """CREATE TABLE bench (id bigint PRIMARY KEY, ref int, price numeric(12,2), ratio float8,
        open boolean, day date, at timestamp, code varchar(12), name text, note text, data json);
        INSERT INTO bench SELECT n, n % 1000, n / 7.0, n / 3.0::float8, n % 2 = 0,
        date '2020-01-01' + n % 2000, timestamp '2020-01-01' + n * interval '1 second',
        'c' || n % 100000, 'name of ' || n,
        CASE WHEN n % 3 > 0 THEN 'a note that is some forty characters long' END,
        json_build_object('n', n, 'half', n / 2.0) FROM generate_series(1, {rows}) AS n;
        VACUUM ANALYZE bench; CHECKPOINT;""",
    "mariadb": """CREATE TABLE bench (id bigint PRIMARY KEY, ref int, price decimal(12,2), ratio double,
        open boolean, day date, at datetime(6), code varchar(12), name text, note text, data json);
        INSERT INTO bench SELECT seq, seq % 1000, seq / 7.0, seq / 3e0, seq % 2 = 0,
        date '2020-01-01' + interval seq % 2000 day, timestamp '2020-01-01 00:00:00' + interval seq second,
        concat('c', seq % 100000), concat('name of ', seq),
        if(seq % 3 > 0, 'a note that is some forty characters long', NULL),
        json_object('n', seq, 'half', seq / 2.0) FROM seq_1_to_{rows};
        FLUSH TABLES bench FOR EXPORT; UNLOCK TABLES;""",
}  # fmt: skip
"""The tables: eleven columns of as many kinds. They are on the disk before the first reader comes."""
BY_DRIVER: Final = """CREATE VIEW by_driver AS SELECT id, ref, price, ratio, open, day, at, code, name, note,
    data::text AS data FROM bench;"""
"""The same columns, without the type that is no type of JDBC."""
NEEDS: Final = {
    "arrow-odbc": ("arrow-odbc==10.6.0", "pyarrow"),
    "connectorx": ("connectorx==0.4.6", "pyarrow"),
    "duckdb": (
        "duckdb==1.5.5", "duckdb-extension-postgres-scanner==1.5.5", "duckdb-extension-mysql-scanner==1.5.5",
    ),
    "dlt": ("dlt[sql-database]==1.31.0", "pyarrow", "psycopg2-binary", "pymysql"),
    "dlt_rest": ("dlt==1.31.0",),
}  # fmt: skip
"""What peers need that the project's environment does not have."""
PEERS: Final = {
    "postgresql": ("adbc", "connectorx", "duckdb", "spark", "dlt"),
    "mariadb": ("pymysql", "connectorx", "duckdb", "spark", "dlt"),
    "jdbc": (),
    "rest": ("dlt_rest",),
    "mongodb": ("pymongo",),
}
IMPORTED: Final = (
    "adbc_driver_postgresql.dbapi", "fsspec.implementations.local", "httpx2", "msgspec", "pyarrow.compute",
    "pyarrow.parquet", "pymongo", "pymysql",
)  # fmt: skip
"""What a pull imports when it needs it."""
OURS: Final = "ours"
PUBLISHED: Final = "ours, to a published table"
PAGE: Final = 1_000
_PATIENCE: Final = 3_600
_PAUSE: Final = 2.0
"""So many seconds between two readers: what the one before has started ends."""


@dataclass(frozen=True)
class Place:
    """A source that is filled: what it is, where it listens, its declaration, and how many rows it has."""

    kind: str
    port: int
    declared: dict[str, Any]
    credentials: dict[str, Any]
    entity: str
    rows: int


def databases(folder: Path, rows: int, only: Sequence[str], running: ExitStack) -> list[Place]:
    """The databases, each with its table."""
    from harness.databases import MariaDb, Postgres
    from harness.jdbc import by_jdbc
    from harness.pulled import CREDENTIALS, Shop

    found = []
    for kind, made in (("postgresql", Postgres), ("mariadb", MariaDb)):
        by_driver = kind == "postgresql" and "jdbc" in only
        if kind not in only and not by_driver:
            continue
        server = made(folder / kind)
        running.callback(server.stop)
        shop = Shop(kind, server)
        shop.let_in()
        shop.script(COLUMNS[kind].format(rows=rows))
        if kind in only:
            found.append(Place(kind, server.port, shop.source(""), CREDENTIALS, "bench", rows))
        if by_driver:
            shop.script(BY_DRIVER)
            source = by_jdbc(shop, "", credentials="jdbc")
            found.append(Place("jdbc", server.port, source, CREDENTIALS, "by_driver", rows))
    return found


def records(count: int) -> list[bytes]:
    """Pages of records, each an answer."""
    pages = []
    for first in range(0, count, PAGE):
        last = min(first + PAGE, count)
        rows = [
            {
                "id": n,
                "name": f"name of {n}",
                "price": f"{n}.10",
                "tags": ["a", "b"],
                "at": "2026-01-01T00:00:00Z",
            }
            for n in range(first, last)
        ]
        pages.append(json.dumps({"items": rows, "next": last if last < count else None}).encode())
    return pages


class _Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    pages: Sequence[bytes] = ()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        after = int(dict(parse_qsl(urlsplit(self.path).query)).get("after", "0"))
        body = self.pages[after // PAGE]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _serve(count: int, port: int) -> None:
    _Api.pages = records(count)
    ThreadingHTTPServer(("127.0.0.1", port), _Api).serve_forever()


def api(count: int, running: ExitStack) -> Place:
    """An API of records in a process of its own, as an API is."""
    from harness.processes import free_port

    port = free_port()
    process = get_context("spawn").Process(target=_serve, args=(count, port), daemon=True)
    process.start()
    running.callback(process.join)
    running.callback(process.terminate)
    _until_open(port)
    declared = {
        "type": "rest", "base_url": f"http://127.0.0.1:{port}/v1", "records": "items",
        "paging": {"type": "cursor", "next": "next", "parameter": "after"}, "path": "",
    }  # fmt: skip
    return Place("rest", port, declared, {}, "records", count)


def mongodb(folder: Path, count: int, running: ExitStack) -> Place:
    """A server of MongoDB's protocol in a process of its own, with documents."""
    from harness.mongodb import client_of, documents
    from harness.processes import free_port

    port = free_port()
    words = [str(Path(sys.executable).with_name("secantusd-py")), "--port", str(port)]
    with (folder / "mongodb.log").open("ab") as log:
        server = subprocess.Popen([*words, "--storage-path", str(folder / "mongodb")], stdout=log, stderr=log)
    running.callback(server.wait)
    running.callback(server.terminate)
    _until_open(port)
    uri = f"mongodb://127.0.0.1:{port}"
    with client_of(uri) as client:
        made = documents(count)
        for first in range(0, count, PAGE):
            client["bench"]["documents"].insert_many(made[first : first + PAGE])
    declared = {
        "type": "mongodb",
        "database": "bench",
        "path": "",
        "credentials": "mongodb",
    }
    return Place("mongodb", port, declared, {"uri": uri}, "documents", count)


def _until_open(port: int) -> None:
    import socket

    end = time.monotonic() + 120
    while time.monotonic() < end:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"Nothing listens on {port}.")


def pull(folder: str, name: str) -> dict[str, float]:
    """Pull a table of a project; what it took, without imports. Runs in a process of its own."""
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.ingestion.pulling import pull_now
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

    for imported in IMPORTED:  # the others import theirs before their time begins, too
        import_module(imported)
    bootstrap_project(Path(folder))
    table = Project.load(f"{folder}/conf", None).bind(TableName.parse(name))
    begun = time.perf_counter()
    (manifest,) = pull_now(table).values()
    return {"rows": manifest.rows, "seconds": time.perf_counter() - begun, "peak": peak()}


def project_of(folder: Path, place: Place) -> TemporaryProject:
    """A project that pulls a source."""
    from harness.project import TemporaryProject

    declared = place.declared | {"path": str(folder / "landing")}
    table = {f"bench.{place.entity}": {"source": place.kind, "write": "replace"}}
    project = TemporaryProject.make(folder, {place.kind: declared}, table, as_shipped=True)
    project.write("credentials", {place.kind: place.credentials}, env="local")
    return project


def ours(folder: Path, place: Place) -> dict[str, float]:
    """Pull a source by a project of its own."""
    project_of(folder, place)
    command = [sys.executable, __file__, "--pull", str(folder), f"bench.{place.entity}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def published(folder: Path, place: Place) -> dict[str, float]:
    """Pull a source and publish its table, by one command."""
    project = project_of(folder, place)
    command = [str(Path(sys.executable).with_name("kedro")), "run", "--pipelines=ingestion,cdc_merge"]
    log, begun = folder / "run.txt", time.perf_counter()
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise SystemExit(log.read_text()[-3000:])
    state = project.state(f"bench.{place.entity}")
    return {"rows": state.rows if state else 0, "seconds": seconds, "peak": used.ru_maxrss / 1024}


def python_with(packages: Sequence[str]) -> list[str]:
    """A command: Python in an environment with these packages, which ``uv`` makes and forgets."""
    with_ = [word for package in packages for word in ("--with", package)]
    return [UV, "run", "--no-project", "--python", sys.executable, *with_, "python"]


def peer(file: Path, place: Place, reader: str) -> dict[str, float] | str:
    """Read a source by another reader; or why it could not."""
    words = [str(ROOT / "bench/plain_sources.py"), reader, place.kind, str(place.port), str(file)]
    command = [sys.executable, *words]
    if reader in NEEDS:
        command = [*python_with(NEEDS[reader]), *words]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        env=environment,
        cwd=file.parent,
    )
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        return f"could not be had: {said[-1][:200] if said else done.returncode}"
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(folder: Path, place: Place, readers: Sequence[str], repeats: int) -> bool:
    """Print a row of the table for each reader; whether ours had all rows.

    The readers take turns, so that what changes in the machine meanwhile meets all of them.
    """
    found: dict[str, list[dict[str, float]]] = {reader: [] for reader in readers}
    failed: dict[str, str] = {}
    for number in range(repeats):
        for reader in readers:
            if reader in failed:
                continue
            one = read(folder / f"{place.kind}-{reader}-{number}", place, reader)
            if isinstance(one, str):
                failed[reader] = one
            else:
                found[reader].append(one)
    whole = True
    for reader, runs in found.items():
        if reader in failed:
            print(f"| {place.kind} | {reader} | {failed[reader]} | | |", flush=True)
            continue
        seconds = statistics.median(one["seconds"] for one in runs)
        most = max(one["peak"] for one in runs)
        rows = {int(one["rows"]) for one in runs}
        has_all = rows == {place.rows}
        lacking = "" if has_all else f"read {sorted(rows)} of {place.rows} rows"
        whole &= has_all or reader not in (OURS, PUBLISHED)
        rate = place.rows / seconds / 1_000
        print(f"| {place.kind} | {reader} | {rate:.0f} | {seconds:.2f} | {most:.0f} | {lacking}", flush=True)
    return whole


def read(own: Path, place: Place, reader: str) -> dict[str, float] | str:
    """Read a source once, in a folder or file of its own, after what the one before wrote is on the disk."""
    os.sync()
    time.sleep(_PAUSE)
    if reader == PUBLISHED:
        return published(own, place)
    return ours(own, place) if reader == OURS else peer(own, place, reader)


def main() -> int:
    """Fill the sources, and read each by each reader."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table in each database")
    parser.add_argument("--records", type=int, default=100_000, help="of the API, and documents of MongoDB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--peers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-runs", action="store_true", help="leave out runs to a published table")
    parser.add_argument("--pull", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pull:
        print(json.dumps(pull(*given.pull)))
        return 0
    names = ("kedro-lakehouse", "adbc-driver-postgresql", "pymysql", "httpx2", "msgspec", "pymongo")
    print(", ".join(f"{name} {version(name)}" for name in names), f"load {os.getloadavg()[0]:.1f}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who ends it ends its servers, too
    whole = True
    # Databases run as users of their own, who must reach their folders.
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-bench-") as made, ExitStack() as running:
        folder = Path(made)
        places = databases(folder, given.rows, given.only, running)
        if "rest" in given.only:
            places.append(api(given.records, running))
        if "mongodb" in given.only:
            places.append(mongodb(folder, given.records, running))
        print("| source | reader | k rows/s | seconds | peak MB |\n| --- | --- | --- | --- | --- |")
        for place in places:
            readers = [OURS] if given.no_runs else [OURS, PUBLISHED]
            if not given.no_peers:
                readers += [peer for peer in PEERS[place.kind] if peer in given.peers]
            whole &= measured(folder, place, readers, given.repeats)
        print(f"load {os.getloadavg()[0]:.1f}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
