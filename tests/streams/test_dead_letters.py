"""Quarantined records of a topic are in its topic for dead letters, each once, whatever happens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.project import TemporaryProject
from harness.soak import only_in_soak
from harness.streams import letters as of_topic

from kedro_lakehouse.errors import SourceUnreachableError
from kedro_lakehouse.sources.dead_letters import DeadLetterTopic

if TYPE_CHECKING:
    from harness.kafka import Broker

pytestmark = pytest.mark.streams

ROW = {"source": "shop", "keys": ["id"], "order_by": ["at"], "types": {"id": "long", "at": "long"}}
BAD = [b"{", b"\xff\xfe", b'{"id": "x", "at": 1}']


@pytest.fixture(scope="module")
def project(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    broker.make_topic("letters.item", 2)
    broker.make_topic("letters.item.dead")
    kafka = {
        "type": "kafka", "bootstrap_servers": broker.address, "topic": "letters.{entity}",
        "dead_letter_topic": "letters.{entity}.dead", "decoder": "json",
    }  # fmt: skip
    tables = {"shop.item": ROW, "shop.absent": ROW}
    folder = tmp_path_factory.mktemp("letters") / "project"
    return TemporaryProject.make(folder, {"shop": kafka}, tables)


def good(*keys: int) -> list[dict[str, Any]]:
    return [{"value": json.dumps({"id": k, "at": 1}).encode(), "partition": k % 2} for k in keys]


def bad(*values: bytes) -> list[dict[str, Any]]:
    return [
        {"value": v, "key": b"k", "partition": n % 2, "headers": [("own", b"1")]}
        for n, v in enumerate(values)
    ]


def letters(broker: Broker) -> list[tuple[bytes | None, dict[str, bytes]]]:
    return of_topic(broker, "letters.item.dead")


def run(project: TemporaryProject) -> Any:
    return project.attempt("ingestion", "cdc_merge", namespaces=["shop.item"])


def test_quarantined_records_are_dead_letters_as_they_were_sent(broker, project):
    broker.send("letters.item", [*good(1, 2, 3), *bad(*BAD)])
    run(project)
    found = letters(broker)
    assert sorted(value for value, _ in found) == sorted(BAD)
    facts = dict(found)[BAD[2]]
    assert facts["own"] == b"1"
    assert facts["kedro_lakehouse.table"] == b"shop.item"
    assert facts["kedro_lakehouse.topic"] == b"letters.item"
    assert json.loads(facts["kedro_lakehouse.reasons"]) == ["null_key", "incompatible_type"]
    places = {(h["kedro_lakehouse.partition"], h["kedro_lakehouse.offset"]) for _, h in found}
    assert places == {(b"0", b"1"), (b"1", b"2"), (b"0", b"2")}


def test_each_is_written_once(broker, project):
    run(project)
    broker.send("letters.item", [*good(5), *bad(b"[")])
    run(project)
    run(project)
    assert sorted(value for value, _ in letters(broker)) == sorted([*BAD, b"["])


def test_what_a_dead_run_left_is_written_by_the_next(broker, project, monkeypatch):
    broker.send("letters.item", [*good(6), *bad(b"]")])
    with monkeypatch.context() as patch:

        def die(*_: Any) -> None:
            raise SourceUnreachableError(table="shop.item", place="here", detail="died")

        patch.setattr(DeadLetterTopic, "write", die)
        assert run(project).failed
    assert b"]" not in {value for value, _ in letters(broker)}
    assert not run(project).failed
    run(project)
    assert sorted(value for value, _ in letters(broker)) == sorted([*BAD, b"[", b"]"])


@only_in_soak
def test_a_rebuild_writes_none_again(broker, project):
    before = letters(broker)
    rebuilt = project.command("lakehouse", "rebuild", "shop.item", "--from-landing", "--yes")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert {row["id"] for row in project.rows("shop.item")} == {1, 2, 3, 5, 6}
    assert letters(broker) == before


def test_offsets_that_kafka_forgot_are_told_by_the_letters(broker, project):
    before = letters(broker)
    group = "kedro-lakehouse.letters.shop.item"
    broker.admin.delete_consumer_groups([group])[group].result(30)
    broker.send("letters.item", bad(b"{]"))
    assert not run(project).failed
    after = letters(broker)
    assert after[: len(before)] == before
    assert [value for value, _ in after[len(before) :]] == [b"{]"]


def test_a_topic_that_is_not_there_stops_the_table_and_loses_nothing(broker, project):
    broker.make_topic("letters.absent")
    broker.send("letters.absent", [good(2)[0], {"value": b"{", "partition": 0}])
    failed = project.attempt("ingestion", namespaces=["shop.absent"]).failed
    assert "letters.absent.dead" in str(failed["shop.absent"])
    broker.make_topic("letters.absent.dead")
    assert not project.attempt("ingestion", namespaces=["shop.absent"]).failed
    assert [value for value, _ in of_topic(broker, "letters.absent.dead")] == [b"{"]
