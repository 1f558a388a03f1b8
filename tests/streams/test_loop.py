"""The loop of ``kedro lakehouse stream``: it runs what is new, tries again what failed, and can be ended."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject, write_text

from kedro_lakehouse import streaming
from kedro_lakehouse.errors import UnknownNameError
from kedro_lakehouse.ingestion.planner import STOPPING
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.streaming import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

pytestmark = pytest.mark.streams

SOURCES = {"shop": {"type": "changes", "path": "${globals:landing}", "file_format": "json"}}
ROW = {"source": "shop", "keys": ["id"], "order_by": ["at"], "types": {"id": "long", "at": "long"}}
TABLES: dict[str, Any] = {
    "shop.item": ROW,
    "shop.other": ROW,
    "shop.names": {
        "keys": ["id"],
        "derive": {"inputs": {"item": "shop.item"}, "sql": "SELECT id, name FROM item"},
    },
}  # fmt: skip


@pytest.fixture
def project(make_project: Callable[..., TemporaryProject]) -> Iterator[TemporaryProject]:
    """A project of files of changes. ``STOPPING``, which belongs to the process, is cleared afterwards."""
    made = make_project(SOURCES, TABLES)
    for table in ("item", "other"):
        (made.landing / table).mkdir()
    yield made
    STOPPING.clear()


def land(project: TemporaryProject, table: str, number: int, *rows: dict[str, Any]) -> None:
    """Land one file of a table."""
    write_text(project.landing / table / f"{number:03}.json", "".join(json.dumps(r) + "\n" for r in rows))


def names(project: TemporaryProject, table: str) -> dict[int, str]:
    """The names of a table's rows by key."""
    return {r["id"]: r["name"] for r in project.rows(table)}


def data_files(project: Project, table: str) -> int:
    """How many data files a reader of a table opens."""
    stored = project.catalog.find(TableName.parse(table))
    assert stored is not None
    return len(list(stored.scan().plan_files()))


def loop(project: TemporaryProject, **options: Any) -> tuple[Stream, list[str]]:
    """Run the loop until nothing is new; itself, and what failed at last."""
    made = Stream(folder=project.path, env=None, every=0.1, **options)
    return made, made.run(Project.load(str(project.path / "conf"), None), until_idle=True)


def test_the_loop_runs_what_is_new_until_nothing_is(
    project: TemporaryProject, call: Callable[..., Result]
) -> None:
    land(project, "item", 1, {"id": 1, "at": 1, "name": "a"}, {"id": 2, "at": 1, "name": "b"})
    ended = call("stream", "--until-idle", "--every", "1 s")
    assert ended.exit_code == 0, (ended.output, ended.exception)
    assert names(project, "shop.item") == names(project, "shop.names") == {1: "a", 2: "b"}
    land(project, "item", 2, {"id": 1, "at": 2, "name": "later"})
    made, failed = loop(project)
    assert (made.cycles, failed) == (1, [])
    assert names(project, "shop.names") == {1: "later", 2: "b"}
    assert {r["batch"] for r in project.ops("batch_ledger") if r["table"] == "shop.item"} == {1, 2}
    made, failed = loop(project)
    assert (made.cycles, failed) == (0, []), "nothing was new"


def test_a_table_that_fails_is_tried_later_and_the_others_go_on(project: TemporaryProject) -> None:
    land(project, "item", 1, {"id": 1, "at": 1, "name": "a"})
    land(project, "other", 1, {"id": 1, "name": "no order"})
    made, failed = loop(project)
    assert failed == ["shop.other"]
    assert names(project, "shop.item") == {1: "a"}
    pause = made._troubles["shop.other"].next_try - time.monotonic()
    assert 0 < pause <= 2
    (project.landing / "other/001.json").unlink()
    land(project, "other", 1, {"id": 1, "at": 5, "name": "mended"})
    made._troubles["shop.other"].next_try = 0.0
    assert made.run(Project.load(str(project.path / "conf"), None), until_idle=True) == []
    assert names(project, "shop.other") == {1: "mended"}


