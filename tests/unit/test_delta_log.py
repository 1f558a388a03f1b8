"""What a Delta table's log tells, of a log that is written out here: no JVM."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kedro_lakehouse.errors import BookmarkGoneError
from kedro_lakehouse.formats.delta import api
from kedro_lakehouse.formats.delta.commit import merge
from kedro_lakehouse.formats.delta.log import APP_ID, DeltaLog, KnownLogs, Note, storage_options
from kedro_lakehouse.formats.staged_files import MARK, StagedChange, stage_folder
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")
FEATURES = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening"]


def column(number: int, name: str, kind: Any) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


SCHEMA = {
    "type": "struct",
    "fields": [
        column(1, "id", "long"),
        column(2, "wo rd", "string"),
        column(3, "at", "timestamp_ntz"),
        column(4, "_order", {"type": "struct", "fields": [column(5, "seq", "string")]}),
        column(6, "_op", "string"),
    ],
}


def write(
    folder: Path, version: int, operation: str, *actions: dict[str, Any], note: Note | None = None
) -> None:
    info = {"inCommitTimestamp": 1000 + version, "timestamp": 1, "operation": operation}
    info |= {"operationParameters": {}} | ({"userMetadata": note.to_text()} if note else {})
    place = folder / "_delta_log" / f"{version:020}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(json.dumps(a) for a in ({"commitInfo": info}, *actions)), encoding="utf-8")


def file(name: str, low: int, high: int, op: str = "U") -> dict[str, Any]:
    ends = [
        {"col-1": n, "col-2": f"w{n}", "col-3": "2020-01-01T00:00:00.000", "col-4": {"col-5": f"{n:03}"}}
        for n in (low, high)
    ]
    stats = {"numRecords": 10, "minValues": ends[0], "maxValues": ends[1], "nullCount": {}}
    return {
        "add": {
            "path": name, "partitionValues": {"col-6": op}, "size": 100, "modificationTime": 1,
            "dataChange": True, "stats": json.dumps(stats),
        }
    }  # fmt: skip


def number(of: int) -> dict[str, Any]:
    return {"txn": {"appId": APP_ID, "version": of, "lastUpdated": 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = [*FEATURES, "inCommitTimestamp", "clustering", "domainMetadata"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": FEATURES,
        "writerFeatures": writer,
    }
    metadata = {
        "id": "the-table", "format": {"provider": "parquet", "options": {}}, "createdTime": 1,
        "schemaString": json.dumps(SCHEMA), "partitionColumns": ["_op"],
        "configuration": {"delta.columnMapping.mode": "name", "kedro_lakehouse.made_for": "x"},
    }  # fmt: skip
    write(tmp_path, 0, "CREATE TABLE", {"protocol": protocol}, {"metaData": metadata})
    return tmp_path


def opened(folder: Path) -> DeltaLog:
    log = DeltaLog.open(ITEM, str(folder), {})
    assert log is not None
    return log


def test_without_a_log_there_is_no_table(tmp_path: Path) -> None:
    assert DeltaLog.open(ITEM, str(tmp_path / "none"), {}) is None


def test_a_log_is_opened_again_only_after_a_change(folder: Path) -> None:
    logs = KnownLogs({})
    first = logs.open(ITEM, str(folder))
    assert first is not None
    assert logs.open(ITEM, str(folder)) is first
    place = folder / "_delta_log"
    before = place.stat()
    write(folder, 1, "WRITE", number(1), file("a.parquet", 1, 5))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))  # as within one tick of the clock
    second = logs.open(ITEM, str(folder))
    assert second is not None
    assert (first.version, second.version) == (0, 1)
    moved = folder.rename(folder.with_name("moved"))
    assert logs.open(ITEM, str(folder)) is None
    write(folder, 0, "CREATE TABLE", *entry(moved, 0)[1:])
    third = logs.open(ITEM, str(folder))
    assert third is not None
    assert third.version == 0


def entry(folder: Path, version: int) -> list[dict[str, Any]]:
    text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_new_table_has_no_commit_of_ours(folder: Path) -> None:
    log = opened(folder)
    assert (log.head.note, log.rows(), log.uuid) == (None, 0, "the-table")
    assert log.properties["kedro_lakehouse.made_for"] == "x"


def test_the_last_commit_of_ours_is_found_behind_others(folder: Path) -> None:
    note = Note(number=1, token="t", rows=10, bookmark="b")
    write(folder, 1, "WRITE", number(1), file("a.parquet", 1, 5), note=note)
    write(folder, 2, "OPTIMIZE")
    head = opened(folder).head
    assert (head.note, head.version, head.time, head.alone) == (note, 1, 1001, True)
    write(folder, 3, "DELETE")
    head = opened(folder).head
    assert (head.note, head.version, head.alone) == (note, 3, False)


def test_a_number_without_its_entry_is_no_new_table(folder: Path) -> None:
    write(folder, 1, "WRITE", number(7), file("a.parquet", 1, 5))
    with pytest.raises(BookmarkGoneError):
        assert opened(folder).head


def test_each_commit_of_ours_makes_another_state(folder: Path) -> None:
    states = [opened(folder).state_version]
    for of, token in ((1, "t"), (2, "u")):
        write(folder, 2 * of - 1, "WRITE", number(of), note=Note(number=of, token=token, rows=0))
        states.append(opened(folder).state_version)
        write(folder, 2 * of, "OPTIMIZE")
        assert opened(folder).state_version == states[-1]
    assert states == ["the-table:0", "the-table:1:t", "the-table:2:u"]


def test_a_commit_is_found_behind_those_that_followed(folder: Path) -> None:
    notes = [Note(number=of, token=f"t{of}", rows=0, bookmark=f"b{of}") for of in (1, 2, 3)]
    for note in notes[:2]:
        write(folder, note.number, "WRITE", number(note.number), note=note)
    log = opened(folder)
    assert [log.version_of(note) for note in notes] == [1, 2, None]
    assert log.version_of(Note(number=1, token="another", rows=0)) is None
    assert log.version_of(Note(number=2, token="another", rows=0)) is None
    assert [(note.bookmark, at) for note, at in log.notes()] == [("b2", 2), ("b1", 1)]


def test_a_cleaned_log_does_not_tell_that_a_commit_is_not_there() -> None:
    note = Note(number=3, token="ours", rows=0)
    kept = [{"version": 9, "userMetadata": Note(number=4, token="theirs", rows=0).to_text()}]
    cleaned: Any = SimpleNamespace(transaction_version=lambda _: 4, history=lambda limit: kept[:limit])
    with pytest.raises(BookmarkGoneError):
        DeltaLog(ITEM, cleaned, {}).version_of(note)


def test_metadata_of_others_is_no_note() -> None:
    note = Note(number=1, token="t", rows=1, properties={"a": "b"})
    assert Note.from_text(note.to_text()) == note
    assert [Note.from_text(t) for t in (None, "", "words", "[1]", '{"x": 1}')] == [None] * 5


def test_statistics_tell_what_files_may_hold(folder: Path) -> None:
    write(folder, 1, "WRITE", file("a.parquet", 1, 5), file("b.parquet", 20, 30, "D"))
    log = opened(folder)
    assert [log.may_hold("id", n, n) for n in (0, 1, 10, 30)] == [False, True, False, True]
    assert [log.may_hold("_op", o, o) for o in "DTU"] == [True, False, True]
    assert [log.may_hold("_order.seq", s, s) for s in ("000", "025")] == [False, True]
    moment = datetime(2020, 1, 1, tzinfo=UTC).replace(tzinfo=None, microsecond=500)
    assert log.may_hold("at", moment, moment)  # statistics are cut to milliseconds
    assert log.may_hold("unknown", 1, 1)
    assert log.may_hold("id", "a word", "a word")
    bounds = log.bounds(["id", "wo rd", "at"], "id", 0, 6)
    assert (bounds.rows, bounds.ranges) == (10, {"id": (1, 5), "wo rd": ("w1", "w5")})


class Merge:
    """Stands for a handle of a table and for what builds its merge: notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        def asked(*words: Any, **named: Any) -> Merge:
            self.asked.setdefault(name, []).append((*words, *named.values()))
            return self

        return asked


