"""Topics of a real broker become tables: what is new, what is gone, what cannot be read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from confluent_kafka import Producer, TopicPartition
from harness.processes import free_port
from harness.project import TemporaryProject
from harness.soak import only_in_soak

from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError, TopicReplacedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.streaming import Stream

if TYPE_CHECKING:
    from harness.kafka import Broker
    from harness.project import Outcome

pytestmark = pytest.mark.streams

FIXTURES = Path(__file__).resolve().parents[1] / "data/streams"
PIPELINES = ("ingestion", "cdc_merge", "scd2")
ROW = {"source": "shop", "keys": ["id"], "order_by": ["at"], "types": {"id": "long", "at": "long"}}
TABLES: dict[str, Any] = {
    "shop.item": ROW | {"history": {}},
    "shop.delta": ROW | {"entity": "item", "history": {}, "format": "delta"},
    "shop.small": ROW | {"source": "small"},
    "shop.latest": ROW | {"source": "latest"},
    "shop.gone": ROW,
    "shop.again": ROW,
    "shop.transactions": ROW,
    "shop.compacted": ROW,
    "shop.poison": ROW,
    "shop.typed": ROW | {"types": {"id": "long", "at": "long", "n": "int"}},
    "shop.orders": {"source": "debezium", "keys": ["id"], "history": {}},
    "shop.delta_orders": {"source": "debezium", "keys": ["id"], "entity": "orders", "format": "delta"},
    "shop.away": ROW | {"source": "away"},
    "shop.absent": ROW,
    "shop.few": ROW,
}


def row(key: int, at: int = 1, **more: Any) -> dict[str, Any]:
    """A message with the row of a key."""
    return {"key": str(key), "value": json.dumps({"id": key, "at": at, "name": f"n{key}"} | more)}


def captured(name: str) -> list[dict[str, Any]]:
    """The messages that a connector wrote to a topic of three partitions."""
    lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines()
    return [
        {"key": m["key"], "value": m["value"], "partition": m["partition"]}
        for m in map(json.loads, lines)
        if m["topic"].endswith(".orders")
    ]


def last_order() -> dict[str, Any]:
    """An update of the only row that is left of the captured messages; one value was not logged again."""
    sent = [m for m in captured("mariadb-json-3-partitions.jsonl") if "After truncate" in str(m["value"])]
    message = json.loads(sent[-1]["value"])
    changed = {"amount": "2.000", "customer": "__debezium_unavailable_value"}
    message |= {"op": "u", "before": message["after"], "after": message["after"] | changed}
    message["source"]["pos"] += 1_000_000
    return {"key": sent[-1]["key"], "value": json.dumps(message)}


@pytest.fixture(scope="module")
def project(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """One project: each table is a case."""
    kafka = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "in.{entity}", "decoder": "json"}
    sources = {
        "shop": kafka,
        "small": kafka | {"topic": "in.item", "max_records": 4},
        "latest": kafka | {"topic": "in.item", "start": "latest"},
        "away": kafka | {"bootstrap_servers": f"127.0.0.1:{free_port()}"},
        "debezium": kafka | {"decoder": "debezium"},
    }
    return TemporaryProject.make(tmp_path_factory.mktemp("kafka_project") / "project", sources, TABLES)


@pytest.fixture(scope="module")
def first(broker: Broker, project: TemporaryProject) -> Outcome:
    """The first run, after the first messages of each topic."""
    for name in ("item", "gone", "again", "transactions", "poison", "typed", "orders", "few"):
        broker.make_topic(f"in.{name}", 3)
    broker.make_topic(
        "in.compacted", cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="200", delete_retention_ms="100",
    )  # fmt: skip
    broker.send("in.item", [row(n) for n in range(20)])
    broker.send("in.gone", [row(n) | {"partition": 0} for n in range(3)])
    broker.send("in.few", [row(n) for n in range(9)])
    broker.send("in.again", [row(n) for n in range(3)])
    transactions(broker)
    broker.send("in.poison", poison())
    broker.send("in.typed", [row(1, n="7"), row(2, n="many"), row(3, n="9")])
    broker.send("in.orders", captured("mariadb-json-3-partitions.jsonl"))
    compacted(broker)
    return project.attempt(*PIPELINES)


def transactions(broker: Broker) -> None:
    """Two committed transactions, and an aborted one between them."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "t"})
    producer.init_transactions(30)
    for keys, is_kept in (((1, 2), True), ((3, 4), False), ((5,), True)):
        producer.begin_transaction()
        for key in keys:
            producer.produce("in.transactions", partition=0, **row(key))
        producer.flush(30)  # else what is aborted is never sent
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)


