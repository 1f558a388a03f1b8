"""Tables of a MariaDB database follow it through Debezium: every type, every kind of change, each ALTER."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.kafka import Connect
from harness.project import TemporaryProject

from kedro_lakehouse.errors import IncompatibleTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result
    from harness.databases import MariaDb
    from harness.kafka import Broker

pytestmark = pytest.mark.streams

PIPELINES: Final = ("ingestion", "cdc_merge", "scd2")
NUMBER, BITS, BYTES = "CAST({0} AS CHAR)", "{0} + 0", "HEX({0})"
TIME, CLOCK = "DATE_FORMAT({0}, '%Y-%m-%d %H:%i:%s.%f')", "TRIM(TRAILING '0' FROM CAST({0} AS CHAR))"
# Each column: its type in MariaDB, how the database is asked for its values, its type in the table.
COLUMNS: Final = {
    "id": ("BIGINT UNSIGNED PRIMARY KEY", NUMBER, "decimal(20, 0)"),
    "tiny": ("TINYINT", "{0}", "int"),
    "tiny_unsigned": ("TINYINT UNSIGNED", "{0}", "int"),
    "small": ("SMALLINT", "{0}", "int"),
    "medium_unsigned": ("MEDIUMINT UNSIGNED", "{0}", "int"),
    "n": ("INT", "{0}", "int"),
    "n_unsigned": ("INT UNSIGNED", "{0}", "long"),
    "big": ("BIGINT", NUMBER, "long"),
    "big_unsigned": ("BIGINT UNSIGNED", NUMBER, "decimal(20, 0)"),
    "price": ("DECIMAL(12,2)", NUMBER, "decimal(12, 2)"),
    "wide": ("DECIMAL(38,10)", NUMBER, "decimal(38, 10)"),
    "huge": ("DECIMAL(65,3)", NUMBER, "string"),
    "f": ("FLOAT", "{0}", "float"),
    "d": ("DOUBLE", "{0}", "double"),
    "yes": ("BOOLEAN", BITS, "boolean"),
    "bit_1": ("BIT(1)", BITS, "boolean"),
    "bit_9": ("BIT(9)", BITS, "binary"),
    "day": ("DATE", TIME, "date"),
    "at_0": ("DATETIME", TIME, "timestamp"),
    "at_3": ("DATETIME(3)", TIME, "timestamp"),
    "at_6": ("DATETIME(6)", TIME, "timestamp"),
    "moment": ("TIMESTAMP(6) NULL", TIME, "timestamptz"),
    "clock": ("TIME(6)", CLOCK, "string"),
    "y": ("YEAR", "{0}", "int"),
    "fixed": ("CHAR(10)", "{0}", "string"),
    "words": ("VARCHAR(80)", "{0}", "string"),
    "prose": ("TEXT", "{0}", "string"),
    "latin": ("VARCHAR(20) CHARACTER SET latin1", "CONVERT({0} USING utf8mb4)", "string"),
    "choice": ("ENUM('new','sent')", "{0}", "string"),
    "choices": ("SET('a','b','c')", "{0}", "string"),
    "doc": ("JSON", "CONCAT({0})", "string"),
    "raw": ("VARBINARY(16)", BYTES, "binary"),
    "raw_fixed": ("BINARY(4)", BYTES, "binary"),
    "raw_long": ("BLOB", BYTES, "binary"),
}  # fmt: skip
FULL: Final = """
18446744073709551614, -128, 255, -32768, 16777215, -2147483648, 4294967295, -9223372036854775808,
18446744073709551615, -12.30, '1234567890123456789012345678.0123456789',
'12345678901234567890123456789012345678901234567890123456789012.125', 1.5, 1e300, TRUE, b'1', b'100000011',
'2026-02-28', '2026-01-02 03:04:05', '2026-01-02 03:04:05.678', '1969-12-31 23:59:59.000001',
'2026-01-02 03:04:05.678901', '-12:34:56.789', 2026, 'abc', 'Zoë Žižek 😀 ', 'two
lines, a \\\\ and a "', 'é', 'new', 'a,c', '{"k": 1.10}', x'00FF10', x'01020304', x'DEADBEEF'
"""
ORDERS: Final = "maria.shop.orders"
TABLES: Final[dict[str, Any]] = {
    "shop.orders": {"source": "maria", "keys": ["id"], "history": {}},
    # MariaDB's table has no key: declared is what identifies a row, or that each version is kept.
    "shop.visits": {"source": "maria", "keys": ["who"]},
    "shop.all_visits": {"source": "maria", "entity": "visits", "write": "append"},
}


def shown(value: Any) -> Any:
    """A value of a table as the database is asked for it."""
    if isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, int | float | Decimal):
        return Decimal(str(value))
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, date):
        return value.strftime("%Y-%m-%d 00:00:00.000000")
    return value.hex().upper() if isinstance(value, bytes) else value


@dataclass
class Shop:
    """The database ``shop``, a connector that follows it, and a project with its tables."""

    database: MariaDb
    broker: Broker
    project: TemporaryProject
    source: dict[str, Any]

    def change(self, topic: str, records: int, *statements: str) -> None:
        """Run statements, after which a topic has so many records."""
        self.database.script("USE shop; " + " ".join(f"{s};" for s in statements))
        self.broker.wait_for_records(topic, records)

    def declare(self, **options: Any) -> None:
        """Declare the tables anew, the one of orders with these options too."""
        self.project.declare(
            {"maria": self.source}, TABLES | {"shop.orders": TABLES["shop.orders"] | options}
        )

    def run(self, table: str) -> None:
        """Run one table."""
        self.project.run(*PIPELINES, namespaces=[table])

    def held(self, table: str, columns: dict[str, str]) -> list[Any]:
        """The rows that the database has, by how it is asked for each column."""
        asked = ", ".join(how.format(f"`{name}`") for name, how in columns.items())
        lines = self.database.script(f"SELECT JSON_ARRAY({asked}) FROM shop.{table} ORDER BY 1")
        rows = [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]
        return [
            tuple(
                Decimal(v) if how == NUMBER and v is not None and n != "huge" else v
                for (n, how), v in zip(columns.items(), row, strict=True)
            )
            for row in rows
        ]

    def found(self, table: str, columns: dict[str, str]) -> list[Any]:
        """The rows of the table, as the database would show them."""
        rows = []
        for row in self.project.rows(f"shop.{table}"):
            row["bit_9"] = None if row.get("bit_9") is None else int.from_bytes(row["bit_9"], "little")
            row["clock"] = None if row.get("clock") is None else row["clock"].rstrip("0")
            rows.append(tuple(shown(row.get(n)) for n in columns))
        return rows

    def assert_equal(self, table: str, columns: dict[str, str]) -> None:
        """See that the table has the database's rows, and no others."""
        held, found = self.held(table, columns), self.found(table, columns)
        assert held
        assert sorted(found, key=repr) == sorted(held, key=repr)


