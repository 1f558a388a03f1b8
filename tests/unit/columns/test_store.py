"""The signature table and its history: one commit a change, nothing where nothing changed."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from harness.columns_lake import CITIES, describe
from harness.project import ROOT

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.column_search.signature import from_arrow, to_arrow
from kedro_lakehouse.column_search.store import HISTORY, SIGNATURES, SignatureChange, SignatureStore
from kedro_lakehouse.project import _Active
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

SPARK = """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:{root}/lake/catalog.db
spark.sql.catalog.lake.warehouse: {root}/lake/warehouse
"""


@pytest.fixture
def store(tmp_path):
    conf = {
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "warehouse"),
    }
    return SignatureStore(MetadataCatalog(conf), str(tmp_path / "leases"))


def versions(store):
    rows = store._catalog.find(HISTORY).scan().to_arrow().to_pylist()
    told = [(r["column"], r["is_current"], r["effective_to"] is None) for r in rows]
    return sorted(told)


def test_signatures_come_back_as_they_went(signatures):
    again = from_arrow(to_arrow(signatures))
    for one, other in zip(signatures, again, strict=True):
        assert (other.profile, other.texts, other.fingerprint) == (one.profile, one.texts, one.fingerprint)
        assert other.vectors.keys() == one.vectors.keys()
        assert all(np.array_equal(other.vectors[a], one.vectors[a]) for a in one.vectors)


def test_a_changed_column_has_two_versions_and_a_dropped_one_an_end(store, embedder):
    first = describe(("s", "t"), {"city": CITIES, "n": [1, 2] * 4, "old": ["x"] * 8}, embedder)
    assert store.apply(SignatureChange(first)).inserted == 3
    second = describe(("s", "t"), {"city": CITIES, "n": [7, 8] * 4}, embedder, version="2")
    gone = {("s.t.old", "hash")}
    applied = store.apply(SignatureChange(second, gone))
    assert (applied.number, applied.inserted, applied.updated, applied.deleted) == (2, 0, 2, 1)
    assert [(one.profile.name, one.table.version) for one in store.read("hash")] == [
        ("city", "2"),
        ("n", "2"),
    ]
    assert versions(store) == [
        ("city", True, True), ("n", False, False), ("n", True, True), ("old", False, False),
    ]  # fmt: skip


def test_nothing_to_change_writes_nothing(store, signatures):
    assert store.apply(SignatureChange()) is None
    assert store.snapshot_id() is None
    store.apply(SignatureChange(signatures))
    before = [store._catalog.find(name).metadata_location for name in (SIGNATURES, HISTORY)]
    assert store.apply(SignatureChange()) is None
    assert [store._catalog.find(name).metadata_location for name in (SIGNATURES, HISTORY)] == before


def test_a_history_that_a_killed_run_left_behind_is_completed(store, signatures, monkeypatch):
    monkeypatch.setattr(SignatureStore, "_complete_history", lambda _: None)
    store.apply(SignatureChange(signatures[:3]))
    store.apply(SignatureChange(signatures[3:]))
    assert store._catalog.find(HISTORY) is None
    monkeypatch.undo()
    assert store.apply(SignatureChange()) is None
    assert len(versions(store)) == len(signatures)


def test_vectors_are_known_by_their_fingerprints(store, signatures):
    store.apply(SignatureChange(signatures))
    wanted = signatures[1]
    found = store.vectors({wanted.fingerprint, "none"})
    assert set(found) == {wanted.fingerprint}
    assert np.array_equal(found[wanted.fingerprint]["name"], wanted.vectors["name"])


def test_models_stand_side_by_side(store, embedder):
    class Other(type(embedder)):
        model_id = "other"

    data = {"city": CITIES}
    for model in (embedder, Other()):
        store.apply(SignatureChange(describe(("s", "t"), data, model)))
    assert store.models() == ["hash", "other"]
    store.apply(SignatureChange((), {("s.t.city", "other")}))
    assert store.models() == ["hash"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run ``kedro lakehouse search`` in a project whose model is ``hash``."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), encoding="utf-8")
    for folder in ("src", "conf/base", "conf/local", "data"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "conf/base/spark.yml").write_text(SPARK.format(root=tmp_path), encoding="utf-8")
    (tmp_path / "conf/base/parameters.yml").write_text("column_index: {models: [hash]}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_Active, "project", None)

    def search(*words, fails=False):
        ended = CliRunner().invoke(lakehouse, ["search", *map(str, words)])
        assert (ended.exit_code != 0) is fails, ended.output
        return ended

    return search


def test_files_are_added_found_and_forgotten(run, tmp_path):
    (tmp_path / "data/towns.csv").write_text("town,zcode\nBonn,53111\nKiel,24103\n", encoding="utf-8")
    (tmp_path / "data/people.csv").write_text("email,town\na.canary@mail.org,Bonn\n", encoding="utf-8")
    assert "No column is indexed" in run("town", fails=True).output
    assert "4 columns indexed, 4 embedded" in run("--add", tmp_path / "data").output
    assert "0 columns indexed, 0 embedded" in run("--add", tmp_path / "data").output
    hits = json.loads(run("zip code", "--json", "-k", 1).stdout)
    assert (hits[0]["column_id"], hits[0]["location"]) == (
        "files.towns.zcode",
        str(tmp_path / "data/towns.csv"),
    )
    assert "canary" not in run("email", "--explain").output
    (tmp_path / "data/people.csv").unlink()
    (tmp_path / "data/towns.csv").write_text("town,zcode\nBonn,53111\nKiel,99999\n", encoding="utf-8")
    assert "2 columns indexed, 1 embedded" in run("--add", tmp_path / "data").output
    assert "people" not in run("town", "-k", 100).output


def test_a_path_that_is_not_there_is_told_without_words_about_batches(run):
    said = run("--add", "/nosuch", fails=True).stderr
    assert "/nosuch cannot be read (there is no such file or folder)." in said
    assert "batch" not in said


def test_tables_that_were_never_indexed_are_told(run, tmp_path):
    conf = dict(line.split(": ", 1) for line in SPARK.format(root=tmp_path).split("\n") if line)
    lake = MetadataCatalog(conf)
    lake.ensure_namespace("shop")
    for name in ("item", "item_changes"):
        table = lake.catalog.create_table(f"shop.{name}", schema=pa.schema({"id": pa.int64()}))
        table.append(pa.table({"id": [1]}))
    (tmp_path / "data/towns.csv").write_text("town,zcode\nBonn,53111\n", encoding="utf-8")
    ended = run("--add", tmp_path / "data", "town")
    told = "1 table is not in the index (shop.item): `kedro run --pipelines=column_index` indexes all."
    assert told in ended.stderr
    assert "files.towns.town" in ended.stdout


def test_to_open_a_search_imports_neither_pyiceberg_nor_pandas(run, tmp_path):
    (tmp_path / "data/towns.csv").write_text("town,zcode\nBonn,53111\n", encoding="utf-8")
    run("--add", tmp_path / "data")
    code = """
