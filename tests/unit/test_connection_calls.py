"""A driver's calls over a connection that another thread ends: it is closed once, and never under a call."""

from __future__ import annotations

import threading

import pytest

from kedro_lakehouse.pulls.errors import TransientFault
from kedro_lakehouse.pulls.sql import reader
from kedro_lakehouse.pulls.sql.reader import Calls

pytestmark = pytest.mark.unit


class Line:
    """A connection with a call that comes back when it is let go."""

    def __init__(self) -> None:
        self.calls, self.done = Calls(), []
        self.is_called, self.is_let_go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._call)

    def _call(self) -> None:
        try:
            with self.calls.one():
                self.is_called.set()
                self.is_let_go.wait(10)
                self.done.append("came back")
        except TransientFault:
            self.done.append("ended")

    def call(self) -> None:
        self.thread.start()
        assert self.is_called.wait(10)

    def end(self, *, cancels: bool) -> None:
        self.calls.end(self.is_let_go.set if cancels else lambda: None, lambda: self.done.append("closed"))


def test_a_connection_without_a_call_is_closed_at_once() -> None:
    line = Line()
    line.end(cancels=False)
    assert line.done == ["closed"]
    with pytest.raises(TransientFault), line.calls.one():
        line.done.append("called")
    assert line.done == ["closed"]


def test_a_call_that_is_cancelled_comes_back_before_its_connection_is_closed() -> None:
    line = Line()
    line.call()
    line.end(cancels=True)
    line.thread.join()
    assert sorted(line.done[1:]) == ["closed", "ended"]
    assert line.done[0] == "came back"


def test_a_call_that_stays_away_closes_its_connection_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_CANCEL_SECONDS", 0.01)
    line = Line()
    line.call()
    line.end(cancels=False)
    assert line.done == []
    line.is_let_go.set()
    line.thread.join()
    assert line.done == ["came back", "closed", "ended"]