@pytest.fixture(scope="module")
def shop(broker: Broker, mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Every type in a table of two rows, and a table without a key, whose snapshots are in their topics."""
    folder = tmp_path_factory.mktemp("mariadb")
    declared = ", ".join(f"`{name}` {kind}" for name, (kind, _, _) in COLUMNS.items())
    mariadb.script(f"""
        CREATE DATABASE shop; USE shop;
        CREATE TABLE orders({declared});
        INSERT INTO orders VALUES ({FULL});
        INSERT INTO orders(id) VALUES (2);
        CREATE TABLE visits(who INT, page VARCHAR(10));
        INSERT INTO visits VALUES (1, 'x'), (2, 'x');
    """)
    source = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "maria.shop.{entity}"}
    project = TemporaryProject.make(folder / "project", {"maria": source}, TABLES)
    connect = Connect(
        folder / "connect", broker, mariadb,
        value_converter_schemas_enable="true", decimal_handling_mode="precise",
    )  # fmt: skip
    try:
        broker.wait_for_records(ORDERS, 2)
        broker.wait_for_records("maria.shop.visits", 2)
        yield Shop(mariadb, broker, project, source)
    finally:
        connect.stop()
        mariadb.script("DROP DATABASE shop")


@pytest.fixture
def project(shop: Shop) -> TemporaryProject:
    """The project that commands are run in."""
    return shop.project


def test_every_type_is_the_databases(shop: Shop) -> None:
    shop.run("shop.orders")
    shop.assert_equal("orders", {name: how for name, (_, how, _) in COLUMNS.items()})
    fields = shop.project._project.catalog.load_table("shop.orders").schema().fields
    kinds = {f.name: str(f.field_type) for f in fields}
    assert {n: kinds[n] for n in COLUMNS} == {n: kind for n, (_, _, kind) in COLUMNS.items()}


def test_each_kind_of_change_and_each_alter(shop: Shop, call: Callable[..., Result]) -> None:
    columns = {name: how for name, (_, how, _) in COLUMNS.items()}
    shop.change(
        ORDERS, 14,
        "INSERT INTO orders(id, words) VALUES (3, 'inserted')",
        "START TRANSACTION",
        "UPDATE orders SET n = 1 WHERE id = 3",
        "UPDATE orders SET n = 2 WHERE id = 3",
        "UPDATE orders SET n = 3 WHERE id < 4",
        "COMMIT",
        "UPDATE orders SET id = 1002 WHERE id = 2",
        "REPLACE INTO orders(id, words) VALUES (3, 'replaced')",
        "ALTER TABLE orders ADD COLUMN via VARCHAR(20)",
        "INSERT INTO orders(id, via) VALUES (4, 'app')",
        "DELETE FROM orders WHERE id = 1002",
    )  # fmt: skip
    shop.run("shop.orders")
    shop.assert_equal("orders", columns | {"via": "{0}"})
    history = [r for r in shop.project.rows("shop.orders_history") if r["id"] == 3]
    history.sort(key=lambda r: tuple(r["_order_from"].values()))
    # The three versions of one transaction have one time; the position in the log keeps them apart.
    assert [(r["words"], r["n"]) for r in history] == [
        ("inserted", None), ("inserted", 1), ("inserted", 2), ("inserted", 3), ("replaced", None)
    ]  # fmt: skip
    assert [r["is_current"] for r in history] == [False] * 4 + [True]

    shop.change(
        ORDERS, 16,
        "FLUSH BINARY LOGS",  # positions begin anew in the next file
        "ALTER TABLE orders MODIFY COLUMN n BIGINT, DROP COLUMN doc",
        "ALTER TABLE orders RENAME COLUMN via TO channel",
        "UPDATE orders SET n = 5000000000, channel = 'shop' WHERE id = 4",
        "INSERT INTO orders(id, channel) VALUES (5, 'web')",
    )  # fmt: skip
    shop.declare(rename={"via": "channel"})
    shop.run("shop.orders")
    columns = {n: how for n, how in columns.items() if n != "doc"} | {"channel": "{0}"}
    shop.assert_equal("orders", columns)

    shop.change(
        ORDERS, 19,
        "TRUNCATE orders",
        "INSERT INTO orders(id, price) VALUES (7, 1)",
        "ALTER TABLE orders MODIFY COLUMN price DECIMAL(14,3)",
        "INSERT INTO orders(id, price) VALUES (8, 5.125)",
    )  # fmt: skip
    # No column of Iceberg takes another scale: the table stops, says so, and what it advises helps.
    refused = shop.project.failures(*PIPELINES, namespaces=["shop.orders"])["shop.orders"]
    assert isinstance(refused, IncompatibleTypeError)
    assert "price" in str(refused)
    shop.declare(rename={"via": "channel"}, types={"price": "decimal(14,3)"})
    rebuilt = call("rebuild", "shop.orders", "--from-landing", "--yes")
    assert rebuilt.exit_code == 0, rebuilt.output
    shop.assert_equal("orders", columns)


def test_a_table_without_a_key(shop: Shop) -> None:
    shop.change(
        "maria.shop.visits", 7,
        "UPDATE visits SET page = 'y' WHERE who = 1",
        "DELETE FROM visits WHERE who = 2",
        "TRUNCATE visits",
        "INSERT INTO visits VALUES (9, 'q')",
    )  # fmt: skip
    shop.run("shop.visits")
    shop.run("shop.all_visits")
    shop.assert_equal("visits", {"who": "{0}", "page": "{0}"})
    every = [(r["who"], r["page"]) for r in shop.project.rows("shop.all_visits")]
    assert sorted(every) == [(1, "x"), (1, "y"), (2, "x"), (9, "q")]