import sys
from pathlib import Path
from kedro.framework.startup import bootstrap_project
from kedro_lakehouse.column_search.project_search import open_search, tables_not_indexed
from kedro_lakehouse.project import Project
bootstrap_project(Path.cwd())
project = Project.load(str(Path("conf").absolute()), None)
search = open_search(project)
assert len(search.table("files.towns")) == 2
assert tables_not_indexed(project, search) == []
print([name for name in ("pandas", "pyiceberg", "sqlalchemy") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_file_finds_tables_and_joins(run, tmp_path):
    (tmp_path / "data/towns.csv").write_text(
        "town,zcode\n" + "\n".join(f"{c},{n}" for n, c in enumerate(CITIES)), encoding="utf-8"
    )
    (tmp_path / "mine.csv").write_text("place\nBonn\nKIEL\nnowhere\n", encoding="utf-8")
    run("--add", tmp_path / "data")
    union = json.loads(run("--file", tmp_path / "mine.csv", "--unionable", "--json").stdout)
    assert [table["table"] for table in union] == ["towns"]
    joins = json.loads(run("--file", tmp_path / "mine.csv", "--joinable", "--verify", "--json").stdout)
    assert joins[0]["joins"][0]["exact"] == pytest.approx(2 / 3)
    assert "files.towns" in run("--file", tmp_path / "mine.csv").output
    assert "files.towns.zcode" in run("--like", "files.towns.town").output


@pytest.mark.parametrize(
    "words",
    [[], ["a", "--like", "x.y.z"], ["a", "--joinable"], ["--like", "x.y.z", "--joinable", "--unionable"],
     ["--add", "gone.csv"], ["a", "--model", "hashh"]],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(run, words):
    assert "Traceback" not in run(*words, fails=True).output
