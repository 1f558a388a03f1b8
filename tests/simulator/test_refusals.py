"""A batch that comes back with other content is refused, and nothing of it is written."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kedro_lakehouse.commits.ingest import IngestionCommit
from kedro_lakehouse.commits.target import must_refold
from kedro_lakehouse.errors import BatchContentChangedError, CommitConflictError
from kedro_lakehouse.ingestion.landing import ingest_batch, landed_batches
from kedro_lakehouse.ingestion.planner import Planner
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile
from simulator.landing import Record, events_of
from simulator.world import World
from simulator.writers import ingest

if TYPE_CHECKING:
    from simulator.world import SimulatedProject

pytestmark = pytest.mark.simulator

ITEM = TableName("shop", "item")
FILE = LandedFile("memory://shop.item/001", 2, 1)
RECORDS = [Record(1, 10, "upsert", "a"), Record(2, 20, "upsert", "b", broken=True)]


class KilledError(Exception):
    """What a run dies of."""


@pytest.fixture
def world() -> World:
    made = World(1)
    made.landed["shop.item"][FILE] = list(RECORDS)
    return made


@pytest.fixture
def killed(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run died after it had published what it set aside, and before the change log."""

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(IngestionCommit, "publish", die)
        with pytest.raises(KilledError):
            ingest(world, world.project("killed").bind(ITEM))
    assert rows(world.project("look"), "quarantine") == ["b"]
    return world


def rows(project: SimulatedProject, role: str) -> list[str]:
    return [r["value"] for r in project.format_of(ITEM).read(ITEM.with_suffix(role)).rows]


def test_a_batch_whose_events_are_the_same_is_finished(killed: World) -> None:
    project = killed.project("again")
    ingest(killed, project.bind(ITEM))
    assert (rows(project, "changes"), rows(project, "quarantine")) == (["a"], ["b"])


def test_a_batch_whose_accepted_events_are_rebuilt_differently_is_refused(killed: World) -> None:
    killed.landed["shop.item"][FILE] = [replace(RECORDS[0], value="other"), RECORDS[1]]
    project = killed.project("again")
    with pytest.raises(BatchContentChangedError, match="rebuilt differently"):
        ingest(killed, project.bind(ITEM))
    assert (rows(project, "changes"), rows(project, "quarantine")) == ([], ["b"])


def test_a_batch_whose_file_was_replaced_is_refused(killed: World) -> None:
    killed.landed["shop.item"] = {replace(FILE, modified=2): list(RECORDS)}
    project = killed.project("again")
    with pytest.raises(BatchContentChangedError, match=r"1 planned files are gone or replaced: 001"):
        ingest(killed, project.bind(ITEM))
    assert (rows(project, "changes"), rows(project, "quarantine")) == ([], ["b"])


def planned_second(world: World) -> tuple[SimulatedProject, Any]:
    """A project that has published its first batch, and has planned the second."""
    project = world.project("first")
    ingest(world, project.bind(ITEM))
    world.landed["shop.item"][LandedFile("memory://shop.item/002", 1, 2)] = [Record(3, 30, "upsert", "c")]
    with contextlib.closing(landed_batches(project.bind(ITEM))) as batches:
        return project, next(batches)


def test_another_batch_of_a_published_number_is_refused(world: World) -> None:
    project, batch = planned_second(world)
    other = replace(batch.token, batch=1, after=0, follows="")
    events = list(events_of(batch.groups, 1, ()))
    with pytest.raises(BatchContentChangedError, match="committed with other content"):
        ingest_batch(project.bind(ITEM), other, accepted=events, rejected=events)
    assert rows(project, "changes") == ["a"]


def test_a_batch_planned_after_a_batch_that_was_not_published_is_refused(world: World) -> None:
    project, batch = planned_second(world)
    events = list(events_of(batch.groups, 2, ()))
    other = replace(batch.token, follows="another plan of batch 1")
    with pytest.raises(CommitConflictError):
        ingest_batch(project.bind(ITEM), other, accepted=events, rejected=events)
    assert rows(project, "changes") == ["a"]


def test_a_target_of_another_change_log_is_folded_again(world: World) -> None:
    project = world.project("first")
    table = project.bind(ITEM)
    ingest(world, table)
    state = project.format_of(ITEM).state(ITEM.with_suffix("changes"))
    assert state is not None
    assert state.bookmark is not None
    assert not must_refold(table, state, state)
    anew = replace(state, bookmark=replace(state.bookmark, content_hash="made anew"))
    assert must_refold(table, state, anew)


def test_the_seconds_of_a_batch_count_the_reading(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listed = Planner.listed

    def slowly(planner: Planner) -> list[LandedFile]:
        time.sleep(0.3)
        return listed(planner)

    monkeypatch.setattr(Planner, "listed", slowly)
    with caplog.at_level(logging.INFO, logger="kedro_lakehouse"):
        ingest(world, world.project("first").bind(ITEM))
    (line,) = [r.getMessage() for r in caplog.records if "shop.item ingestion batch 1" in r.getMessage()]
    found = re.search(r"\((\d+\.\d) s\)", line)
    assert found is not None
    assert float(found[1]) >= 0.3
