"""Names that mean harm in a landing folder: nothing outside of the source's folder is read."""

from __future__ import annotations

import gzip
import os
from typing import Any

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet, write_text

pytestmark = pytest.mark.spark

SCHEMA = {"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "seq": pa.string()}
# Each is the name of a file that was landed, and no more than that.
NAMES: tuple[str, ...] = (
    "plain", "with blank", "per%20cent", "per%2e%2e%2fcent", "hash#tag", "question?mark", "star*", "list[12]",
    "either{1,2}", "comma,comma", "back\\slash", "tilde~", "$HOME", "plus+and&", "ümlaut", "file:x", "s3:x",
    "http:evil", "a::b", "zip::a", "memory::b", "[a:b]", "quote'", 'double"', "dots..in..it",
    "semi;colon", "-dash",
)  # fmt: skip
OUTSIDE = 666
TABLES = {f"shop.{n}": {"source": "shop", "keys": ["id"]} for n in ("item", "linked", "text")}
SOURCES = {
    "shop": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"},
    "text": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq", "file_format": "csv",
             "csv": {"header": True}},
}  # fmt: skip
TABLES["shop.text"] = {"source": "text", "keys": ["id"], "types": {"id": "bigint"}}


def row(key: int) -> dict[str, Any]:
    return {"Op": "I", "id": key, "name": f"n{key}", "seq": str(key)}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    folder = tmp_path_factory.mktemp("names")
    project = TemporaryProject.make(folder / "project", SOURCES, TABLES)
    outside = write_parquet(folder / "outside/x.parquet", [row(OUTSIDE)], SCHEMA)
    write_text(folder / "outside/x.csv", f"Op,id,name,seq\nI,{OUTSIDE},out,1\n")
    item, text = project.landing / "shop/item", project.landing / "shop/text"
    for key, name in enumerate(NAMES):
        write_parquet(item / f"{name}.parquet", [row(key)], SCHEMA)
        content = f"Op,id,name,seq\nI,{key},n{key},{key}\n"
        write_text(text / f"{name}.csv", content)
    (text / "packed [1].csv.gz").write_bytes(gzip.compress(b"Op,id,name,seq\nI,100,n,100\n"))
    write_parquet(item / "sub folder/[x]/deep.parquet", [row(101)], SCHEMA)
    for inside, suffix in ((item, "parquet"), (text, "csv")):
        (inside / f"link.{suffix}").symlink_to(folder / f"outside/x.{suffix}")
        (inside / f"relative.{suffix}").symlink_to("../" * 8 + str(folder / f"outside/x.{suffix}"))
        (inside / f"folder.{suffix}").symlink_to(folder / "outside")
        (inside / "folder").symlink_to(folder / "outside")
        (inside / f"dangling.{suffix}").symlink_to(folder / "nowhere")
        (inside / f"loop.{suffix}").symlink_to(inside)
        os.mkfifo(inside / f"pipe.{suffix}")
        (inside / f"again.{suffix}").symlink_to(inside / f"plain.{suffix}")
    (project.landing / "shop/linked").symlink_to(folder / "outside")
    assert outside.is_file()
    return project


def test_names_are_names_and_links_lead_nowhere(
    project: TemporaryProject, caplog: pytest.LogCaptureFixture
) -> None:
    failed = project.failures()
    assert set(failed) == {"shop.linked"}, failed
    assert failed["shop.linked"].code == "SOURCE_NOT_FOUND"
    keys = sorted(r["id"] for r in project.rows("shop.item"))
    assert keys == [*range(len(NAMES)), 101]
    keys = sorted(r["id"] for r in project.rows("shop.text"))
    assert keys == [*range(len(NAMES)), 100]
