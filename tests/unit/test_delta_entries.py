"""Which data files a Delta table has, and how the next entry is written, by logs written out here: no JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap64

from kedro_lakehouse.formats.delta.entries import commit_info, data_files, write_entry
from kedro_lakehouse.formats.delta.vectors import read_vector, write_vector

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit


def added(path: str, vector: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    facts = {"path": path, "partitionValues": {}, "size": 9, "stats": json.dumps({"numRecords": 3})}
    return {"add": facts | ({"deletionVector": vector} if vector else {}) | more}


def removed(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"remove": {"path": path} | ({"deletionVector": vector} if vector else {})}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "_delta_log").mkdir()
    return tmp_path


VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def test_a_file_is_known_by_its_path_and_its_deletion_vector(folder: Path) -> None:
    assert write_entry(folder, 0, [added("a"), added("b")])
    assert write_entry(folder, 1, [removed("a"), added("a", VECTOR), removed("b")])
    assert [(f.path, f.vector) for f in data_files(folder, 0) or ()] == [("a", None), ("b", None)]
    (file,) = data_files(folder, 1) or ()
    assert (file.path, file.vector, file.bytes_to_read()) == ("a", VECTOR, 49)


@pytest.mark.parametrize(
    "strange", [added("/else/where"), added("s3://bucket/a"), added("a%20b"), added("a", stats=None)]
)
def test_files_that_are_not_read_here_leave_the_table_to_spark(folder: Path, strange: dict[str, Any]) -> None:
    write_entry(folder, 0, [added("a"), strange])
    assert data_files(folder, 0) is None


def test_a_checkpoint_in_parts_leaves_the_table_to_spark(folder: Path) -> None:
    write_entry(folder, 0, [added("a")])
    (folder / "_delta_log/_last_checkpoint").write_text('{"version": 0, "parts": 2}')
    assert data_files(folder, 0) is None


def test_of_two_writers_one_gets_the_version(folder: Path) -> None:
    assert write_entry(folder, 0, [added("first")])
    assert not write_entry(folder, 0, [added("second")])
    assert [f.path for f in data_files(folder, 0) or ()] == ["first"]
    assert [p.name for p in (folder / "_delta_log").iterdir()] == [f"{0:020}.json"]


def test_the_time_of_a_commit_is_later_than_that_of_the_one_before() -> None:
    far = 10**14
    assert next(iter(commit_info("WRITE", 0, "", far).items())) == ("inCommitTimestamp", far + 1)
    assert "inCommitTimestamp" not in commit_info("WRITE", 0, "", None)


@pytest.mark.parametrize("positions", [[0], [5, 3, 70_000], range(1000), [2**33 + 1]])
def test_deleted_positions_come_back(folder: Path, positions: Any) -> None:
    described, path = write_vector(folder, positions)
    assert read_vector(folder, described) == BitMap64(positions)
    assert described["cardinality"] == len(positions)
    assert [p for p in folder.iterdir() if p.suffix == ".bin"] == [path]


def test_a_vector_that_lies_elsewhere_is_not_read(folder: Path) -> None:
    with pytest.raises(ValueError, match="kind p"):
        read_vector(folder, {"storageType": "p", "pathOrInlineDv": "s3://bucket/x.bin"})
