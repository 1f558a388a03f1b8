"""Files in S3 lose the records of a subject; the ledger knows each again, and what an object had it keeps."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.aws import LAKEHOUSE, LANDING, moto_aws
from harness.project import TemporaryProject

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.erasure import in_place
from kedro_lakehouse.erasure.archived import erase_archived
from kedro_lakehouse.erasure.erase import _in_earlier_versions
from kedro_lakehouse.erasure.landed import erase_landed
from kedro_lakehouse.erasure.raw_copies import erase_copied
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.sources import rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kedro_lakehouse.lake_table import LakeTable

pytestmark = [pytest.mark.contract, pytest.mark.aws]

WANTED = Wanted.of(["7001001"], ["id"])
SHOP = TableName("shop", "t")
KEY = "files/t/1.csv"
CONTENT, WITHOUT = b"id,n\n7001001,1\n2,9\n", b"id,n\n" + b" " * 9 + b"\n2,9\n"


@pytest.fixture
def s3() -> Iterator[Any]:
    """S3 with two empty buckets, of which this process knows nothing."""
    rewritten._known.clear()
    with moto_aws():
        yield boto3.client("s3")


@pytest.fixture
def table(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    """A table of change-only files in S3, one of which names the subject."""
    source = {"type": "changes", "path": f"s3://{LANDING}/files", "pattern": "*.csv", "file_format": "csv"}
    declared = {"source": "s", "keys": ["id"], "order_by": ["n"], "subject": "id"}
    project = TemporaryProject.make(tmp_path / "p", {"s": source}, {str(SHOP): declared})
    monkeypatch.chdir(project.path)
    s3.put_object(
        Bucket=LANDING, Key=KEY, Body=CONTENT, ContentType="text/csv", Metadata={"from": "till-3"},
        StorageClass="STANDARD_IA", Tagging="kept=a%20year&zone=raw",
    )  # fmt: skip
    s3.put_object(Bucket=LANDING, Key="files/t/2.csv", Body=b"id,n\n3,4\n")
    return Project.load(str(project.path / "conf"), None).bind(SHOP)


def erased(table: LakeTable) -> list[str]:
    return erase_landed(table, "id", WANTED, leave=frozenset())


def content(s3: Any, key: str = KEY) -> bytes:
    found: bytes = s3.get_object(Bucket=LANDING, Key=key)["Body"].read()
    return found


def test_a_landed_file_loses_the_records_and_is_known_again(s3: Any, table: LakeTable) -> None:
    before = table.open_source().files()
    time = s3.head_object(Bucket=LANDING, Key=KEY)["LastModified"]
    while True:  # S3's times are whole seconds
        s3.put_object(Bucket=LANDING, Key="clock", Body=b"")
        if s3.head_object(Bucket=LANDING, Key="clock")["LastModified"] > time:
            break
    assert erased(table) == [f"s3://{LANDING}/{KEY}"]
    assert content(s3) == WITHOUT
    assert s3.head_object(Bucket=LANDING, Key=KEY)["LastModified"] > time
    assert table.open_source().files() == before
    rewritten._known.clear()  # as in another process
    assert table.open_source().files() == before
    assert erased(table) == []
    assert search_files([f"s3://{LANDING}"], WANTED).found == []


def test_what_the_object_had_it_keeps(s3: Any, table: LakeTable) -> None:
    erased(table)
    head = s3.head_object(Bucket=LANDING, Key=KEY)
    assert (head["ContentType"], head["StorageClass"]) == ("text/csv", "STANDARD_IA")
    assert head["Metadata"]["from"] == "till-3"
    tags = s3.get_object_tagging(Bucket=LANDING, Key=KEY)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"kept": "a year", "zone": "raw"}


def test_a_file_that_is_put_there_later_is_new(s3: Any, table: LakeTable) -> None:
    erased(table)
    before = table.open_source().files()
    s3.put_object(Bucket=LANDING, Key=KEY, Body=b"id,n\n5,1\n6,1\n")
    (there, other), (is_new, same) = before, table.open_source().files()
    assert same == other
    assert is_new.path == there.path
    assert is_new != there


def test_a_file_that_is_replaced_meanwhile_stays(
    s3: Any, table: LakeTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replace = in_place._Object.replace

    def later(self: Any, *given: Any) -> None:
        s3.put_object(Bucket=LANDING, Key=KEY, Body=b"id,n\n7001001,5\n")
        replace(self, *given)

    monkeypatch.setattr(in_place._Object, "replace", later)
    assert erased(table) == []
    assert content(s3) == b"id,n\n7001001,5\n"
    assert f"{KEY} was left as it is, for S3 answered PreconditionFailed" in caplog.text
    (file,) = search_files([f"s3://{LANDING}"], WANTED).found
    assert file.path == f"s3://{LANDING}/{KEY}"


def test_an_erasure_that_ends_between_mark_and_file_leaves_the_file_known(
    s3: Any, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.open_source().files()
    put = in_place._Object._put

    def put_marks(self: Any, key: str, body: Any, **more: Any) -> None:
        if key == KEY:
            raise KeyboardInterrupt
        put(self, key, body, **more)

    with monkeypatch.context() as patch:
        patch.setattr(in_place._Object, "_put", put_marks)
        with pytest.raises(KeyboardInterrupt):
            erased(table)
    assert table.open_source().files() == before
    assert content(s3) == CONTENT
    assert erased(table) == [f"s3://{LANDING}/{KEY}"]
    assert table.open_source().files() == before


def test_archived_files_alone_and_bundled_lose_the_records(s3: Any, table: LakeTable) -> None:
    ledger = table.open_ledger()
    ledger.plan(ledger.chain(None), table.open_source().files(), {})
    bundle = io.BytesIO()
    with tarfile.open(fileobj=bundle, mode="w:gz") as out:
        for place in ("t/1.csv", "other/1.csv"):
            entry = tarfile.TarInfo(place)
            entry.size, entry.mtime = len(CONTENT), 1_700_000_000
            out.addfile(entry, io.BytesIO(CONTENT))
    s3.put_object(Bucket=LAKEHOUSE, Key="archive/s/a.tar.gz", Body=bundle.getvalue())
    s3.put_object(Bucket=LAKEHOUSE, Key="archive/s/t/1.csv", Body=CONTENT)
    archive = f"s3://{LAKEHOUSE}/archive"
    changed = erase_archived(table, archive, "id", WANTED, leave=frozenset())
    assert changed == [f"{archive}/s/a.tar.gz", f"{archive}/s/t/1.csv"]
    assert erase_archived(table, archive, "id", WANTED, leave=frozenset()) == []
    (found,) = search_files([archive], WANTED).found
    assert {hit.place.partition(":")[0] for hit in found.hits} == {"other/1.csv"}  # of no table
    packed = s3.get_object(Bucket=LAKEHOUSE, Key="archive/s/a.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(packed)) as made:
        member = made.getmember("t/1.csv")
        inner: Any = made.extractfile(member)
        assert (inner.read(), member.mtime) == (WITHOUT, 1_700_000_000)


def test_raw_copies_lose_the_records(s3: Any) -> None:
    class Table:
        source_config = KafkaSourceConfig(
            type="kafka", bootstrap_servers="nowhere:1", raw=f"s3://{LANDING}/raw"
        )
        config = TableConfig(source="shop", entity="t", keys=("id",))

        def __str__(self) -> str:
            return "shop.t"

    values = [b'{"id": 7001001}', b'{"id": 2}']
    rows = pa.table({"key": [None, b"a"], "value": values, "headers": pa.nulls(2, pa.list_(pa.null()))})
    out = io.BytesIO()
    pq.write_table(rows, out)
    key = "raw/shop.t/orders/partition=0/00-02-x.parquet"
    s3.put_object(Bucket=LANDING, Key=key, Body=out.getvalue())
    table: Any = Table()
    assert erase_copied(table, "id", WANTED) == [f"s3://{LANDING}/{key}"]
    kept = pq.read_table(io.BytesIO(content(s3, key)))
    assert kept["value"].to_pylist() == [b'{"id": 2}']


def test_files_that_cannot_be_read_are_named(s3: Any, table: LakeTable) -> None:
    s3.put_object(Bucket=LANDING, Key="files/t/0.csv", Body=CONTENT, StorageClass="GLACIER")
    changed = erased(table)
    report = search_files([f"s3://{LANDING}"], WANTED)
    assert changed == [f"s3://{LANDING}/{KEY}"]
    assert [one.path for one in report.unread] == [f"s3://{LANDING}/files/t/0.csv"]
    assert report.found == []


def test_a_bucket_that_keeps_earlier_versions_is_out_of_reach(s3: Any, table: LakeTable) -> None:
    assert table.source_config.path == f"s3://{LANDING}/files"
    project = Project.load("conf", None)
    assert list(_in_earlier_versions(project)) == []
    s3.put_bucket_versioning(Bucket=LANDING, VersioningConfiguration={"Status": "Enabled"})
    (line,) = _in_earlier_versions(project)
    assert line.startswith(f"Bucket {LANDING}: keeps earlier versions")
