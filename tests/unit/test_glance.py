"""Where a table of a format without metadata for Python stands, by the counts of its commits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kedro_lakehouse.ops.glance import glance_of_batches

pytestmark = pytest.mark.unit


def commit(stage, batch, **counts):
    row = {"stage": stage, "batch": batch, "committed_at": datetime(2026, 1, batch, tzinfo=UTC)}
    names = ("applied", "quarantined", "inserted", "deleted", "opened", "removed")
    return row | dict.fromkeys(names) | counts


BATCHES = [
    commit("current", 3, inserted=1, deleted=2),
    commit("ingestion", 1, applied=4, quarantined=1),
    commit("current", 1, inserted=4),
    commit("ingestion", 3, applied=5, quarantined=0),
    commit("history", 1, opened=4, removed=0),
]


@pytest.mark.parametrize(
    ("role", "rows", "batch"), [("current", 3, 3), ("history", 4, 1), ("changes", 9, 3), ("quarantine", 1, 3)]
)
def test_counts_of_all_commits_add_up(role, rows, batch):
    found = glance_of_batches(BATCHES, role)
    assert (found.rows, found.batch, found.committed.day) == (rows, batch, batch)


def test_a_table_without_commits_is_not_there():
    assert glance_of_batches(BATCHES[:1], "history") is None
