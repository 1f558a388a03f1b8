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
NAMES = (
    "plain", "with blank", "per%20cent", "per%2e%2e%2fcent", "hash#tag", "question?mark", "star*", "list[12]",
    "either{1,2}", "comma,comma", "back\\slash", "tilde~", "$HOME", "plus+and&", "ümlaut", "quote'",
    'double"', "dots..in..it", "semi;colon", "-dash", "s3", "file%3A",
)  # fmt: skip
OUTSIDE = 666
COLONS = ("file:x", "s3:x", "http:evil", "zip::a", "[a:b]")
LANDING = {"path": "${globals:landing}/shop", "sequence_column": "seq"}
SOURCES: dict[str, Any] = {
    "shop": LANDING | {"type": "dms"},
    "text": LANDING | {"type": "dms", "file_format": "csv", "csv": {"header": True}},
    "json": {"type": "changes", "path": "${globals:landing}/shop", "file_format": "json"},
    "ext": {"type": "extract", "path": "${globals:landing}/shop", "file_format": "csv",
            "extract_time": {"from": "modified"}},
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.item": {"source": "shop"},
    "shop.linked": {"source": "shop"},
    "shop.text": {"source": "text", "types": {"id": "bigint"}},
    "shop.json": {"source": "json", "types": {"id": "bigint", "n": "bigint"}, "order_by": ["n"]},
    "shop.ext": {"source": "ext", "types": {"id": "bigint"}},
} | {f"colons.c{n}": {"source": "shop"} for n in range(len(COLONS))}


def row(key: int) -> dict[str, Any]:
    return {"Op": "I", "id": key, "name": f"n{key}", "seq": str(key)}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    folder = tmp_path_factory.mktemp("names")
    project = TemporaryProject.make(
        folder / "project", SOURCES, {name: table | {"keys": ["id"]} for name, table in TABLES.items()}
    )
    outside = write_parquet(folder / "outside/x.parquet", [row(OUTSIDE)], SCHEMA)
    write_text(folder / "outside/x.csv", f"Op,id,name,seq\nI,{OUTSIDE},out,1\n")
    item, text = project.landing / "shop/item", project.landing / "shop/text"
    for key, name in enumerate(NAMES):
        write_parquet(item / f"{name}.parquet", [row(key)], SCHEMA)
        content = f"Op,id,name,seq\nI,{key},n{key},{key}\n"
        write_text(text / f"{name}.csv", content)
        write_text(project.landing / f"shop/json/{name}.json", f'{{"id": {key}, "n": {key}}}\n')
    everyone = "".join(f"{key},n\n" for key in range(len(NAMES)))
    write_text(project.landing / "shop/ext/all of [them] 100%.csv", f"id,name\n{everyone}")
    for n, name in enumerate(COLONS):
        write_parquet(project.landing / f"shop/c{n}/{name}.parquet", [row(n)], SCHEMA)
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


@pytest.fixture(scope="module")
def failed(project: TemporaryProject) -> dict[str, BaseException]:
    return project.failures()


EVERY = list(range(len(NAMES)))


@pytest.mark.parametrize(
    ("table", "keys"),
    [("item", [*EVERY, 101]), ("text", [*EVERY, 100]), ("json", EVERY), ("ext", EVERY)],
)
def test_every_file_of_the_folder_is_read_and_no_other(
    project: TemporaryProject, failed: dict[str, BaseException], table: str, keys: list[int]
) -> None:
    assert f"shop.{table}" not in failed
    assert sorted(r["id"] for r in project.rows(f"shop.{table}")) == keys


def test_a_tables_folder_that_is_a_link_out_is_not_followed(failed: dict[str, BaseException]) -> None:
    assert failed["shop.linked"].code == "SOURCE_NOT_FOUND"  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", range(len(COLONS)))
def test_a_name_that_hadoop_takes_for_a_scheme_is_told(failed: dict[str, BaseException], n: int) -> None:
    error = failed[f"colons.c{n}"]
    assert error.code == "UNREADABLE_FILE"  # type: ignore[attr-defined]
    assert f"{COLONS[n]}.parquet" in str(error)


def test_a_position_names_the_file_as_it_landed(
    project: TemporaryProject, failed: dict[str, BaseException]
) -> None:
    told = {r["_position"]["file"].removesuffix(".parquet") for r in project.rows("shop.item_changes")}
    assert told - {"again"} == {*NAMES, "deep"} - ({"plain"} if "again" in told else set())