def test_a_merge_names_columns_as_they_are() -> None:
    target: Any = Merge()
    rows: Any = SimpleNamespace(columns=["a`b", "c d", "v", MARK], alias=lambda name: name)
    change = StagedChange(
        kind="merge", files="f", rows=rows, on=["a`b", "c d"], near={"c d": ("o'clock", "z")}
    )  # fmt: skip
    merge(target, rows, change)
    asked = target.asked
    assert (asked["alias"], asked["execute"]) == ([("t",)], [()])
    ((source, condition),) = asked["merge"]
    assert source == "s"
    assert condition.startswith("t.`a``b` = s.`a``b` AND t.`c d` = s.`c d` AND ")
    assert condition.endswith("t.`c d` BETWEEN 'o\\'clock' AND 'z'")
    named = {"`a``b`": "s.`a``b`", "`c d`": "s.`c d`", "`v`": "s.`v`"}
    for clause, mark in (("whenMatchedUpdate", "changed"), ("whenNotMatchedInsert", "added")):
        assert asked[clause][0] == (f"s.`__change` = '{mark}'", named)
        assert [list(columns) for (columns,) in asked[clause][1:]] == [["`a``b`"]]


def test_deltas_own_class_comes_from_the_jar_where_no_package_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "delta spark.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("delta/__init__.py", "")
        archive.writestr("delta/tables.py", "class DeltaTable: ...")
    for name in [name for name in sys.modules if name.partition(".")[0] == "delta"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(api, "find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "path", [])
    session: Any = SimpleNamespace(_jvm=None)
    monkeypatch.setattr(api, "_jar", lambda _session: str(jar))
    assert api.delta_tables(session).__module__ == "delta.tables"
    assert sys.path == [str(jar)]
    for name in ("delta", "delta.tables"):
        monkeypatch.delitem(sys.modules, name)


def test_stages_of_two_tables_are_never_mistaken() -> None:
    assert not stage_folder("n", TableName("n", "a_b"), "r").startswith(
        stage_folder("n", TableName("n", "a"), "")
    )


def test_an_object_store_is_named_once() -> None:
    conf = {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1", "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
    }  # fmt: skip
    assert storage_options(conf, "/srv/lake") == {}
    assert storage_options(conf, "s3a://lake/warehouse") == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    assert storage_options({}, "s3://lake") == {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
