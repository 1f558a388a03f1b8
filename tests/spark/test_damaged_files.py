"""A flipped bit in each kind of file, and a field of 10 MB: refused, set aside or applied, as it is told."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import Outcome, TemporaryProject

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

ROWS = 3000
FLIPS = 4
"""Damaged files of each kind, each in a table of its own."""
SEED = 20261123
LARGE = 10 * 1024**2
DMS = {"type": "dms", "path": "${globals:landing}/in", "sequence_column": "seq"}
SOURCES: dict[str, Any] = {
    "parquet": DMS,
    "csv": DMS | {"file_format": "csv", "csv": {"header": True}},
    "json": {"type": "changes", "path": "${globals:landing}/in", "file_format": "json"},
    "packed": {
        "type": "extract", "path": "${globals:landing}/in", "file_format": "csv", "pattern": "*.csv.gz",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    },
    "whole": {
        "type": "extract", "path": "${globals:landing}/in", "file_format": "json",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    },
}  # fmt: skip
TYPES = {"id": "bigint", "seq": "bigint"}
KINDS = ("parquet", "csv_gz", "json_gz")
"""Kinds of files that hold a checksum: parquet where its writer was asked for them, as Spark's is."""
UNCHECKED = ("csv", "json")


def table(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {"source": source, "keys": ["id"], "current": False}
    if source != "parquet":
        found |= {"types": TYPES, "max_invalid_fraction": 1}
    return found | ({"order_by": ["seq"]} if source == "json" else {})


TABLES = (
    {f"{kind}.flip{n}": table(kind.split("_", maxsplit=1)[0]) for kind in KINDS for n in range(FLIPS)}
    | {f"{kind}.value": table(kind) for kind in UNCHECKED}
    | {f"{kind}.broken": table(kind) for kind in UNCHECKED}
    | {name: table("json") for name in ("json.array", "json.pretty")}
    | {"whole.array": {"source": "whole", "keys": ["id"]}, "packed.cut": {"source": "packed", "keys": ["id"]}}
    | {f"{kind}.large": table(kind) | {"current": True} for kind in ("parquet", "csv", "json")}
)


def rows(count: int = ROWS) -> list[dict[str, Any]]:
    seeded = random.Random(SEED)  # noqa: S311 - data
    return [{"Op": "I", "id": n, "name": f"{seeded.getrandbits(64):016x}", "seq": n} for n in range(count)]


def parquet(found: list[dict[str, Any]]) -> bytes:
    written = io.BytesIO()
    texts = [row | {"seq": str(row["seq"])} for row in found]
    pq.write_table(pa.Table.from_pylist(texts), written, write_page_checksum=True)
    return written.getvalue()


def csv(found: list[dict[str, Any]]) -> bytes:
    lines = [",".join(found[0]), *(",".join(map(str, row.values())) for row in found)]
    return "".join(f"{line}\n" for line in lines).encode()


def lines(found: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in found).encode()


def flipped(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << place % 8
    return bytes(changed)


def land(landing: Path, name: str, file: str, content: bytes) -> None:
    path = landing / "in" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    # A folder a table: tables of several kinds have one name.
    tables = {name: one | {"entity": name} for name, one in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("damaged") / "project", SOURCES, tables)
    whole = {
        "parquet": ("b.parquet", parquet(rows())),
        "csv_gz": ("b.csv.gz", gzip.compress(csv(rows()))),
        "json_gz": ("b.json.gz", gzip.compress(lines(rows()))),
    }
    seeded = random.Random(SEED)  # noqa: S311 - data
    for kind in KINDS:
        file, content = whole[kind]
        # Data, not the footer of parquet nor the first bytes of gzip: names and times have no checksum there.
        last = len(content) - 1500 if kind == "parquet" else len(content) - 4
        for n in range(FLIPS):
            place = seeded.randrange(64, last)
            land(made.landing, f"{kind}.flip{n}", file, flipped(content, place))
    text, objects = csv(rows(3)), lines(rows(3))
    name = str(rows(3)[1]["name"]).encode()
    land(made.landing, "csv.value", "b.csv", flipped(text, text.index(name) + 8))
    land(made.landing, "json.value", "b.json", flipped(objects, objects.index(name) + 8))
    land(made.landing, "csv.broken", "b.csv", text.replace(b"I,1,", b"I\x0c1,"))  # a comma with a bit flipped
    land(
        made.landing,
        "json.broken",
        "b.json",
        objects.replace(b'{"Op": "I", "id": 1,', b'{"Op": "I", "id": 1.'),
    )
    land(made.landing, "json.array", "b.json", json.dumps(rows(3)).encode())
    land(made.landing, "json.pretty", "b.json", json.dumps(rows(1)[0], indent=1).encode())
    land(made.landing, "whole.array", "2026-01-01.json", json.dumps(rows(3)).encode())
    land(made.landing, "packed.cut", "2026-01-01.csv.gz", whole["csv_gz"][1][:9000])
    large = rows(3)
    large[1]["name"] = "x" * LARGE
    land(made.landing, "parquet.large", "b.parquet", parquet(large))
    land(made.landing, "csv.large", "b.csv", csv(large))
    land(made.landing, "json.large", "b.json", lines(large))
    return made


@pytest.fixture(scope="module")
def outcome(project: TemporaryProject) -> Outcome:
    return project.attempt()


@pytest.mark.parametrize("name", ["json.array", "json.pretty", "whole.array"])
def test_json_that_is_not_an_object_a_line_is_refused(outcome: Outcome, name: str) -> None:
    said = str(outcome.failed[name])
    assert "[UNREADABLE_FILE]" in said
    assert "none of its lines is a JSON object, and json means an object a line" in said


def test_an_extract_that_ends_early_is_named(outcome: Outcome) -> None:
    said = str(outcome.failed["packed.cut"])
    assert "[UNREADABLE_FILE]" in said
    assert "2026-01-01.csv.gz" in said
    assert "ends early or is damaged" in said


FLIPPED = [n for n in TABLES if ".flip" in n]


@pytest.mark.parametrize("name", FLIPPED)
def test_what_has_a_checksum_is_refused(project: TemporaryProject, outcome: Outcome, name: str) -> None:
    assert name in outcome.failed
    state = project.state(f"{name}_changes")
    assert state is None or state.rows == 0


@pytest.mark.parametrize("name", FLIPPED)
def test_the_damaged_file_is_named(outcome: Outcome, name: str) -> None:
    error: Any = outcome.failed[name]
    assert getattr(error, "code", None) == "UNREADABLE_FILE"
    assert "b." in error.file


@pytest.mark.parametrize("kind", UNCHECKED)
def test_a_value_of_plain_text_is_applied_as_it_came(
    project: TemporaryProject, outcome: Outcome, kind: str
) -> None:
    assert f"{kind}.value" not in outcome.failed
    found = {row["id"]: row["name"] for row in project.rows(f"{kind}.value_changes")}
    sent = {row["id"]: row["name"] for row in rows(3)}
    assert [n for n in sent if found[n] != sent[n]] == [1]


@pytest.mark.parametrize("kind", UNCHECKED)
def test_a_record_that_is_none_any_more_is_set_aside(
    project: TemporaryProject, outcome: Outcome, kind: str
) -> None:
    assert f"{kind}.broken" not in outcome.failed
    assert {row["id"] for row in project.rows(f"{kind}.broken_changes")} == {0, 2}
    assert len(project.rows(f"{kind}.broken_quarantine")) == 1


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_field_of_10_mb_is_applied(project: TemporaryProject, outcome: Outcome, kind: str) -> None:
    assert f"{kind}.large" not in outcome.failed
    assert {row["id"]: len(row["name"]) for row in project.rows(f"{kind}.large")} == {0: 16, 1: LARGE, 2: 16}
