"""A database, Kafka, Debezium, the loop and the console, started by one command and ended by Ctrl-C.

``make demo-stream``; once that has run, also ``.venv/bin/python examples/stream/demo.py``. Everything that
runs keeps its files in one temporary folder, which is deleted at the end. With ``--check`` one row is
changed, waited for in the table, and everything is ended.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
KEDRO: Final = str(Path(sys.executable).with_name("kedro"))
_POSTGRES: Final = "/usr/lib/postgresql"
_PATIENCE: Final = 180.0
_FIRST_IN_POSTGRES: Final = """
    CREATE TABLE customer (id bigint PRIMARY KEY, name text, city text);
    CREATE TABLE purchase (id bigint PRIMARY KEY, customer_id bigint, amount numeric(10,2), at timestamp);
    ALTER TABLE customer REPLICA IDENTITY FULL;
    ALTER TABLE purchase REPLICA IDENTITY FULL;
    INSERT INTO customer SELECT n, 'customer ' || n, (ARRAY['Bonn', 'Kiel', 'Ulm'])[n % 3 + 1]
        FROM generate_series(1, 30) AS n;
    INSERT INTO purchase SELECT n, n % 30 + 1, n * 1.25, timestamp '2026-01-01' + n * interval '1 hour'
        FROM generate_series(1, 200) AS n;
"""
_FIRST_IN_MARIADB: Final = """
    CREATE DATABASE shop;
    USE shop;
    CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(80), city varchar(80));
    CREATE TABLE purchase (id bigint PRIMARY KEY, customer_id bigint, amount decimal(10,2), at datetime);
    INSERT INTO customer SELECT seq, concat('customer ', seq), elt(seq % 3 + 1, 'Bonn', 'Kiel', 'Ulm')
        FROM seq_1_to_30;
    INSERT INTO purchase
        SELECT seq, seq % 30 + 1, seq * 1.25, timestamp '2026-01-01 00:00:00' + interval seq hour
        FROM seq_1_to_200;
