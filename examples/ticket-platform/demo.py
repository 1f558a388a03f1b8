"""Two databases, MongoDB and an API become one model, which is served: one command, ended by Ctrl-C.

``make demo-sources``; once that has run, also ``.venv/bin/python examples/ticket-platform/demo.py``. The
servers, the tables and a copy of this project are in one temporary folder, which is deleted at the end. With
``--check`` a booking is cancelled, pulled again and asked for, and everything is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = Path(sys.executable).parent
POPULAR: Final = (
    "select title, kind, bookings, seats from summary.title_popularity order by seats desc, title limit 5"
)
CANCEL: Final = "UPDATE booking SET status = 'cancelled' WHERE screening_id % 9 = 8;"
"""All bookings of The City Derby: title 9 is what screenings 8, 17, 26 ... show."""
MEMBERS: Final = 80
CLICKS: Final = (48, 25)
"""How many files of clicks the web site lands, and how many clicks each holds."""
LIFETIMES: Final = (
    "select 'the last two years' as which, count(*) as clicks from tickets.click"
    " union all select 'older', count(*) from tickets.click_archive"
    " union all select 'all', count(*) from tickets.click_all"
)
_POSTGRES: Final = "/usr/lib/postgresql"
_PATIENCE: Final = 60.0
_PACKAGES: Final = {
    "adbc_driver_postgresql": "sql", "pymysql": "sql", "httpx2": "rest", "pymongo": "mongodb",
    "fastapi": "service", "secantus": "sources-tests",
}  # fmt: skip


def missing() -> list[str]:
    """What the demo needs and is not there, each with the command that installs it."""
    found = []
    if extras := sorted({extra for module, extra in _PACKAGES.items() if find_spec(module) is None}):
        named = ",".join(extras)
        found.append(
            f"extras: make demo-sources installs them, or pip install 'kedro-lakehouse[{named}]' ({named})"
        )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        found.append("Java 17: apt-get install openjdk-17-jre-headless")
    if shutil.which("initdb") is None:
        found.append("PostgreSQL: apt-get install postgresql (its programs are looked for on PATH, too)")
    if shutil.which("mariadbd") is None:
        found.append("MariaDB: apt-get install mariadb-server (its programs are looked for on PATH, too)")
    return found


def find_servers() -> None:
    """Put Debian's places of the databases' programs on PATH."""
    places = [*(str(place) for place in sorted(Path(_POSTGRES).glob("*/bin"))), "/usr/sbin"]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *places])


def members() -> list[dict[str, Any]]:
    """The members, made from their numbers."""
    return [
        {"_id": n, "name": f"Member {n}", "email": f"member{n}@example.com", "home_city": n % 5 + 1}
        for n in range(1, MEMBERS + 1)
    ]


def seat_plans() -> list[dict[str, Any]]:
    """The seats of each theatre, by section."""
    names = ("stalls", "circle", "balcony")
    return [
        {"_id": n, "sections": [{"name": name, "rows": 4 + n, "per_row": 12} for name in names[: n % 3 + 1]]}
        for n in range(1, 9)
    ]


def is_old(file: int) -> bool:
    """Whether the clicks of a file are more than two years old."""
    return file % 3 == 0


def clicks(file: int) -> list[dict[str, Any]]:
    """The clicks of a file, made from their numbers and the present time."""
    begin = datetime.now(UTC) - timedelta(days=1000 if is_old(file) else 30)
    return [
        {"at": (begin + timedelta(minutes=n * 7)).isoformat(), "title_id": n % 9 + 1, "city_id": n % 5 + 1}
        for n in range(file * CLICKS[1], (file + 1) * CLICKS[1])
    ]


class Demo:
    """The four systems, the project over them and its service, in the order in which they were started."""

    def __init__(self, folder: Path, started: ExitStack) -> None:
        """Take the folder of all files, and the stack that ends what was started."""
        self.folder, self._started = folder, started
        self.project, self.logs = folder / "project", folder / "logs"
        self.tokens = {role: secrets.token_urlsafe(32) for role in ("analyst", "marketing")}

    def start(self) -> None:
        """Start and fill the four systems, say of each its port and its log, and write the project."""
        from harness.databases import MariaDb, Postgres
        from harness.processes import free_port

        self.logs.mkdir()
        password, token = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.mariadb: MariaDb = self._server("MariaDB: bookings", MariaDb(self.folder / "mariadb"))
        self.mariadb.script((HERE / "bookings.sql").read_text(encoding="utf-8"))
        self.mariadb.script(
            f"CREATE USER 'puller'@'127.0.0.1' IDENTIFIED BY '{password}';"
            "GRANT SELECT ON bookings.* TO 'puller'@'127.0.0.1';"
            "GRANT PROCESS ON *.* TO 'puller'@'127.0.0.1';"
        )
        self.postgres: Postgres = self._server("PostgreSQL: payments", Postgres(self.folder / "postgres"))
        self.postgres.script((HERE / "payments.sql").read_text(encoding="utf-8"))
        self.postgres.script(
            f"CREATE ROLE puller LOGIN PASSWORD '{password}'; GRANT pg_read_all_stats TO puller;"
            "\\connect payments\nGRANT SELECT ON ALL TABLES IN SCHEMA public TO puller;"
        )
        mongodb, api = free_port(), free_port()
        self._process(
            "MongoDB: people", mongodb,
            str(PROGRAMS / "secantusd-py"), "--port", str(mongodb),
            "--storage-path", str(self.folder / "mongodb"),
        )  # fmt: skip
        self.people = f"mongodb://127.0.0.1:{mongodb}"
        self._fill_mongodb()
        words = [sys.executable, str(HERE / "searches_api.py"), str(api)]
        self._process("REST: searches", api, *words, SEARCHES_TOKEN=token)
        ports = {"bookings": self.mariadb.port, "payments": self.postgres.port}
        self._write_project(ports, {"password": password, "token": token, "api": api})
        self._land_clicks()

    def _fill_mongodb(self) -> None:
        from pymongo import MongoClient

        with MongoClient[dict[str, Any]](self.people) as client:
            client["people"]["members"].insert_many(members())
            client["people"]["seats"].insert_many(seat_plans())

    def _write_project(self, ports: dict[str, int], own: dict[str, Any]) -> None:
        """Copy the project, and write what differs on this machine into its ``conf/local``."""
        from kedro_lakehouse.service.tokens import hash_of_token

        ignored = shutil.ignore_patterns("data", "local", "*.py", "__pycache__")
        shutil.copytree(HERE, self.project, ignore=ignored)
        sources = {
            name: {"connection": {"host": "127.0.0.1", "port": port, "database": name}}
            for name, port in ports.items()
        }
        puller = {"user": "puller", "password": own["password"]}
        written = {
            "sources": sources | {"searches": {"base_url": f"http://127.0.0.1:{own['api']}/v1"}},
            "credentials": {
                "bookings": puller, "payments": puller,
                "people": {"uri": self.people}, "searches": {"token": own["token"]},
                "service_tokens": {role: hash_of_token(token) for role, token in self.tokens.items()},
            },
            # The repository is not around the copy.
            "globals": {
                "lakehouse": str(self.project / "data/lakehouse"),
                "landing": str(self.project / "data/01_raw"),
                "archive": str(self.project / "data/archive"),
                "cache": str(ROOT / ".cache"), "conf": str(ROOT / "conf"),
            },
        }  # fmt: skip
        (self.project / "conf/local").mkdir()
        for name, content in written.items():
            # JSON is YAML, too.
            (self.project / f"conf/local/{name}.yml").write_text(json.dumps(content), encoding="utf-8")

    def _land_clicks(self) -> None:
        landed = self.project / "data/01_raw/clicks/click"
        landed.mkdir(parents=True)
        for number in range(CLICKS[0]):
            lines = "".join(json.dumps(click) + "\n" for click in clicks(number))
            (landed / f"{number:03}.jsonl").write_text(lines, encoding="utf-8")

    def kedro(self, *words: str) -> str:
        """Run a command of Kedro in the project; print it, and return what it prints.

        Raises:
            SystemExit: It failed.
        """
        print(f"\n$ kedro {' '.join(words)}", flush=True)
        command = [str(PROGRAMS / "kedro"), *words]
        done = subprocess.run(command, cwd=self.project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{done.stderr[-5000:]}")
        print(done.stdout.rstrip(), flush=True)
        return done.stdout

    def run(self) -> None:
        """Pull what is new, and make the tables."""
        self.kedro("run", "--pipelines=ingestion,cdc_merge")

    def keep(self) -> tuple[str, str]:
        """Move old clicks, and merge the landed files; what that and one query over all clicks print."""
        done = self.kedro("lakehouse", "maintain", "tickets.click")
        return done, self.kedro("lakehouse", "sql", LIFETIMES)

    def serve(self) -> None:
        """Start the service."""
        from harness.processes import free_port

        self.port = free_port()
        words = [str(PROGRAMS / "kedro"), "lakehouse", "serve", "--port", str(self.port)]
        self._process("the service", self.port, *words)

    def ask(self, query: str, role: str = "analyst") -> str:
        """Ask the service as a role; the rows in csv.

        Raises:
            SystemExit: The service refused it.
        """
        state = json.loads(self.http(role, "/v1/queries", {"query": query, "format": "csv"}))
        end = time.monotonic() + _PATIENCE
        while state["state"] == "running" and time.monotonic() < end:
            time.sleep(0.1)
            state = json.loads(self.http(role, f"/v1/queries/{state['id']}"))
        if state["state"] != "done":
            raise SystemExit(f"The query did not end well: {state}")
        return self.http(role, state["result"])

    def http(self, role: str, path: str, body: dict[str, Any] | None = None) -> str:
        """What the service answers a role; a body is posted.

        Raises:
            SystemExit: It refused.
        """
        headers = {"Authorization": f"Bearer {self.tokens[role]}", "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)) as connection:
            if body is None:
                connection.request("GET", path, headers=headers)
            else:
                connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status >= 400:  # noqa: PLR2004 - HTTP's own
            raise SystemExit(f"{path}: {answer.status} {text}")
        return text

    def _server(self, what: str, server: Any) -> Any:
        self._started.callback(server.stop)
        _say(what, server.port, server.log)
        return server

    def _process(self, what: str, port: int, *words: str, **environment: str) -> None:
        from harness.processes import wait_for

        path = self.logs / f"{what.rsplit(maxsplit=1)[-1]}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                words, cwd=self.project if self.project.exists() else self.folder,
                stdout=log, stderr=log, env=os.environ | environment, start_new_session=True,
            )  # fmt: skip
        self._started.callback(_end, process)
        wait_for(port, process, path)
        _say(what, port, path)


def _say(what: str, port: int, log: Path) -> None:
    print(f"{what:<24} port {port:<8} {log}", flush=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check(demo: Demo) -> int:
    """Cancel all bookings of a title, pull them, and see that the service no longer tells of it."""
    demo.mariadb.script(f"USE bookings; {CANCEL}")
    time.sleep(2.1)  # a window ends a second before the oldest transaction
    demo.run()
    left = demo.ask("select count(*) as derbies from summary.title_popularity where title = 'City Derby'")
    print(f"After {CANCEL}\n{left}", flush=True)
    return 0 if left.split() == ['"derbies"', "0"] else 1


def show(demo: Demo) -> None:
    """Ask a question, and say how to ask more."""
    print(f"\nAsked over HTTP, as analyst: {POPULAR}\n")
    print(demo.ask(POPULAR))
    print("As marketing, whose view of members is masked: select id, name, home_city from tickets.member")
    print(demo.ask("select id, name, home_city from tickets.member order by id limit 2", "marketing"))
    print("In another shell:\n")
    print(f"  TOKEN={demo.tokens['analyst']}")
    print(f'  curl -H "Authorization: Bearer $TOKEN" 127.0.0.1:{demo.port}/v1/datasets')
    print("\nChange something, pull it, and look:\n")
    print(f"  mariadb -S {demo.mariadb.folder}/my.sock -u root bookings")
    print(f"  {CANCEL}")
    print(f"  cd {demo.project}; {PROGRAMS}/kedro run --pipelines=ingestion,cdc_merge")
    print(f'  {PROGRAMS}/kedro lakehouse sql "from summary.title_popularity"\n')


def main() -> int:
    """Run the demo until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="cancel bookings, see that, and end")
    asked = parser.parse_args()
    find_servers()
    if lacking := missing():
        print("The demo needs more than is there:\n- " + "\n- ".join(lacking))
        return 1
    sys.path.insert(0, str(ROOT / "tests"))  # the tests start the same servers
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-demo-") as place, ExitStack() as started:
        demo = Demo(Path(place), started)
        try:
            demo.start()
            demo.run()
            demo.kedro("lakehouse", "tables")
            demo.keep()
            demo.serve()
            show(demo)
            if asked.check:
                return check(demo)
            print("Ctrl-C ends everything and deletes what it wrote.", flush=True)
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            print("\nEnding.", flush=True)
            return 0


if __name__ == "__main__":
    sys.exit(main())
