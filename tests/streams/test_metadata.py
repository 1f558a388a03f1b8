"""What a real broker tells of records becomes columns, whichever way a batch was read; and raw copies."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from confluent_kafka import Producer
from harness.project import TemporaryProject
from harness.soak import only_in_soak

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.kafka import Broker
    from harness.project import Outcome

pytestmark = pytest.mark.streams

PIPELINES = ("ingestion", "cdc_merge")
TYPES = {"price": "long", "n": "decimal(2,0)", "header_bytes": "binary"}
TABLES: dict[str, Any] = {
    "told.price": {
        "source": "prices", "keys": ["item"], "order_by": ["broker_offset"], "effective_time": "stored_at",
        "types": TYPES,
    },
    "told.chosen": {
        "source": "prices", "entity": "price", "keys": ["item"], "order_by": ["broker_offset"],
        "columns": {"include": ["price", "trace_id"]}, "types": TYPES,
    },
    "told.change": {
        "source": "changes", "keys": ["id"], "columns": {"exclude": ["name"]}, "types": {"id": "long"},
    },
    "told.clash": {"source": "clash", "entity": "price", "keys": ["item"], "order_by": ["broker_offset"]},
}  # fmt: skip
FIRST = int(time.time() - 3600) * 1000
"""A broker removes records whose time is older than a week, however late they come."""


def price(item: str, value: Any, at: int, **headers: bytes) -> dict[str, Any]:
    """A message whose key is the item; the value does not name it."""
    return {
        "key": item, "value": json.dumps({"price": value}), "partition": len(item) % 2,
        "timestamp": FIRST + at * 1000, "headers": headers,
    }  # fmt: skip


def change(number: int, op: str) -> dict[str, Any]:
    image = {"id": number, "name": f"n{number}"}
    source = {"connector": "postgresql", "lsn": 10 * number + (op == "d"), "ts_ms": FIRST}
    before, after = (image, None) if op == "d" else (None, image)
    value = json.dumps({"op": op, "before": before, "after": after, "source": source})
    return {
        "value": value,
        "partition": 0,
        "timestamp": FIRST,
        "headers": {"trace": f"t{number}{op}".encode()},
    }


def send(broker: Broker, topic: str, messages: Sequence[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for message in messages:
        producer.produce(topic, **message)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def project(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    kafka = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "told.{entity}"}
    told = {
        "key": "item", "timestamp": "stored_at", "offset": "broker_offset",
        "headers": {"trace": "trace_id", "n": "n", "bytes": "header_bytes"},
    }  # fmt: skip
    raw = {"raw": str(tmp_path_factory.mktemp("told_raw"))}
    sources = {
        "prices": kafka | raw | {"decoder": "json", "metadata": told},
        "changes": kafka | {"metadata": {"partition": "part", "headers": {"trace": "trace_id"}}},
        "clash": kafka | {"decoder": "json", "metadata": {"key": "item", "offset": "PRICE"}},
    }
    return TemporaryProject.make(tmp_path_factory.mktemp("told") / "project", sources, TABLES)


@pytest.fixture(scope="module")
def first(broker: Broker, project: TemporaryProject) -> Outcome:
    """Spark reads the first batch of a table, and one with poison."""
    broker.make_topic("told.price", 2)
    broker.make_topic("told.change", 1)
    send(broker, "told.price", [
        price("a", 1, 0, trace=b"one"), price("bb", 2, 1, n=b"7", bytes=b"\xff\x00"), price("ccc", 3, 2),
        price("bb", 4, 3, n=b"700"), price("a", 1, 4) | {"key": None},
        price("eeeee", 0, 5, trace=b"poison") | {"value": b"{"},
    ])  # fmt: skip
    send(broker, "told.change", [change(n, "c") for n in range(3)])
    return project.attempt(*PIPELINES)


@pytest.fixture(scope="module")
def second(broker: Broker, project: TemporaryProject, first: Outcome) -> Outcome:
    """The second batch is read without Spark."""
    del first
    send(broker, "told.price", [price("a", 10, 10, trace=b"two"), price("ddd", 3, 11, n=b"8", bytes=b"\xfe")])
    send(broker, "told.change", [change(1, "d"), change(7, "c")])
    return project.attempt(*PIPELINES)


def copies(project: TemporaryProject, table: str) -> list[dict[str, Any]]:
    """The records of all raw copies of a table."""
    raw = str(project._project.declarations.sources["prices"].raw)
    paths = sorted(Path(raw, table).rglob("*"))
    assert all(not path.name.startswith(".") for path in paths)
    files = [path for path in paths if path.suffix == ".parquet"]
    assert {str(path.parent.relative_to(raw)) for path in files} == {
        f"{table}/told.price/partition={number}" for number in (0, 1)
    }  # fmt: skip
    return [row for path in files for row in pq.read_table(path, partitioning=None).to_pylist()]


def rows(project: TemporaryProject, table: str, key: str = "item") -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in project.rows(table)}


def spark_wrote(project: TemporaryProject, table: str) -> list[bool]:
    """Of each batch of a change log, whether Spark wrote it."""
    found = project._project.catalog.find(TableName.parse(f"{table}_changes"))
    assert found is not None
    made = [s.summary.additional_properties for s in found.metadata.snapshots if s.summary]
    return ["spark.app.id" in one for one in made if one.get("added-records", "0") != "0"]


def test_rows_are_keyed_and_ordered_by_what_kafka_tells(project, second):
    assert set(second.failed) == {"told.clash"}
    found = rows(project, "told.price")
    assert {item: row["price"] for item, row in found.items()} == {"a": 10, "bb": 2, "ccc": 3, "ddd": 3}
    events = project.rows("told.price_changes")
    told = {item: (row["trace_id"], row["n"], row["header_bytes"]) for item, row in found.items()}
    assert told == {
        "a": ("two", None, None), "bb": (None, 7, b"\xff\x00"), "ccc": (None, None, None),
        "ddd": (None, 8, b"\xfe"),
    }  # fmt: skip
    times = {(row["item"], row["_time"].timestamp() * 1000 - FIRST) for row in events}
    assert times == {("a", 0), ("a", 10_000), ("bb", 1000), ("ccc", 2000), ("ddd", 11_000)}


@pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4")
@pytest.mark.parametrize("table", ["told.price", "told.change", "told.chosen"])
def test_the_second_batch_was_read_without_spark(project, second, table):
    del second
    assert spark_wrote(project, table) == [True, False]


def test_columns_may_be_chosen_among_them(project, second):
    del second
    found = project.rows("told.chosen")
    assert {(row["item"], row["price"], row["trace_id"]) for row in found} == {
        ("a", 10, "two"), ("bb", 4, None), ("ccc", 3, None), ("ddd", 3, None),
    }  # fmt: skip
    assert not {"n", "stored_at", "broker_offset"} & set(found[0])


def test_changes_of_a_database_have_them_too(project, second):
    del second
    found = rows(project, "told.change", "id")
    assert {key: row["trace_id"] for key, row in found.items()} == {0: "t0c", 2: "t2c", 7: "t7c"}
    assert {row["part"] for row in found.values()} == {0}


def test_a_column_of_the_record_with_such_a_name_stops_the_table(second):
    error = second.failed["told.clash"]
    assert isinstance(error, UnsupportedError)
    assert "have the column 'price'" in str(error)


def test_raw_copies_hold_each_record_once_as_it_was_sent(project, second):
    del second
    for table in ("told.price", "told.chosen"):
        found = copies(project, table)
        places = [(row["_position"]["file"], row["_position"]["row"]) for row in found]
        assert len(set(places)) == len(places) == 8
        by_value = {(row["key"], row["value"]): row for row in found}
        sent = by_value[b"bb", b'{"price": 2}']
        assert sent["headers"] == [{"key": "n", "value": b"7"}, {"key": "bytes", "value": b"\xff\x00"}]
        assert sent["timestamp"].timestamp() * 1000 == FIRST + 1000
        assert by_value[b"eeeee", b"{"]["headers"] == [{"key": "trace", "value": b"poison"}]
        of_change = {
            (row["_position"]["file"], row["_position"]["row"]) for row in project.rows(f"{table}_changes")
        }
        assert of_change <= set(places)


@only_in_soak
def test_a_replay_of_quarantine_gives_them_back(project, second):
    del second
    held = [row["_reasons"][0] for row in project.rows("told.price_quarantine")]
    assert sorted(held) == ["incompatible_type", "malformed", "null_key"]
    mended = TABLES["told.price"] | {"types": TYPES | {"n": "decimal(5,0)"}}
    project.write("tables", TABLES | {"told.price": mended})
    replayed = project.command("lakehouse", "quarantine", "told.price", "--replay", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert (json.loads(replayed.stdout)["replayed"], json.loads(replayed.stdout)["left"]) == (1, 2)
    assert len(copies(project, "told.price")) == 8
    project.run("cdc_merge", namespaces=["told.price"])
    found = rows(project, "told.price")["bb"]
    assert (found["price"], found["n"], found["header_bytes"]) == (4, 700, None)
