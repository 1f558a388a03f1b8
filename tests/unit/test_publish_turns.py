"""Where a store does not refuse the later of two commits, writers take turns and ask before they write."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kedro_lakehouse.errors import CommitConflictError, LeaseLostError
from kedro_lakehouse.formats import turn
from kedro_lakehouse.formats.delta.commit import DeltaCommit
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.names import TableName
from kedro_lakehouse.testing import report

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")


class RecordedLease:
    """A lease that notes what is asked of it; a lost one is another run's when it is confirmed."""

    def __init__(self, *, lost: bool) -> None:
        self.events: list[str] = []
        self._lost = lost

    @contextlib.contextmanager
    def __call__(self, folder: str, table: TableName, stage: str) -> Iterator[RecordedLease]:
        self.events.append(f"taken in {folder}: {table} {stage}")
        yield self
        self.events.append("released")

    def confirm(self) -> None:
        self.events.append("confirmed")
        if self._lost:
            raise LeaseLostError(table=ITEM, stage="publish")


@pytest.fixture
def commit(monkeypatch: pytest.MonkeyPatch) -> DeltaCommit:
    """A commit to a table in S3 that writes nothing, but is there afterwards."""
    log: Any = SimpleNamespace(
        state_version="u:0", head=SimpleNamespace(note=None), schema=[], version_of=lambda _note: 1
    )
    session: Any = None
    monkeypatch.setattr(DeltaCommit, "_own_session", lambda *_: None)
    return DeltaCommit(
        session=session, table=ITEM, path="s3://b/lake/warehouse/shop/item", planned="u:0", log=lambda: log,
        turn=partial(turn.publish_turn, "s3://b/lake/leases"),
    )  # fmt: skip


@pytest.mark.parametrize("lost", [False, True])
def test_a_commit_is_written_in_its_turn_and_right_after_that_is_confirmed(
    monkeypatch: pytest.MonkeyPatch, commit: DeltaCommit, *, lost: bool
) -> None:
    recorded = RecordedLease(lost=lost)
    monkeypatch.setattr(turn, "lease", recorded)
    monkeypatch.setattr(DeltaCommit, "_write", lambda *_: recorded.events.append("written"))
    with pytest.raises(CommitConflictError) if lost else contextlib.nullcontext():
        assert commit(None, report(1), {}, [], 0) == 1
    taken, *others = recorded.events
    assert taken == "taken in s3://b/lake/leases: shop.item publish"
    assert others == (["confirmed"] if lost else ["confirmed", "written", "released"])


@pytest.mark.parametrize(("lakehouse", "takes_turns"), [("s3://b/lake", True), ("/data/lake", False)])
def test_delta_takes_turns_in_s3_alone(
    monkeypatch: pytest.MonkeyPatch, lakehouse: str, *, takes_turns: bool
) -> None:
    recorded = RecordedLease(lost=False)
    monkeypatch.setattr(turn, "lease", recorded)
    context: Any = SimpleNamespace(session=lambda: None, run_id="r", lakehouse=lakehouse, spark_conf={})
    lake = DeltaFormat(context)
    for take in (lake._turn, lake.maintenance._turn):
        with take(ITEM) as confirm:
            confirm()
    assert bool(recorded.events) == takes_turns
