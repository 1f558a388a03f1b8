"""Maintenance beside a writer that it does not know of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.maintain import maintain_table
from kedro_lakehouse.sources.files import LandedFile
from simulator.landing import Record
from simulator.world import World
from simulator.writers import ingest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator

ITEM = TableName("shop", "item")
CHANGES = ITEM.with_suffix("changes")


@pytest.fixture
def land() -> tuple[World, Callable[[int], None]]:
    """A world, and how a run there lands one more record and ingests it."""
    world = World(1)

    def one_more(number: int) -> None:
        file = LandedFile(f"memory://shop.item/{number:03}", 1, number)
        world.landed["shop.item"][file] = [Record(number, number * 10, "upsert", f"v{number}")]
        ingest(world, world.project(f"run {number}").bind(ITEM))

    return world, one_more


def test_a_compaction_that_loses_a_race_is_done_again(
    land: tuple[World, Callable[[int], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, one_more = land
    one_more(1)
    one_more(2)
    swap, raced = world.lake.swap, list[str]()

    def another_commits_first(table: TableName, found: object, changed: object) -> bool:
        if not raced:
            raced.append(str(table))
            one_more(3)
        return swap(table, found, changed)

    monkeypatch.setattr(world.lake, "swap", another_commits_first)
    project = world.project("maintenance")
    reports = {r.table: r for r in maintain_table(project, project.bind(ITEM))}

    assert raced == ["shop.item_changes"]
    assert "compact" in [a.work for a in reports["shop.item_changes"].actions]
    assert reports["shop.item_changes"].after.files == 1
    assert [r["value"] for r in project.format_of(ITEM).read(CHANGES).rows] == ["v1", "v2", "v3"]
