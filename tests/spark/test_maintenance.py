"""Maintenance: fewer and smaller files, the same rows and bookmarks; nothing where nothing is due."""

from __future__ import annotations

import datetime as dt
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from harness.project import TemporaryProject, write_text

from kedro_lakehouse.config.maintenance import ExpireConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.maintain import maintain_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ITEM = TableName("shop", "item")
STORED = ("shop.item", "shop.item_history", "shop.item_changes", "shop.item_quarantine")
SOURCES = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op",
    }
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.item": {
        "source": "shop", "keys": ["id"], "order_by": ["n"], "effective_time": "ts", "history": True,
        "types": {"id": "int", "n": "int", "ts": "timestamp_ntz"}, "max_invalid_fraction": 1,
    },
    "shop.copy": {
        "source": "shop", "entity": "item", "keys": ["id"], "order_by": ["n"], "effective_time": "ts",
        "types": {"id": "int", "n": "int", "ts": "timestamp_ntz"}, "max_invalid_fraction": 1,
    },
}  # fmt: skip
ROUNDS = 6


def land(project: TemporaryProject, number: int, lines: list[str]) -> Path:
    text = "op,id,name,n,ts\n" + "".join(f"{line}\n" for line in lines)
    return write_text(project.landing / f"shop/item/{number:03}.csv", text)


def events(number: int) -> list[str]:
    day = f"2026-01-{number:02} 00:00:00"
    told = [f"U,{i},v{number},{number},{day}" for i in range(number, 40, 3)]
    return [*told, f"D,{number},,{number},{day}", *(["U,,none,9," + day] if number == 2 else [])]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("maintenance") / "project", SOURCES, TABLES)
    made.set_globals(small_batch=0)  # small batches leave few small files themselves
    for number in range(1, ROUNDS + 1):
        land(made, number, events(number))
        made.run(namespaces=["shop.item"])
        if number == 2:  # as another engine compacts: deletes of files that are gone stay behind
            options = "options => map('rewrite-all', 'true')"
            made._project.session.sql(f"CALL lake.system.rewrite_data_files(table => 'shop.item', {options})")
    return made


@pytest.fixture(scope="module")
def before(project: TemporaryProject) -> dict[str, Any]:
    return {t: sorted(map(repr, project.rows(t))) for t in STORED} | {
        "bookmarks": [project.state(t).bookmark for t in STORED],
        "snapshots": [project.state(t).snapshot_id for t in STORED],
        "files": {t: files(project, t) for t in STORED},
        "names": names(project),
    }


def names(project: TemporaryProject) -> dict[int, str]:
    return {r["id"]: r["name"] for r in project.rows("shop.item", "id,name")}


def files(project: TemporaryProject, table: str) -> int:
    found = project._project.catalog.find(TableName(*table.split(".")))
    return len(found.inspect.files())


def expiring(project: TemporaryProject) -> None:
    """Let every snapshot but the newest be old: a test cannot wait for an hour."""
    settings = project._project.maintenance
    expire = ExpireConfig.model_construct(older_than=dt.timedelta(0), keep=1)
    project._project.maintenance = settings.model_copy(update={"expire": expire})


def test_a_dry_run_tells_what_is_due_and_changes_nothing(project, before, answer):
    told = {
        r["table"]: [a["work"] for a in r["actions"]] for r in answer("maintain", "shop.item", "--dry-run")
    }
    assert told["shop.item"] == told["shop.item_changes"] == ["compact"]
    assert told["shop.item_quarantine"] == []
    assert {t: files(project, t) for t in STORED} == before["files"]
    assert project.ops("maintenance") == []


def test_small_files_become_few_and_rows_and_bookmarks_stay(project, before):
    project.run("maintenance", namespaces=["shop.item"])
    for table in STORED:
        assert sorted(map(repr, project.rows(table))) == before[table]
    assert [project.state(t).bookmark for t in STORED] == before["bookmarks"]
    # What is made from these tables, or judges them, does not take it for a change.
    assert [project.state(t).snapshot_id for t in STORED] == before["snapshots"]
    assert [project.state(t).rows for t in STORED] == [len(project.rows(t)) for t in STORED]
    assert before["files"]["shop.item"] >= 5
    assert files(project, "shop.item") == files(project, "shop.item_history") == 1
    assert files(project, "shop.item_changes") <= 2  # a partition an operation
    row = next(r for r in project.ops("maintenance") if r["table"] == "shop.item")
    assert (row["actions"], row["delete_files_after"]) == (["compact"], 0)
    assert row["files_before"] + row["delete_files_before"] == before["files"]["shop.item"]
    # One for the data, and up to two that say which data and deletes Iceberg has just removed.
    assert row["manifests_after"] <= 3 < row["manifests_before"]