def test_told_to_end_it_ends_after_the_batch_in_hand(project: TemporaryProject) -> None:
    project.declare({"shop": SOURCES["shop"] | {"max_files": 1}}, TABLES)
    for number in range(1, 9):
        land(project, "item", number, {"id": number, "at": 1, "name": f"n{number}"})
    records = Project.load(str(project.path / "conf"), None).ops

    def tell() -> None:
        while not [r for r in records.read("batch_ledger") if r["table"] == "shop.item"]:
            time.sleep(0.05)
        STOPPING.set()

    teller = threading.Thread(target=tell)
    teller.start()
    made, failed = loop(project)
    teller.join()
    assert (made.cycles, failed) == (1, [])
    done = len(names(project, "shop.item"))
    assert 1 <= done < 8
    assert names(project, "shop.item") == {n: f"n{n}" for n in range(1, done + 1)}
    STOPPING.clear()
    loop(project)
    assert len(names(project, "shop.item")) == 8


def test_what_waits_is_told_when_it_is_asked_for(project: TemporaryProject) -> None:
    land(project, "item", 1, {"id": 1, "at": 1, "name": "a"})
    loop(project)
    for number in (2, 3):
        land(project, "item", number, {"id": number, "at": 1, "name": "b"})
    listed = project.command("lakehouse", "tables", "--waiting", "--json")
    waits = {row["table"]: row["waiting"] for row in json.loads(listed.stdout)}
    size = sum((project.landing / f"item/{number:03}.json").stat().st_size for number in (2, 3))
    assert waits == {
        "shop.item": {"files": 2, "bytes": size, "records": None, "seconds": None},
        "shop.names": None,
        "shop.other": {"files": 0, "bytes": 0, "records": None, "seconds": None},
    }
    assert "2 files" in project.command("lakehouse", "tables", "--waiting").stdout


def test_a_table_that_is_written_often_is_maintained_between_batches(project: TemporaryProject) -> None:
    made = Stream(folder=project.path, env=None, every=0.1, maintain_every=0.0)
    opened = Project.load(str(project.path / "conf"), None)
    for number in range(1, 9):
        land(project, "item", number, {"id": 1, "at": number, "name": f"n{number}"})
        assert made.run(opened, until_idle=True) == []
    assert names(project, "shop.item") == {1: "n8"}
    maintained = [r["table"] for r in project.ops("maintenance")]
    assert "shop.item_changes" in maintained
    rows = [r for r in project.ops("maintenance") if r["table"] == "shop.item_changes"]
    assert all(r["files_after"] < r["files_before"] for r in rows if "compact" in str(r["actions"]))
    assert len([r for r in project.ops("batch_ledger") if r["table"] == "shop.item"]) == 8


def test_a_table_at_rest_has_one_file(project: TemporaryProject, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Project.load(str(project.path / "conf"), None)
    made = Stream(folder=project.path, env=None, every=0.1)
    for number in (1, 2, 3):
        land(project, "item", number, {"id": number, "at": number, "name": f"n{number}"})
        assert made.run(opened, until_idle=True) == []
    assert data_files(opened, "shop.item") > 1, "a table that is written is left alone"
    monkeypatch.setattr(streaming, "_QUIET", 0.0)
    made.run(opened, seconds=3)
    assert data_files(opened, "shop.item") == data_files(opened, "shop.names") == 1
    assert names(project, "shop.item") == names(project, "shop.names") == {n: f"n{n}" for n in (1, 2, 3)}
    once = len(project.ops("maintenance"))
    made.run(opened, until_idle=True)
    assert len(project.ops("maintenance")) == once, "nothing came since"


def test_namespaces_choose_tables_and_a_wrong_one_is_named(project: TemporaryProject) -> None:
    for table in ("item", "other"):
        land(project, table, 1, {"id": 1, "at": 1, "name": "a"})
    made, _ = loop(project, namespaces=["shop.other"])
    assert made.cycles == 1
    assert names(project, "shop.other") == {1: "a"}
    assert not Path(project.path, "lakehouse/shop/item").exists()
    with pytest.raises(UnknownNameError, match="shp"):
        loop(project, namespaces=["shp"])