def poison() -> list[dict[str, Any]]:
    """Ninety rows, of which nine are none; one is ten megabytes long."""
    bad = [
        b"\xff\xfe\x00", b"{", b"[1]", b"", b"null", b'{"id": 1} {"id": 2}', b"base64:",
        b"\x00\x00\x00\x00\x01", b"{]",
    ]  # fmt: skip
    rows = [row(n) for n in range(80)] + [row(99, name="x" * 10_000_000)]
    return rows + [{"key": "bad", "value": value} for value in bad]


def compacted(broker: Broker) -> None:
    """Ten values of each of five keys, of which the broker has removed some."""
    for at in range(10):
        broker.send("in.compacted", [row(key, at) for key in range(5)])
        time.sleep(0.25)
    broker.send("in.compacted", [row(9, 1)])
    time.sleep(3)


def names(project: TemporaryProject, table: str) -> dict[int, str]:
    """The names of a table's rows by key."""
    return {r["id"]: r["name"] for r in project.rows(table)}


@pytest.fixture(scope="module")
def second(broker: Broker, project: TemporaryProject, first: Outcome) -> Outcome:
    """The second run: more messages, a new partition, expired ones, a topic made anew."""
    del first
    broker.add_partitions("in.item", 4)
    broker.send("in.item", [row(3, 2, name="later"), row(50) | {"partition": 3}, row(51) | {"partition": 3}])
    broker.send("in.gone", [row(n) | {"partition": 0} for n in range(3, 9)])
    broker.send("in.few", [row(n, 2, name="later") for n in range(5, 12)])
    broker.send("in.orders", [last_order() | {"partition": 1}])
    broker.admin.delete_records([TopicPartition("in.gone", 0, 5)])
    broker.delete_topic("in.again")
    broker.make_topic("in.again", 3)
    broker.send("in.again", [row(n) for n in range(30, 40)])
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        outcome = project.attempt(*PIPELINES, namespaces=["shop.gone"])
        if outcome.failed:
            break
    return project.attempt(*PIPELINES)


def test_rows_of_a_topic(project: TemporaryProject, first: Outcome) -> None:
    assert names(project, "shop.item") == {n: f"n{n}" for n in range(20)}
    places = {(r["_position"]["file"], r["_position"]["row"]) for r in project.rows("shop.item_changes")}
    assert {name for name, _ in places} == {"in.item:0", "in.item:1", "in.item:2"}
    assert len(places) == 20
    assert set(first.failed) == {"shop.away", "shop.absent"}


def test_a_batch_takes_no_more_than_max_records(project: TemporaryProject, first: Outcome) -> None:
    counted = [c["events_in"] for c in first.counts("shop.small", "ingestion")]
    assert sum(counted) == 20
    assert max(counted) <= 4
    assert names(project, "shop.small") == names(project, "shop.item")


def test_a_run_goes_on_where_the_last_one_ended(project: TemporaryProject, second: Outcome) -> None:
    (counts,) = second.counts("shop.item", "ingestion")
    assert counts["events_in"] == 3
    expected = {n: f"n{n}" for n in [*range(20), 50, 51]} | {3: "later"}
    for table in ("shop.item", "shop.small", "shop.delta"):
        assert names(project, table) == expected
    for table in ("shop.item", "shop.delta"):
        assert len(project.rows(f"{table}_history")) == 23


def by_spark(project: TemporaryProject, table: str) -> list[bool]:
    """Of each batch of a change log, whether Spark wrote it."""
    found = project._project.catalog.find(TableName.parse(f"{table}_changes"))
    assert found is not None
    made = [s.summary.additional_properties for s in found.metadata.snapshots if s.summary]
    return ["spark.app.id" in one for one in made if one.get("added-records", "0") != "0"]


@pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4")
def test_few_plain_rows_of_a_known_table_are_stored_without_spark(
    project: TemporaryProject, second: Outcome
) -> None:
    (counts,) = second.counts("shop.few", "ingestion")
    assert (counts["events_in"], counts["applied"]) == (7, 7)
    assert names(project, "shop.few") == {n: f"n{n}" for n in range(5)} | dict.fromkeys(range(5, 12), "later")
    assert by_spark(project, "shop.few") == [True, False]


@pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4")
def test_few_rows_whose_order_reaches_into_earlier_batches_are_stored_without_spark(
    project: TemporaryProject, second: Outcome
) -> None:
    """As where clocks of two producers differ: no row has the key and the order of an earlier one."""
    assert second.counts("shop.item", "ingestion")[0]["duplicates"] == 0
    assert by_spark(project, "shop.item")[:2] == [True, False]


def test_records_that_are_sent_again_are_known(
    broker: Broker, project: TemporaryProject, second: Outcome
) -> None:
    del second
    broker.send("in.few", [row(n, 2, name="later") for n in range(5, 12)] + [row(30, 2)])
    (counts,) = project.attempt(*PIPELINES, namespaces=["shop.few"]).counts("shop.few", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["duplicates"]) == (8, 1, 7)
    assert by_spark(project, "shop.few")[-1]


def test_latest_begins_at_the_end_but_a_new_partition_at_its_beginning(
    project: TemporaryProject, second: Outcome
) -> None:
    del second
    assert {50, 51} <= set(names(project, "shop.latest"))


def test_expired_records_are_told_not_passed_over(project: TemporaryProject, second: Outcome) -> None:
    error = second.failed["shop.gone"]
    assert isinstance(error, OffsetsGoneError)
    assert (error.wanted, error.earliest, error.partition) == (3, 5, "in.gone:0")
    assert set(names(project, "shop.gone")) == {0, 1, 2}


def test_a_topic_that_was_made_anew_is_refused(project: TemporaryProject, second: Outcome) -> None:
    assert isinstance(second.failed["shop.again"], TopicReplacedError)
    assert set(names(project, "shop.again")) == {0, 1, 2}


def test_only_committed_transactions_count(project: TemporaryProject, first: Outcome) -> None:
    assert "shop.transactions" not in first.failed
    assert set(names(project, "shop.transactions")) == {1, 2, 5}


def test_offsets_without_a_record_do_not_keep_the_loop_at_work(
    broker: Broker, project: TemporaryProject, second: Outcome
) -> None:
    del second
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "later"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("in.transactions", partition=0, **row(6))
    producer.flush(30)  # else nothing is sent, and there is nothing to abort
    producer.abort_transaction(30)
    loop = Stream(folder=project.path, env=None, namespaces=["shop.transactions"], every=0.1)
    assert loop.run(Project.load(str(project.path / "conf"), None), until_idle=True) == []
    assert loop.cycles == 1
    assert set(names(project, "shop.transactions")) == {1, 2, 5}


def test_gaps_of_a_compacted_topic_are_no_loss(project: TemporaryProject, first: Outcome) -> None:
    (counts,) = first.counts("shop.compacted", "ingestion")
    assert counts["events_in"] < 51, "the broker compacted nothing: this proves nothing"
    assert {r["id"]: r["at"] for r in project.rows("shop.compacted")} == dict.fromkeys(range(5), 9) | {9: 1}


def test_poison_goes_to_quarantine_with_its_bytes(project: TemporaryProject, first: Outcome) -> None:
    (counts,) = first.counts("shop.poison", "ingestion")
    assert counts["quarantined"] == 9
    assert set(names(project, "shop.poison")) == {*range(80), 99}
    assert len(names(project, "shop.poison")[99]) == 10_000_000
    raw = {r["_raw"] for r in project.rows("shop.poison_quarantine")}
    texts = {"{", "[1]", "", "null", '{"id": 1} {"id": 2}', "base64:", "\x00\x00\x00\x00\x01", "{]"}
    assert raw == texts | {"base64://4A"}


@pytest.mark.parametrize("poison", ['{"other": 1}', "{", "[]"])
def test_poison_alone_in_its_partition_does_not_stop_the_table(
    broker: Broker, project: TemporaryProject, second: Outcome, poison: str
) -> None:
    del second
    before = names(project, "shop.poison")
    broker.send("in.poison", [{"value": poison, "partition": 1}])
    outcome = project.attempt(*PIPELINES, namespaces=["shop.poison"])
    assert not outcome.failed
    (counts,) = outcome.counts("shop.poison", "ingestion")
    assert (counts["events_in"], counts["quarantined"]) == (1, 1)
    assert names(project, "shop.poison") == before


