"""Sales from a topic and a stream of Kinesis take the country's code from a table of MariaDB that changes.

The loop runs as a user starts it, and the reference changes beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.aws import moto_aws
from harness.kafka import Connect
from harness.project import FORMAT, TemporaryProject, environment
from harness.sales import DATES, KEPT, REFERENCE, SALES, corrected, sales
from harness.soak import soaking

from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.databases import MariaDb
    from harness.kafka import Broker

pytestmark = pytest.mark.streams

TABLES: dict[str, Any] = {
    "ref.tgt_country_lookup_table": {
        "source": "ref", "entity": "country_lookup_table", "keys": ["countryname"],
    },
    "sales.joined": SALES,
    "sales.joined_kinesis": SALES | {"source": "stream"},
    "sales.follows": SALES | {"reenrich": True},
}  # fmt: skip
IS_HUDI = FORMAT == "hudi"
"""With `KEDRO_LAKEHOUSE_FORMAT=hudi` on Spark 3.5 all tables are in Hudi."""
if soaking() and not IS_HUDI:
    TABLES["sales.joined_delta"] = SALES | {"format": "delta"}
SOLD = tuple(table for table in TABLES if table.startswith("sales."))
MARIA = "maria.mydev.country_lookup_table"
PATIENCE = 150


def messages(rows: Iterator[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"key": row["uuid"], "value": json.dumps(row)} for row in rows]


@dataclass
class Shop:
    """Where sales and countries come from, and the loop that follows them."""

    broker: Broker
    mariadb: MariaDb
    kinesis: Any
    project: TemporaryProject

    def sell(self, *rows: dict[str, str]) -> None:
        """Send the same records to the topic and to the stream of Kinesis."""
        self.broker.send("generate-data", messages(iter(rows)))
        records = [{"Data": json.dumps(row).encode(), "PartitionKey": row["uuid"]} for row in rows]
        assert self.kinesis.put_records(StreamName="generate-data", Records=records)["FailedRecordCount"] == 0

    def start_loop(self) -> subprocess.Popen[bytes]:
        """Start the loop as a user does."""
        kedro = str(Path(sys.executable).with_name("kedro"))
        with (self.project.path / "loop.log").open("ab") as log:
            return subprocess.Popen(
                [kedro, "lakehouse", "stream", "--every", "1 s"],
                cwd=self.project.path, stdout=log, stderr=log, env=environment(),
            )  # fmt: skip

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < end, self.said
            time.sleep(1)

    @property
    def said(self) -> str:
        """The last words of the loop."""
        return (self.project.path / "loop.log").read_text(encoding="utf-8")[-3000:]

    def waiting(self) -> dict[str, int]:
        """How many records of each table are in no batch yet."""
        told = self.project.command("lakehouse", "tables", "--waiting", "--json")
        return {one["table"]: one["waiting"]["records"] for one in json.loads(told.stdout)}

    def names(self) -> set[str]:
        """What the reference table has."""
        return {row["combinedname"] for row in self.stored("ref.tgt_country_lookup_table")}

    def stored(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table; none while it is being made."""
        try:
            return self.project.rows(table)
        except (AssertionError, ValueError):
            return []


@pytest.fixture(scope="module")
def project(
    broker: Broker, mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TemporaryProject]:
    """What the loop made of 60 sales, a change of the reference, and 74 records more."""
    folder = tmp_path_factory.mktemp("reference")
    mariadb.script("""
        CREATE DATABASE mydev; USE mydev;
        CREATE TABLE country_lookup_table(
            code VARCHAR(5), countryname VARCHAR(40) NOT NULL, combinedname VARCHAR(40) NOT NULL);
    """)
    values = ", ".join(f"('{code}', '{name}', '{code}-{name}')" for code, name in REFERENCE)
    mariadb.script(f"INSERT INTO mydev.country_lookup_table VALUES {values}")
    kafka = {"type": "kafka", "bootstrap_servers": broker.address}
    rows = {"decoder": "json", "max_records": 50, "records": DATES}
    sources = {
        "sales": kafka | rows | {"topic": "{entity}"},
        "stream": rows | {"type": "kinesis", "stream": "{entity}"},
        "ref": kafka | {"topic": "maria.mydev.{entity}"},
    }
    broker.make_topic("generate-data", 2)
    made = TemporaryProject.make(folder / "project", sources, TABLES)
    connect = Connect(
        folder / "connect", broker, mariadb,
        database_include_list="mydev", value_converter_schemas_enable="true",
    )  # fmt: skip
    try:
        with moto_aws():
            kinesis = boto3.client("kinesis")
            kinesis.create_stream(StreamName="generate-data", ShardCount=2)
            # Opened once: whoever waits for rows asks for them often.
            made._last = Project.load(str(made.path / "conf"), None)
            follow(Shop(broker, mariadb, kinesis, made))
            yield made
    finally:
        connect.stop()
        mariadb.script("DROP DATABASE mydev")


