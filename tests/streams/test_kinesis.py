"""Streams of Kinesis, as moto plays it, become tables; what it does not play: tests/unit/test_kinesis.py."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow.parquet as pq
import pytest
from harness.aws import moto_aws
from harness.project import TemporaryProject
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.streams

PIPELINES = ("ingestion", "cdc_merge", "scd2")
KEYED = {"source": "dms", "keys": ["id"], "history": {}, "types": {"id": "long"}}
TABLES: dict[str, Any] = {
    "shop.item": KEYED,
    "shop.small": KEYED | {"source": "few", "entity": "item"},
    "shop.late": KEYED | {"source": "late", "entity": "item"},
    "clicks.row": {
        "source": "rows", "keys": ["id"], "order_by": ["at"], "types": {"id": "long", "at": "long"},
    },
    "clicks.packed": {
        "source": "packed", "entity": "row", "keys": ["id"], "order_by": ["at"],
        "types": {"id": "long", "at": "long"},
    },
    "clicks.absent": {"source": "rows", "keys": ["id"], "order_by": ["at"]},
}  # fmt: skip


def change(operation: str, key: int, name: str | None, at: int) -> bytes:
    """A message as DMS writes it to Kinesis."""
    data = {"id": key} if name is None else {"id": key, "name": name}
    meta = {
        "timestamp": f"2026-01-01T00:00:{at:02}.000000Z", "record-type": "data", "operation": operation,
        "partition-key-type": "primary-key", "schema-name": "shop", "table-name": "item",
        "transaction-id": at,
    }  # fmt: skip
    return json.dumps({"data": data, "metadata": meta}).encode()


@pytest.fixture(scope="module")
def kinesis() -> Iterator[Any]:
    with moto_aws():
        yield boto3.client("kinesis")


@pytest.fixture(scope="module")
def project(kinesis: Any, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="copies", CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    for stream, shards in (("item", 2), ("row", 3), ("packed", 1)):
        kinesis.create_stream(StreamName=stream, ShardCount=shards)
    dms = {"type": "kinesis", "decoder": "dms-json"}
    sources = {
        "dms": dms,
        "few": dms | {"max_records": 2},
        "late": dms | {"start": "latest"},
        "rows": {"type": "kinesis", "decoder": "json"},
        "packed": {
            "type": "kinesis",
            "decoder": "json",
            "stream": "packed",
            "metadata": {"partition_key": "user", "shard": "shard"},
            "raw": "s3://copies/raw",
        },
    }
    folder = tmp_path_factory.mktemp("kinesis") / "project"
    return TemporaryProject.make(folder, sources, TABLES)


def put(kinesis: Any, stream: str, *records: tuple[bytes, str]) -> None:
    sent = kinesis.put_records(
        StreamName=stream, Records=[{"Data": data, "PartitionKey": key} for data, key in records]
    )
    assert sent["FailedRecordCount"] == 0


def packed() -> bytes:
    """Three rows in one record, as the Kinesis Producer Library packs them."""
    path = Path(__file__).resolve().parents[1] / "data/streams/kinesis-aggregates.jsonl"
    return base64.b64decode(json.loads(path.read_text(encoding="utf-8").splitlines()[0])["bytes"])


def names(project: TemporaryProject, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in project.rows(table)}


def rows(*keys: int, at: int = 1) -> Sequence[tuple[bytes, str]]:
    return [(json.dumps({"id": key, "at": at, "name": f"n{key}"}).encode(), str(key)) for key in keys]


@pytest.fixture(scope="module")
def first(kinesis: Any, project: TemporaryProject) -> Any:
    loaded = [(change("load", key, f"n{key}", 0), str(key)) for key in range(6)]
    put(kinesis, "item", *loaded, (change("insert", 7, "seven", 1), "7"))
    put(kinesis, "packed", (packed(), "outer"), *rows(7), (packed()[:-1], "cut"))
    put(kinesis, "row", *rows(*range(9)), (b"{", "9"), (b"\xff\xfe", "9"), (b'{"id": "x", "at": 1}', "9"))
    return project.attempt(*PIPELINES)


@pytest.fixture(scope="module")
def second(kinesis: Any, project: TemporaryProject, first: Any) -> Any:
    put(
        kinesis, "item", (change("update", 1, "one", 2), "1"), (change("delete", 2, None, 3), "2"),
        (change("insert", 8, "eight", 4), "8"),
    )  # fmt: skip
    put(kinesis, "row", *rows(3, 20, at=2))
    put(kinesis, "packed", (packed(), "outer"), *rows(8))
    return project.attempt(*PIPELINES)


def test_records_of_dms_become_tables(project, first):
    assert names(project, "shop.item") == {n: f"n{n}" for n in range(6)} | {7: "seven"}
    assert set(first.failed) == {"clicks.absent"}
    assert "stream absent" in str(first.failed["clicks.absent"])


def test_a_batch_takes_no_more_than_max_records(project, first):
    counted = [c["events_in"] for c in first.counts("shop.small", "ingestion")]
    assert sum(counted) == 7
    assert max(counted) <= 2
    assert names(project, "shop.small") == names(project, "shop.item")


def test_places_are_stream_shard_and_sequence_number(project, first):
    del first
    places = [row["_position"]["file"] for row in project.rows("clicks.row_changes")]
    assert len(set(places)) == len(places) == 9
    assert all(place.startswith("row:shardId-00000000000") for place in places)
    assert {len(place.rpartition(":")[2]) for place in places} == {56}


def test_a_run_goes_on_where_the_last_one_ended(project, second):
    (counts,) = second.counts("shop.item", "ingestion")
    assert counts["events_in"] == 3
    expected = {n: f"n{n}" for n in range(6)} | {1: "one", 7: "seven", 8: "eight"}
    del expected[2]
    assert names(project, "shop.item") == expected
    assert names(project, "shop.small") == expected
    history = project.rows("shop.item_history")
    assert sorted((row["id"], row["name"]) for row in history) == sorted(
        {(n, f"n{n}") for n in range(6)} | {(1, "one"), (7, "seven"), (8, "eight")}
    )


def test_latest_leaves_out_what_was_there(project, second):
    del second
    assert names(project, "shop.late") == {1: "one", 8: "eight"}


def test_poison_goes_to_quarantine_with_its_bytes(project, first):
    (counts,) = first.counts("clicks.row", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["quarantined"]) == (12, 9, 3)
    raw = {row["_raw"] for row in project.rows("clicks.row_quarantine")}
    assert raw == {"{", "base64://4=", '{"id": "x", "at": 1}'}


def test_user_records_of_an_aggregate_become_rows(project, first):
    (counts,) = first.counts("clicks.packed", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["quarantined"]) == (5, 4, 1)
    (broken,) = project.rows("clicks.packed_quarantine")
    assert broken["_raw"] == "base64:" + base64.b64encode(packed()[:-1]).decode()
    found = {row["id"]: row["user"] for row in project.rows("clicks.packed")}
    assert {key: found[key] for key in (1, 2, 3, 7)} == {1: "user-1", 2: "user-2", 3: "user-1", 7: "7"}
    assert {row["shard"] for row in project.rows("clicks.packed")} == {"shardId-000000000000"}


def test_an_aggregate_that_comes_again_is_known(project, second):
    (counts,) = second.counts("clicks.packed", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["duplicates"]) == (4, 1, 3)
    places = [
        (row["_position"]["file"], row["_position"]["row"]) for row in project.rows("clicks.packed_changes")
    ]
    assert len(set(places)) == len(places) == 5
    assert sorted(row for _, row in places) == [0, 0, 0, 1, 2]


def test_raw_copies_go_to_s3(project, second):
    del project, second
    s3 = boto3.client("s3")
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket="copies")["Contents"]]
    assert len(keys) == 2
    assert {key.rpartition("/")[0] for key in keys} == {
        "raw/clicks.packed/packed/partition=shardId-000000000000"
    }  # fmt: skip
    files = [io.BytesIO(s3.get_object(Bucket="copies", Key=key)["Body"].read()) for key in sorted(keys)]
    found = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [row["_position"]["row"] for row in found] == [0, 1, 2, 0, 0, 0, 1, 2, 0]
    assert [row["key"] for row in found][:4] == [b"user-1", b"user-2", b"user-1", b"7"]
    assert found[4]["value"] == packed()[:-1]


@only_in_soak
def test_quarantine_is_replayed_from_the_stream(kinesis, project, second):
    del second
    put(kinesis, "row", *[(json.dumps({"id": 60 + n, "at": 1, "n": n}).encode(), str(n)) for n in (5, 300)])
    narrow = TABLES["clicks.row"] | {
        "entity": "row",
        "types": {"id": "long", "at": "long", "n": "decimal(2,0)"},
    }
    project.write("tables", TABLES | {"clicks.narrow": narrow})
    project.run("ingestion", "cdc_merge", namespaces=["clicks.narrow"])
    assert {65, 360} & set(amounts(project)) == {65}
    wide = narrow | {"types": {"id": "long", "at": "long", "n": "decimal(5,0)"}}
    project.write("tables", TABLES | {"clicks.narrow": wide})
    replayed = project.command("lakehouse", "quarantine", "clicks.narrow", "--replay", "--json")
    assert replayed.returncode == 0, replayed.stderr
    told = json.loads(replayed.stdout)
    assert (told["replayed"], told["left"]) == (1, 3)
    assert amounts(project)[360] == 300
    project.write("tables", TABLES)


def amounts(project: TemporaryProject) -> dict[int, Any]:
    return {row["id"]: row["n"] for row in project.rows("clicks.narrow")}


@only_in_soak
def test_a_table_is_built_anew_from_its_stream(project, second):
    del second
    project.run("ingestion", "cdc_merge", namespaces=["clicks.row"])
    before = names(project, "clicks.row")
    assert {0, 8, 20} <= set(before)
    rebuilt = project.command("lakehouse", "rebuild", "clicks.row", "--from-landing", "--yes")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert names(project, "clicks.row") == before


def test_what_waits_is_told_and_nothing_new_starts_no_spark(kinesis, project, second):
    del second
    put(kinesis, "row", *rows(30, 31, at=3))
    told = project.command("lakehouse", "tables", "--waiting", "--json")
    waiting = {one["table"]: one["waiting"] for one in json.loads(told.stdout)}
    assert waiting["clicks.row"]["records"] == 2
    assert waiting["clicks.row"]["seconds"] >= 0
    assert waiting["shop.item"]["records"] == 0
    assert waiting["clicks.absent"] == {"error": "SOURCE_UNREACHABLE"}
    project.run(*PIPELINES, namespaces=["clicks.row"])
    done = project.command("run", "--namespaces=clicks.row", "--pipelines=ingestion,cdc_merge")
    assert done.returncode == 0, done.stderr
    assert "Starting Spark" not in done.stdout + done.stderr


def test_a_stream_that_was_made_anew_is_refused(kinesis, project, second):
    del second
    kinesis.delete_stream(StreamName="row")
    kinesis.create_stream(StreamName="row", ShardCount=1)
    put(kinesis, "row", *rows(40))
    assert "TOPIC_REPLACED" in str(
        project.attempt("ingestion", namespaces=["clicks.row"]).failed["clicks.row"]
    )