def test_a_table_is_built_anew_from_its_topic(project: TemporaryProject, second: Outcome) -> None:
    del second
    assert names(project, "shop.typed") == {1: "n1", 3: "n3"}
    mended = TABLES | {"shop.typed": ROW | {"types": {"id": "long", "at": "long", "n": "string"}}}
    project.write("tables", mended)
    rebuilt = project.command("lakehouse", "rebuild", "shop.typed", "--from-landing", "--yes")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert {r["id"]: r["n"] for r in project.rows("shop.typed")} == {1: "7", 2: "many", 3: "9"}


@only_in_soak
def test_one_record_of_quarantine_is_replayed_when_its_type_is_mended(
    broker: Broker, project: TemporaryProject, second: Outcome
) -> None:
    del second
    broker.send("in.typed", [row(4, n="4"), row(5, at=2**40, n="5")])
    narrow = ROW | {"entity": "typed", "types": {"id": "long", "at": "long", "n": "decimal(2,0)"}}
    broker.send("in.typed", [row(6, n="300")])
    project.write("tables", TABLES | {"shop.narrow": narrow})
    project.run("ingestion", "cdc_merge", namespaces=["shop.narrow"])
    assert {2, 6}.isdisjoint(names(project, "shop.narrow"))
    wide = narrow | {"types": {"id": "long", "at": "long", "n": "decimal(5,0)"}}
    project.write("tables", TABLES | {"shop.narrow": wide})
    replayed = project.command("lakehouse", "quarantine", "shop.narrow", "--replay", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert (json.loads(replayed.stdout)["replayed"], json.loads(replayed.stdout)["left"]) == (1, 1)
    assert {r["id"]: r["n"] for r in project.rows("shop.narrow")} == {1: 7, 3: 9, 4: 4, 5: 5, 6: 300}


def test_a_dropped_table_begins_again_where_the_topic_does(
    project: TemporaryProject, second: Outcome
) -> None:
    del second
    for table in ("shop.gone", "shop.again"):
        dropped = project.command("lakehouse", "drop", table, "--yes")
        assert dropped.returncode == 0, dropped.stderr
    project.run(*PIPELINES, namespaces=["shop.gone", "shop.again"])
    assert set(names(project, "shop.gone")) == {5, 6, 7, 8}
    assert set(names(project, "shop.again")) == set(range(30, 40))


def test_debezium_messages_of_three_partitions(project: TemporaryProject, second: Outcome) -> None:
    assert "shop.orders" not in second.failed, second.failed["shop.orders"]
    for table in ("shop.orders", "shop.delta_orders"):
        (only,) = project.rows(table)
        assert (only["customer"], only["amount"]) == ("After truncate", "2.000")
    versions = {r["amount"] for r in project.rows("shop.orders_history") if r["id"] == only["id"]}
    assert versions >= {"1.000", "2.000"}


@pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4")
def test_few_messages_of_debezium_are_stored_without_spark(
    project: TemporaryProject, second: Outcome
) -> None:
    del second
    assert by_spark(project, "shop.orders") == [True, False]
    (last,) = [r for r in project.rows("shop.orders_changes") if r["_batch"] == 2]
    assert (last["_op"], last["_unset"], last["amount"]) == ("upsert", ["customer"], "2.000")


def test_a_broker_that_is_away_is_named(first: Outcome) -> None:
    assert isinstance(first.failed["shop.away"], SourceUnreachableError)
    absent = first.failed["shop.absent"]
    assert isinstance(absent, SourceUnreachableError)
    assert "in.absent" in str(absent)


def test_nothing_new_starts_no_spark(project: TemporaryProject, second: Outcome) -> None:
    del second
    ended = project.command(
        "run", "--pipelines=ingestion,cdc_merge,scd2", "--namespaces=shop.item,shop.orders"
    )
    assert ended.returncode == 0, ended.stderr
    assert "2 tables had nothing new" in ended.stdout
    assert "Starting Spark" not in ended.stderr


def test_records_that_wait_are_counted_when_they_are_asked_for(
    broker: Broker, project: TemporaryProject, second: Outcome
) -> None:
    del second
    broker.send("in.item", [row(n, 3) for n in range(60, 67)])
    listed = project.command("lakehouse", "tables", "--waiting", "--json")
    waits = {r["table"]: r["waiting"] for r in json.loads(listed.stdout)}
    assert waits["shop.item"]["records"] == 7
    assert waits["shop.orders"]["records"] == 0
    assert waits["shop.away"] == {"error": "SOURCE_UNREACHABLE"}
    assert "Starting Spark" not in listed.stderr
