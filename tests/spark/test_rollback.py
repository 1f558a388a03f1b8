"""Going back: readers see an earlier state, and the next run ends in the table that it would have had."""

from __future__ import annotations

import pytest
from harness.project import TemporaryProject, write_text

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES = {
    "shop": {
        "type": "extract", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    }
}  # fmt: skip
TABLES = {
    "shop.item": {
        "source": "shop", "keys": ["id"], "history": True, "max_delete_fraction": 1,
        "properties": {"format-version": "3"},
    }
}  # fmt: skip
STORED = ("shop.item", "shop.item_history")


def land(project: TemporaryProject, day: int, rows: dict[int, str]) -> None:
    lines = "".join(f"{i},{name}\n" for i, name in rows.items())
    write_text(project.landing / f"shop/item/2026-01-{day:02}.csv", f"id,name\n{lines}")
    project.run()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("rollback") / "project", SOURCES, TABLES)
    land(made, 1, {1: "a", 2: "b"})
    land(made, 2, {1: "a2", 2: "b", 3: "c"})
    land(made, 3, {1: "a2", 3: "c3"})
    return made


def stored(project: TemporaryProject) -> dict[str, list[str]]:
    return {table: sorted(map(repr, project.rows(table))) for table in STORED}


def names(project: TemporaryProject) -> dict[int, str]:
    return {int(r["id"]): r["name"] for r in project.rows("shop.item")}


def test_snapshots_tell_which_batch_they_are_of(project, answer):
    found = answer("snapshots", "shop.item", "--limit", "0")
    assert [s["batch"] for s in found if s["batch"]] == [3, 2, 1]
    assert [s["rows"] for s in found if s["batch"]] == [2, 3, 2]
    assert [s["batch"] for s in answer("snapshots", "shop.item_changes") if s["batch"]] == [3, 2, 1]


def test_a_table_changed_by_hand_is_mended(project, answer):
    before = stored(project)
    project._project.session.sql("UPDATE lake.shop.item SET name = 'wrong'")
    assert set(names(project).values()) == {"wrong"}
    done = answer("rollback", "shop.item", "--to-batch", "3", "--yes")
    assert [(s["table"], s["from_batch"], s["batch"]) for s in done["stored"]] == [
        ("shop.item", 3, 3), ("shop.item_history", 3, 3),
    ]  # fmt: skip
    assert stored(project) == before
    assert project.run() == []


@pytest.mark.parametrize("batch", [1, 2])
def test_the_next_run_ends_in_the_same_tables(project, answer, batch):
    before = stored(project)
    answer("rollback", "shop.item", "--to-batch", str(batch), "--yes")
    assert names(project) == {1: {1: "a", 2: "b"}, 2: {1: "a2", 2: "b", 3: "c"}}[batch]
    assert project.state("shop.item").bookmark.batch == batch
    assert answer("tables")[0]["state"] == "waiting"
    project.run()
    assert stored(project) == before
    assert project.state("shop.item_history").bookmark.batch == 3


def test_a_held_table_stays_until_it_is_released(project, answer):
    before = stored(project)
    moment = next(
        s["committed_at"] for s in answer("snapshots", "shop.item", "--limit", "0") if s["batch"] == 2
    )
    assert answer("rollback", "shop.item", "--as-of", moment, "--hold", "--yes")["held"]
    held = stored(project)
    assert held != before
    land(project, 4, {1: "a2", 3: "c4"})
    assert stored(project) == held
    assert answer("tables")[0]["state"] == "held"
    assert answer("rollback", "shop.item", "--release")["released"] == list(STORED)
    project.run()
    assert names(project) == {1: "a2", 3: "c4"}
    assert project.state("shop.item_history").bookmark.batch == 4


def test_a_state_of_before_the_table_was_folded_again_is_refused(project, answer, refusal):
    answer("rebuild", "shop.item", "--yes")
    refused = refusal("rollback", "shop.item", "--to-batch", "2", "--yes")
    assert refused["code"] == "UNSUPPORTED"
    assert "folded again" in refused["message"]
    done = answer("rollback", "shop.item", "--to-batch", "4", "--yes")
    assert [s["batch"] for s in done["stored"]] == [4, 4]


def test_a_tag_names_a_state_and_what_is_not_there_is_refused(project, answer, refusal):
    listed = answer("snapshots", "shop.item", "--limit", "0")
    first = next(s["snapshot_id"] for s in listed if s["batch"] == 2)
    assert answer("tag", "shop.item", "audit_2026", "--snapshot", str(first))["snapshot_id"] == first
    rows = answer("sql", "select name from shop.item version as of 'audit_2026'", "--engine", "spark")
    assert sorted(r["name"] for r in rows) == ["a2", "b", "c"]
    assert answer("tag", "shop.item", "audit_2026", "--delete")["deleted"]
    for words in (("--to-batch", "9"), ("--to-snapshot", "17"), ("--as-of", "2020-01-01")):
        assert refusal("rollback", "shop.item", *words, "--yes")["code"] == "NO_SUCH_SNAPSHOT"
    assert refusal("rollback", "shop.item", "--yes")["code"] == "USAGE"
    assert refusal("tag", "shop.item", "main")["code"] == "USAGE"


def test_what_is_tried_on_a_branch_no_reader_sees(project, answer, refusal):
    before = project.state("shop.item")
    begun = answer("branch", "shop.item", "try_out")
    assert (
        begun["snapshot_id"]
        == next(s for s in answer("snapshots", "shop.item") if s["on_main"])["snapshot_id"]
    )
    session = project._project.session
    session.sql("DELETE FROM lake.shop.item.branch_try_out")
    tried = "select count(*) as n from shop.item version as of 'try_out'"
    assert [r["n"] for r in answer("sql", tried, "--engine", "spark")] == [0]
    assert (project.state("shop.item").snapshot_id, len(project.rows("shop.item"))) == (
        before.snapshot_id, before.rows,
    )  # fmt: skip
    assert [
        s["names"]
        for s in answer("snapshots", "shop.item", "--limit", "0")
        if not s["on_main"] and s["names"]
    ]
    assert refusal("tag", "shop.item", "try_out")["code"] == "UNSUPPORTED"
    assert answer("branch", "shop.item", "try_out")["snapshot_id"] == begun["snapshot_id"]
    assert [r["n"] for r in answer("sql", tried, "--engine", "spark")] == [before.rows]
    assert answer("branch", "shop.item", "try_out", "--delete")["deleted"]
    assert refusal("branch", "shop.item", "try_out", "--delete")["code"] == "NO_SUCH_SNAPSHOT"