def follow(shop: Shop) -> None:
    """Sell, change the reference while the loop runs, and sell again; a soak kills the loop then."""
    shop.broker.wait_for_records(MARIA, len(REFERENCE))
    shop.sell(*sales(0, 60))
    loop = shop.start_loop()
    try:
        shop.wait_until(lambda: all(len(shop.stored(table)) == 60 for table in SOLD))
        update = "UPDATE country_lookup_table SET combinedname = 'CN-CHN-China' WHERE code = 'CN'"
        shop.mariadb.script(f"USE mydev; {update}")
        shop.wait_until(lambda: "CN-CHN-China" in shop.names())
        shop.sell(*corrected(1), *sales(60, 60), *sales(0, 12))
        if soaking():
            shop.wait_until(lambda: any(len(shop.stored(table)) > 60 for table in SOLD))
            loop.kill()
            loop.wait()
            loop = shop.start_loop()
        shop.wait_until(lambda: all(len(shop.stored(table)) == 120 for table in SOLD))
        shop.wait_until(lambda: not any(shop.waiting().values()))
        loop.terminate()
        assert loop.wait(PATIENCE) == 0, shop.said
    finally:
        loop.kill()
        loop.wait()


def by_uuid(project: TemporaryProject, table: str) -> dict[str, dict[str, Any]]:
    return {row["uuid"]: row for row in project.rows(table)}


@pytest.mark.parametrize("table", [table for table in SOLD if table != "sales.follows"])
def test_rows_after_a_change_have_the_new_value_and_rows_before_keep_the_old(
    project: TemporaryProject, table: str
) -> None:
    rows = by_uuid(project, table)
    assert set(next(iter(rows.values()))) - {"_order"} == KEPT
    assert len(rows) == 120, "none is lost, none is doubled"
    found = Counter((int(u[1:]) < 60, r["combinedname"]) for u, r in rows.items() if u != "u1")
    assert found == {
        (True, "IN-India"): 10, (False, "IN-India"): 10, (True, "CN-China"): 9, (False, "CN-CHN-China"): 10,
        (True, None): 40, (False, None): 40,
    }  # fmt: skip


def test_dates_are_compared_as_dates(project: TemporaryProject) -> None:
    row = by_uuid(project, "sales.joined")["u1"]
    assert (row["orderdate"], row["itemtype"]) == (date(2012, 12, 29), "newer")


def test_old_rows_follow_where_that_is_declared(project: TemporaryProject) -> None:
    rows = by_uuid(project, "sales.follows")
    assert {r["combinedname"] for u, r in rows.items() if int(u[1:]) % 6 == 1} == {"CN-CHN-China"}
    assert len(rows) == 120


def test_batches_are_bounded_and_wrong_texts_are_kept_as_they_are(project: TemporaryProject) -> None:
    for table in ("sales.joined", "sales.joined_kinesis"):
        taken = Counter(row["_batch"] for row in project.rows(f"{table}_changes"))
        assert max(taken.values()) <= 50
        assert taken.total() == 60 + 2 + 60, "what was sent again is there once"
    row = by_uuid(project, "sales.joined")["u7"]
    assert (row["impressiontime"], row["region"]) == ("2022-13-24T02:27:41Z", "AsiaEurope")
    assert not project.rows("sales.joined_quarantine")


def test_the_published_query_answers(project: TemporaryProject) -> None:
    columns = ("shipdate", "unitssold", "impressiontime", "code", "combinedname")
    where = "WHERE combinedname IS NOT NULL LIMIT 10"
    query = f"SELECT {', '.join(columns)} FROM sales.joined {where}"
    engine = ["--engine", "spark"] if IS_HUDI else []
    told = project.command("lakehouse", "sql", query, "--json", *engine)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert len(found) == 10
    assert {tuple(row) for row in found} == {columns}
    assert {row["combinedname"] for row in found} <= {"IN-India", "CN-China", "CN-CHN-China"}


def test_the_console_says_what_waits_when_it_is_asked(
    broker: Broker, project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_test = pytest.importorskip("streamlit.testing.v1", reason="`make test-streams` has the extra console")
    monkeypatch.chdir(project.path)
    broker.send("generate-data", messages(sales(900, 3)))

    def page() -> None:
        from harness.console import linked_pages

        from kedro_lakehouse.console import health
        from kedro_lakehouse.console.lake import opened_project

        opened_project.clear()
        health.show(linked_pages())

    app = app_test.AppTest.from_function(page, default_timeout=60).run()
    assert not app.exception
    app.button(key="streams").click().run()
    assert not app.exception
    waiting = {tuple(row[:2]) for frame in app.dataframe for row in frame.value.to_numpy().tolist()}
    assert {(table, 3) for table in SOLD if table != "sales.joined_kinesis"} <= waiting
