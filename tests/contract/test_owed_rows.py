"""The row of a commit whose run was killed before it wrote it; nobody else writes that of a run at work."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kedro_lakehouse.commits.acknowledge import write_unrecorded_commits
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.report import BOOKMARK
from kedro_lakehouse.ops.store import BATCHES

pytestmark = pytest.mark.contract

ITEM = TableName("shop", "item")


@pytest.fixture
def project(open_project, commit):
    """A table that was published, and of which nothing is told yet."""
    made = open_project({})
    commit(made, "shop.item", "current", datetime(2026, 1, 1, tzinfo=UTC))
    return made


def test_the_next_run_writes_what_a_killed_one_owes_once(project):
    assert [write_unrecorded_commits(project.ops, [project.bind(ITEM)]) for _ in range(2)] == [1, 0]
    assert [(r["table"], r["stage"], r["batch"]) for r in project.ops.read(BATCHES)] == [
        ("shop.item", "current", 2)
    ]


def test_a_process_that_goes_on_reads_the_rows_of_new_batches_alone(project, monkeypatch):
    """Five commits, of which the rows of the third and the fifth are missing, as after two killed runs."""
    read, seen = project.ops.read, []

    def counted(*given, **options):
        seen.append(len(found := read(*given, **options)))
        return found

    def publish(batch, *, has_row):
        state = project.format_of(ITEM).state(ITEM)
        report = replace(
            state.bookmark, batch=batch, content_hash=f"x{batch}", follows=state.bookmark.content_hash
        )
        table = project.catalog.find(ITEM)
        with table.transaction() as work:
            work.set_properties({BOOKMARK: report.to_property()})
        if has_row:
            project.ops.append(BATCHES, [report.row(state.snapshot_id)])

    monkeypatch.setattr(project.ops, "read", counted)
    owed = [write_unrecorded_commits(project.ops, [project.bind(ITEM)])]
    for batch, has_row in ((3, True), (4, False), (5, True), (6, False)):
        publish(batch, has_row=has_row)
        seen.clear()
        owed.append(write_unrecorded_commits(project.ops, [project.bind(ITEM)]))
        assert max(seen) <= 2
    assert owed == [1, 0, 1, 0, 1]
    assert sorted(row["batch"] for row in read(BATCHES)) == [2, 3, 4, 5, 6]


def test_a_table_that_was_made_anew_owes_its_rows_again(project, commit):
    write_unrecorded_commits(project.ops, [project.bind(ITEM)])
    project.catalog.purge(ITEM)
    commit(project, "shop.item", "current", datetime(2026, 1, 2, tzinfo=UTC))
    assert [write_unrecorded_commits(project.ops, [project.bind(ITEM)]) for _ in range(2)] == [1, 0]
    assert len(project.ops.read(BATCHES)) == 2


def test_what_a_run_at_work_is_about_to_write_is_not_owed(project, open_project, monkeypatch):
    other, looked = open_project({}), threading.Event()

    def look(*_, read=other.ops.read, **options):
        found = read(BATCHES, **options)
        looked.set()
        return found

    monkeypatch.setattr(other.ops, "read", look)
    starting = threading.Thread(target=write_unrecorded_commits, args=(other.ops, [other.bind(ITEM)]))
    with lease(project.leases, ITEM, "current"):  # published, and about to tell of it
        starting.start()
        assert looked.wait(30)
        state = project.format_of(ITEM).state(ITEM)
        project.ops.append(BATCHES, [state.bookmark.row(state.snapshot_id)])
    starting.join(30)
    assert len(project.ops.read(BATCHES)) == 1
