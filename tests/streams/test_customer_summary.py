"""The example customer-summary: three tables of MariaDB through Debezium and Kafka, summarised by keys.

The oracle is MariaDB: it computes the whole summary after each transaction.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import duckdb
import pytest
import yaml

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.kafka import Connect
from harness.project import FORMAT, ROOT, TemporaryProject
from harness.soak import soaking

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.databases import MariaDb
    from harness.kafka import Broker

pytestmark = pytest.mark.streams

EXAMPLE: Final = ROOT / "examples/customer-summary"
PARTS, TRANSACTIONS = (5, 40) if soaking() else (1, 2)
SUMMARY: Final = "salesdb.customer_summary"
COPIES: Final = () if FORMAT == "hudi" else ("delta",)
"""In which formats the summary is kept too; with `KEDRO_LAKEHOUSE_FORMAT=hudi` (Spark 3.5) all is in Hudi."""
WHOLE: Final = """
    SELECT CAST(c.CUST_ID AS SIGNED), c.NAME, count(o.ORDER_ID) FROM CUSTOMER c
    JOIN CUSTOMER_SITE cs ON c.CUST_ID = cs.CUST_ID JOIN SALES_ORDER_ALL o ON cs.SITE_ID = o.SITE_ID
    GROUP BY c.CUST_ID, c.NAME
"""
ROWS: Final = {"CUSTOMER": 20, "CUSTOMER_SITE": 40, "SALES_ORDER_ALL": 200}
Summary = dict[int, tuple[str, int]]


@dataclass
class Sales:
    """The database ``salesdb``, a connector that follows it, and the example's project."""

    database: MariaDb
    broker: Broker
    project: TemporaryProject
    random: random.Random = field(default_factory=lambda: random.Random(17))  # noqa: S311 - the same each time
    sent: dict[str, int] = field(default_factory=lambda: dict(ROWS))
    """How many records each topic must have."""
    newest: int = 1_000

    def change(self, *statements: tuple[str, str]) -> None:
        """Run statements, each on one table, as a transaction; wait until their records are in the topics.

        The server counts the rows that a statement changed: each is one record, for tombstones are off.
        """
        text = " ".join(f"{sql}; SELECT row_count();" for _, sql in statements)
        counts = self.database.script(f"USE salesdb; START TRANSACTION; {text} COMMIT;")
        for (table, _), count in zip(statements, counts, strict=True):
            self.sent[table] += int(count)
        self.wait()

    def wait(self) -> None:
        """Wait until the topics have what the database sent."""
        for table, records in self.sent.items():
            self.broker.wait_for_records(f"maria.salesdb.{table}", records)

    def run(self) -> None:
        """Run the example, all of it."""
        self.project.run()

    def whole(self) -> Summary:
        """The summary as the database computes it."""
        rows = (line.split("\t") for line in self.database.script(f"USE salesdb; {WHOLE};"))
        return {int(key): (name, int(count)) for key, name, count in rows}

    def held(self, table: str = SUMMARY) -> Summary:
        """The rows of a stored summary, each of whose keys is there once."""
        rows = self.project.rows(table)
        found = {r["customer_id"]: (r["name"], r["order_count"]) for r in rows}
        assert len(found) == len(rows)
        return found

    def copied(self) -> Summary:
        """The rows of the copy in parquet."""
        path = self.project.path / "data/08_reporting/customer_summary.parquet"
        found = duckdb.sql(f"SELECT customer_id, name, order_count FROM '{path}'").fetchall()
        return {key: (name, count) for key, name, count in found}

    def assert_whole(self, what: object) -> None:
        """See that every target is what the database says."""
        wanted = self.whole()
        assert wanted, what
        for table in (SUMMARY, *(f"{SUMMARY}_{copy}" for copy in COPIES)):
            assert self.held(table) == wanted, (what, table)
        assert self.copied() == wanted, what

    def step(self) -> tuple[str, str]:
        """A random statement, and the table that it changes."""
        pick = self.random
        customer, site = pick.randint(1, 24), pick.randint(1, 44)
        order = pick.choice([pick.randint(1, 200), self.newest])
        self.newest += 1
        new = self.newest
        moved = pick.choice(["NULL", str(customer)])
        return pick.choice(
            [
                ("CUSTOMER", f"UPDATE CUSTOMER SET NAME = 'name {new}' WHERE CUST_ID = {customer}"),
                ("CUSTOMER", f"DELETE FROM CUSTOMER WHERE CUST_ID = {customer}"),
                ("CUSTOMER", f"INSERT IGNORE INTO CUSTOMER VALUES ({customer}, 'new {new}', 'east')"),
                ("CUSTOMER_SITE", f"UPDATE CUSTOMER_SITE SET CUST_ID = {moved} WHERE SITE_ID = {site}"),
                ("CUSTOMER_SITE", f"DELETE FROM CUSTOMER_SITE WHERE SITE_ID = {site}"),
                ("CUSTOMER_SITE", f"INSERT IGNORE INTO CUSTOMER_SITE VALUES ({site}, {customer}, 'new')"),
                ("SALES_ORDER_ALL", f"INSERT INTO SALES_ORDER_ALL VALUES ({new}, {site}, '2026-05-01')"),
                ("SALES_ORDER_ALL", f"UPDATE SALES_ORDER_ALL SET SITE_ID = {site} WHERE ORDER_ID = {order}"),
                ("SALES_ORDER_ALL", f"DELETE FROM SALES_ORDER_ALL WHERE ORDER_ID = {order}"),
            ]
        )


