"""Runs writers one step at a time: each stops before it touches what all share, and a seed picks who goes on.

A step may also end a writer (it is never heard of again), take a lease away, lose an answer, or put a clock
forward or back. Time is the scheduler's own: a writer that sleeps costs nothing.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_STREAK = 0.75
"""How probably the writer goes on that made the last step."""
_STEPS = 20_000
"""A schedule of more steps than this does not end: somebody starves."""


class Killed(BaseException):
    """Ends a writer wherever it is; whatever it touches from then on does nothing."""


class StarvedError(AssertionError):
    """A schedule did not come to its end."""


@dataclass(eq=False)
class Writer:
    """One process."""

    name: str
    work: Callable[[Writer], None]
    offset: float = 0.0
    """By how many seconds its clock is off."""
    wakes: float = 0.0
    dead: bool = False
    done: bool = False
    error: BaseException | None = None
    trace: list[str] = field(default_factory=list)
    leases: list[Any] = field(default_factory=list)
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Scheduler:
    """Runs writers until all are done or dead."""

    def __init__(self, seed: int, *, kills: float = 0.0) -> None:
        """Take every decision from the seed."""
        self.random = random.Random(seed)  # noqa: S311 - a schedule must be repeatable
        self.now, self.steps = 0.0, 0
        self.trace: list[str] = []
        self._kills = kills
        self._back = threading.Semaphore(0)
        self._last: Writer | None = None
        self._own = threading.local()
        self.mischief: Callable[[], None] = lambda: None

    @property
    def current(self) -> Writer | None:
        """The writer whose thread asks; None outside of a schedule."""
        return getattr(self._own, "writer", None)

    def touch(self, what: str) -> None:
        """Stop the running writer here, until it is its turn again."""
        if (writer := self.current) is not None:
            self._hand_over(writer, what)

    def sleep(self, seconds: float) -> None:
        """Let the running writer sleep on the scheduler's clock."""
        if (writer := self.current) is not None:
            writer.wakes = self.now + seconds
            self._hand_over(writer, f"sleep {seconds:.1f}")

    def _hand_over(self, writer: Writer, what: str) -> None:
        if writer.dead:
            raise Killed
        writer.trace.append(what)
        self._back.release()
        writer.turn.acquire()
        self.trace.append(f"{writer.name}: {what}")
        if writer.dead:
            raise Killed

    def run(self, writers: list[Writer]) -> None:
        """Run them to their ends.

        Raises:
            StarvedError: They are still at work after very many steps.
        """
        threads = [threading.Thread(target=self._live, args=(w,), daemon=True) for w in writers]
        for thread in threads:
            thread.start()
        try:
            while alive := [w for w in writers if not (w.done or w.dead)]:
                self.steps += 1
                if self.steps > _STEPS:
                    raise StarvedError(self.trace[-40:])
                self._step(self._chosen(alive))
        finally:
            for writer in writers:  # those that were killed unwind without touching anything
                writer.dead = writer.dead or not writer.done
                writer.turn.release()
            for thread in threads:
                thread.join()

    def _chosen(self, alive: list[Writer]) -> Writer:
        ready = [w for w in alive if w.wakes <= self.now]
        if not ready:
            self.now = min(w.wakes for w in alive)
            ready = [w for w in alive if w.wakes <= self.now]
        # Runs of steps by one writer reach places that a fair coin does not.
        if self._last in ready and self.random.random() < _STREAK:
            return self._last
        return self.random.choice(ready)

    def _step(self, writer: Writer) -> None:
        self._last = writer
        self.now += 0.01
        self.mischief()
        if writer.trace and self._kills and self.random.random() < self._kills:
            writer.dead = True
            self.trace.append(f"{writer.name}: killed before {writer.trace[-1]}")
            return
        writer.turn.release()
        self._back.acquire()

    def _live(self, writer: Writer) -> None:
        self._own.writer = writer
        writer.turn.acquire()
        try:
            if not writer.dead:
                writer.work(writer)
        except Killed:
            return
        except BaseException as error:  # noqa: BLE001 - told by the schedule's check
            writer.error = error
        if not writer.dead:
            writer.done = True
            self._back.release()

    def chance(self, probability: float) -> bool:
        """Decide by the seed."""
        return self.random.random() < probability

    def pick(self, items: Any) -> Any:
        """Choose by the seed."""
        return self.random.choice(items)