def test_nothing_is_done_where_nothing_is_due(project, answer):
    snapshots = {t: project.state(t).snapshot_id for t in STORED}
    rows = len(project.ops("maintenance"))
    assert not any(r["actions"] for r in answer("maintain", "shop.item"))
    assert {t: project.state(t).snapshot_id for t in STORED} == snapshots
    assert len(project.ops("maintenance")) == rows


def test_a_replay_after_expiry_adds_no_row(project, before):
    expiring(project)
    maintain_table(project._project, project._project.bind(ITEM))
    catalog = project._project.catalog
    assert {len(catalog.find(TableName(*t.split("."))).metadata.snapshots) for t in STORED} == {1}
    for table in STORED:
        assert sorted(map(repr, project.rows(table))) == before[table]
    assert project.run(namespaces=["shop.item"]) == []
    land(project, 1, events(1))  # the first file again, with another time: its events are known
    project.run(namespaces=["shop.item"])
    assert project.state("shop.item_changes").rows == len(before["shop.item_changes"])
    assert names(project) == before["names"]


def test_orphans_go_and_a_writers_files_stay(project):
    lake, name = project._project.format_of(ITEM), ITEM
    folder = Path(project._project.catalog.find(name).location().removeprefix("file:")) / "data"
    old = dt.datetime.now(dt.UTC).timestamp() - 10 * 86400
    orphan, fresh = folder / "orphan.parquet", folder / "fresh.parquet"
    for path in (orphan, fresh):
        path.write_bytes(b"PAR1")
    os.utime(orphan, (old, old))
    state = lake.state(name)
    rows = lake.read(name)
    with lake.stage(name, state) as stage:
        stage.append(rows.limit(3))  # a writer at work, of which every file looks ten days old
        for path in folder.rglob("*.parquet"):
            if path != fresh:
                os.utime(path, (old, old))
        live = set(folder.rglob("*.parquet"))
        assert [
            r.actions
            for r in maintain_table(project._project, project._project.bind(ITEM))
            if r.table == "shop.item"
        ] == [[]]
        assert set(folder.rglob("*.parquet")) == live
        assert stage.staged().count() == state.rows + 3
        stage.drop()
    report = next(
        r for r in maintain_table(project._project, project._project.bind(ITEM)) if r.table == "shop.item"
    )
    assert "remove_orphan_files" in [a.work for a in report.actions]
    assert not orphan.exists()
    assert fresh.exists()
    assert len(project.rows("shop.item")) == state.rows


def test_landed_files_are_archived_when_every_reader_has_them(project, answer, before):
    archive = project.path / "archive"
    project.write("maintenance", {"landing": {"archive": str(archive), "older_than": "0 seconds"}})
    folder = project.landing / "shop/item"
    landed = {path.name: (path.stat().st_size, path.stat().st_mtime) for path in folder.iterdir()}
    assert not archive.exists()
    answer("maintain", "shop.item")
    assert set(landed) == {path.name for path in folder.iterdir()}  # shop.copy lacks them
    project.run()
    done = next(r for r in answer("maintain", "shop.item") if r["table"] == "shop.item (landing)")
    assert done["actions"][0]["files"] == len(landed) - 1
    assert [path.name for path in folder.iterdir()] == ["002.csv"]  # an event of it is quarantined
    assert project.run() == []
    [bundle] = (archive / "shop").glob("*.tar.gz")
    left = landed["002.csv"][0]
    assert (done["before"]["files"], done["after"]["files"]) == (len(landed), 2)
    assert done["before"]["bytes"] == sum(size for size, _ in landed.values())
    assert done["after"]["bytes"] == left + bundle.stat().st_size < done["before"]["bytes"]
    with tarfile.open(bundle) as packed:
        packed.extractall(project.landing / "shop", filter="data")
    put_back = {path.name: (path.stat().st_size, path.stat().st_mtime) for path in folder.iterdir()}
    assert put_back == landed
    assert project.run() == []  # they are known by name, size and time
    assert len(project.rows("shop.item_changes")) == len(before["shop.item_changes"])


def test_the_projects_own_tables_are_maintained_too(project, answer):
    rows = len(project.ops("batches"))
    folder = Path(project._project.catalog.find(TableName.ops("batches")).location().removeprefix("file://"))
    orphan = folder / "data/replaced.parquet"  # as an append leaves it that makes one file of many
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (0, 0))
    answer("maintain")
    assert not orphan.exists()
    assert len(project.ops("batches")) == rows