"""
_CHANGE: Final = "UPDATE customer SET city = 'Trier' WHERE id = 1;"


def missing(database: str = "postgres") -> list[str]:
    """What the demo needs and is not there, each with the command that installs it."""
    found = []
    if find_spec("confluent_kafka") is None:
        found.append("the extra kafka: make demo-stream installs it, or pip install 'kedro-lakehouse[kafka]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        found.append("Java 17: apt-get install openjdk-17-jre-headless")
    if database == "postgres" and shutil.which("initdb") is None:
        found.append("PostgreSQL: apt-get install postgresql (its programs are looked for on PATH, too)")
    if database == "mariadb" and shutil.which("mariadbd") is None:
        found.append("MariaDB: apt-get install mariadb-server (its programs are looked for on PATH, too)")
    return found


def find_servers() -> None:
    """Put Debian's places of the databases' programs on PATH."""
    places = [*(str(place) for place in sorted(Path(_POSTGRES).glob("*/bin"))), "/usr/sbin"]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *places])


class Demo:
    """The servers and processes of the demo, in the order in which they were started."""

    def __init__(self, folder: Path, started: ExitStack) -> None:
        """Take the folder of all files, and the stack that ends what was started."""
        self.folder, self._started = folder, started
        self.logs: dict[str, Path] = {}

    def start(self, database: str, *, console: bool) -> None:
        """Start everything, and say of each its port and its log."""
        from harness.databases import MariaDb, Postgres
        from harness.kafka import Broker, Connect
        from harness.processes import free_port

        self.database: Postgres | MariaDb
        if database == "mariadb":
            self.database = self._server("MariaDB", MariaDb(self.folder / "mariadb"))
            self.database.script(_FIRST_IN_MARIADB)
            schema = "shop"
        else:
            self.database = self._server("PostgreSQL", Postgres(self.folder / "postgres"))
            self.database.script(_FIRST_IN_POSTGRES)
            schema = "public"
        broker = self._server("Kafka", Broker(self.folder / "kafka"))
        tables = f"{schema}.customer,{schema}.purchase"
        connect = Connect(
            self.folder / "connect", broker, self.database, topic_prefix="shop", table_include_list=tables
        )
        self._server("Kafka Connect with Debezium", connect)
        os.environ |= {
            "DEMO_KAFKA": broker.address, "DEMO_SCHEMA": schema,
            "DEMO_LAKEHOUSE": str(self.folder / "lakehouse"), "DO_NOT_TRACK": "1",
        }  # fmt: skip
        self._process("the loop", "stream", "--every", "1 s")
        if console:
            port = str(free_port())
            self._process("the console", "console", "--no-browser", "--port", port, port=port)

    def _server(self, what: str, server: Any) -> Any:
        self._started.callback(server.stop)
        self._say(what, str(server.port), server.folder / "server.log")
        return server

    def _process(self, what: str, *words: str, port: str = "") -> None:
        path = self.folder / f"{words[0]}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                [KEDRO, "lakehouse", *words], cwd=HERE, stdout=log, stderr=log, start_new_session=True
            )
        self._started.callback(_end, process)
        self._say(what, port, path)

    def _say(self, what: str, port: str, log: Path) -> None:
        self.logs[what] = log
        print(f"{what:<28} {'port ' + port if port else '':<12} {log}", flush=True)

    def city_sales(self) -> dict[str, tuple[int, str]]:
        """The derived table, as a user reads it; empty while it is not there yet."""
        return {row["city"]: (row["purchases"], str(row["amount"])) for row in self.rows("shop.city_sales")}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table; none while it is not there."""
        import json

        words = [KEDRO, "lakehouse", "sql", f"SELECT * FROM {table}", "--json"]
        asked = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
        found: list[dict[str, Any]] = json.loads(asked.stdout) if asked.returncode == 0 else []
        return found

    def wait_for(self, table: str, **values: Any) -> float:
        """Wait until a table has a row with these values; the seconds that it took."""
        begun = time.monotonic()
        while time.monotonic() - begun < _PATIENCE:
            if any(all(str(row.get(k)) == str(v) for k, v in values.items()) for row in self.rows(table)):
                return time.monotonic() - begun
            time.sleep(0.2)
        end = self.logs["the loop"].read_text(encoding="utf-8", errors="replace")[-3000:]
        raise SystemExit(f"{table} did not get {values} within {_PATIENCE:.0f} s. The loop says:\n{end}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> int:
    """Run the demo until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change a row, wait for it, and end")
    parser.add_argument("--no-console", action="store_true", help="without the pages in a browser")
    databases = ("postgres", "mariadb")
    parser.add_argument("--database", choices=databases, default="postgres", help="which is followed")
    asked = parser.parse_args()
    find_servers()
    if lacking := missing(asked.database):
        print("The demo needs more than is there:\n- " + "\n- ".join(lacking))
        return 1
    console = not asked.no_console and find_spec("streamlit") is not None
    sys.path.insert(0, str(ROOT / "tests"))  # the tests start the same servers
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-demo-") as place, ExitStack() as started:
        demo = Demo(Path(place), started)
        try:
            demo.start(asked.database, console=console)
            took = demo.wait_for("shop.city_sales", city="Kiel")
            print(f"\nAll tables are there after {took:.0f} s. Change something:\n")
            print(f"  {demo.database.shell}")
            print(f"  {_CHANGE}\n")
            print("and look, in another shell:\n")
            names = ("DEMO_KAFKA", "DEMO_SCHEMA", "DEMO_LAKEHOUSE")
            print(f"  cd {HERE}; export {' '.join(f'{name}={os.environ[name]}' for name in names)}")
            print("  ../../.venv/bin/kedro lakehouse sql 'SELECT * FROM shop.city_sales'")
            print(
                "  ../../.venv/bin/kedro lakehouse sql 'SELECT * FROM shop.customer_history WHERE id = 1'\n"
            )
            if asked.check:
                return check(demo)
            print("Ctrl-C ends everything and deletes what it wrote.", flush=True)
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            print("\nEnding.", flush=True)
            return 0


def check(demo: Demo) -> int:
    """Change a row, and wait for it in the table."""
    use = "USE shop; " if os.environ["DEMO_SCHEMA"] == "shop" else ""
    demo.database.script(f"{use}{_CHANGE}")
    print(f"A change was in shop.customer after {demo.wait_for('shop.customer', id=1, city='Trier'):.1f} s,")
    took = demo.wait_for("shop.city_sales", city="Trier")
    print(f"and in shop.city_sales {took:.1f} s later: {demo.city_sales()['Trier']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