@pytest.fixture(scope="module")
def sales(broker: Broker, mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sales]:
    """The example over a database whose snapshot is in its topics, with the summary in further formats."""
    folder: Path = tmp_path_factory.mktemp("sales")
    mariadb.script((EXAMPLE / "database.sql").read_text(encoding="utf-8"))
    project = TemporaryProject.of_example("customer-summary", folder / "project")
    declared = yaml.safe_load((EXAMPLE / "conf/base/tables.yml").read_text(encoding="utf-8"))
    project.set_globals(reports=str(project.path / "data/08_reporting"))
    copies = {f"{SUMMARY}_{name}": declared[SUMMARY] | {"format": name} for name in COPIES}
    project.write("tables", copies, env="local")
    project.write("sources", {"salesdb": {"bootstrap_servers": broker.address}}, env="local")
    connect = Connect(
        folder / "connect", broker, mariadb,
        database_include_list="salesdb", value_converter_schemas_enable="true", tombstones_on_delete="false",
        topic_creation_default_partitions="1",
    )  # fmt: skip
    try:
        made = Sales(mariadb, broker, project)
        made.wait()
        yield made
    finally:
        connect.stop()
        mariadb.script("DROP DATABASE salesdb")


def test_the_summary_follows_an_update_and_a_delete(sales: Sales) -> None:
    sales.run()
    sales.assert_whole("the snapshot")
    before = sales.whole()
    assert {7, 11} <= before.keys()
    sales.change(
        ("CUSTOMER", "UPDATE CUSTOMER SET NAME = 'updated_name' WHERE CUST_ID = 7"),
        ("CUSTOMER", "DELETE FROM CUSTOMER WHERE CUST_ID = 11"),
    )
    sales.run()
    sales.assert_whole("the update and the delete")
    expected = {key: row for key, row in before.items() if key != 11}
    expected[7] = ("updated_name", before[7][1])
    assert sales.held() == expected
    touched = {r["customer_id"] for r in sales.project.rows(f"{SUMMARY}_changes") if r["_batch"] == 2}
    assert touched == {7, 11}


@pytest.mark.parametrize("part", range(PARTS))
def test_it_equals_the_databases_whole_after_each_random_transaction(
    sales: Sales, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    sales.random.seed(part)
    sales.run()
    seen, changed = sales.whole(), 0
    for number in range(TRANSACTIONS):
        steps = [sales.step() for _ in range(sales.random.randint(1, 6))]
        sales.change(*steps)
        caplog.clear()
        with caplog.at_level("INFO", "kedro_lakehouse.ingestion.derived"):
            sales.run()
        assert not [r for r in caplog.records if "computed whole" in r.getMessage()], caplog.text
        sales.assert_whole((number, steps))
        changed += sales.whole() != seen
        seen = sales.whole()
    assert changed >= TRANSACTIONS / 4  # the later parts find few customers left


def test_two_engines_find_the_ten_with_most_orders(sales: Sales) -> None:
    query = "SELECT * FROM {} ORDER BY order_count DESC, customer_id LIMIT 10"
    name = sales.project.format_of(SUMMARY).sql(TableName.parse(SUMMARY))
    by_spark = [r.asDict() for r in sales.project._project.session.sql(query.format(name)).collect()]
    held = sales.project.arrow(SUMMARY)  # as pyiceberg reads it, where the table is in Iceberg
    by_duckdb = duckdb.sql(query.format("held")).to_arrow_table().to_pylist()
    assert len(by_spark) == min(10, held.num_rows)
    names = ("customer_id", "name", "order_count")
    assert [[r[n] for n in names] for r in by_spark] == [[r[n] for n in names] for r in by_duckdb]
