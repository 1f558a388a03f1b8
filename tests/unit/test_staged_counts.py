"""A batch whose staged rows are not those that were read is staged again, and then refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.event_frames import EventFrames
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.errors import AuditFailedError
from kedro_lakehouse.formats.base import TableState

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE = 7
STATE = TableState(columns={}, bookmark=None, snapshot_id=None, rows=BEFORE)


class Staging:
    """A stage that holds the next of the given row counts each time, and knows how often it was dropped."""

    def __init__(self, *rows: int) -> None:
        self._rows = iter(rows)
        self.drops = 0

    def rows(self) -> int:
        return BEFORE + next(self._rows)

    def drop(self) -> None:
        self.drops += 1


def written(stage: Staging, read: Sequence[tuple[int, int]], at_least: int = 0) -> Staged:
    """Write a batch that is read, at each attempt, as so many events, of which so many are accepted."""
    token = BatchToken(table="a.b", batch=1, after=0, content_hash="h", at_least=at_least)
    nothing: Any = None
    frames = EventFrames(
        nothing, TableContract(table="a.b", keys=("id",)), token, accepted=nothing, rejected=nothing
    )
    found = iter([Staged(events_in=events, quarantined=0, applied=applied) for events, applied in read])
    frames._write = lambda *_, **__: next(found)  # type: ignore[method-assign]
    return frames._written(stage, STATE)  # type: ignore[arg-type]


def test_rows_that_agree_are_taken_at_once() -> None:
    assert written(stage := Staging(5), [(5, 5)]).applied == 5
    assert stage.drops == 0


def test_lost_rows_are_staged_again() -> None:
    assert written(stage := Staging(4, 5), [(5, 5), (5, 5)]).applied == 5
    assert stage.drops == 1


def test_events_that_the_plan_counted_are_read_again() -> None:
    assert written(stage := Staging(4, 5), [(4, 4), (5, 5)], at_least=5).applied == 5
    assert stage.drops == 1


def test_counts_that_never_agree_are_refused() -> None:
    with pytest.raises(AuditFailedError, match="staged rows"):
        written(stage := Staging(4, 6, 4), [(5, 5)] * 3)
    assert stage.drops == 3
