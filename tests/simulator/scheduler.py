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


def _taken() -> threading.Lock:
    """A lock that somebody else gives free."""
    lock = threading.Lock()
    lock.acquire()
    return lock


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
    at: str = ""
    """What it is about to touch."""
    leases: list[Any] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=_taken)


class Scheduler:
    """Runs writers until all are done or dead."""

    def __init__(self, seed: int, *, kills: float = 0.0) -> None:
        """Take every decision from the seed."""
        self.random = random.Random(seed)  # noqa: S311 - a schedule must be repeatable
        self.now, self.steps = 0.0, 0
        self.trace: list[str] = []
        self._kills = kills
        self._end = _taken()
        self._writers: list[Writer] = []
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
        if (writer := self.current) is None:
            self.now += seconds
        else:
            writer.wakes = self.now + seconds
            self._hand_over(writer, f"sleep {seconds:.1f}")

    def _hand_over(self, writer: Writer, what: str) -> None:
        if writer.dead:
            raise Killed
        writer.at = what
        self._pass_on(writer)
        if writer.dead:
            raise Killed
        self.trace.append(f"{writer.name}: {what}")

    def _pass_on(self, writer: Writer) -> None:
        """Let the next writer go on, in its own thread; often it is the same one."""
        chosen = self._next()
        if chosen is writer:
            return
        (chosen.turn if chosen else self._end).release()
        writer.turn.acquire()

    def _next(self) -> Writer | None:
        """Who makes the next step; None where all are done or dead, or nobody comes to an end."""
        while alive := [w for w in self._writers if not (w.done or w.dead)]:
            self.steps += 1
            if self.steps > _STEPS:
                return None
            chosen = self._chosen(alive)
            self._last = chosen
            self.now += 0.01
            self.mischief()
            if chosen.at and self._kills and self.random.random() < self._kills:
                chosen.dead = True
                self.trace.append(f"{chosen.name}: killed before {chosen.at}")
                continue
            return chosen
        return None

    def _chosen(self, alive: list[Writer]) -> Writer:
        ready = [w for w in alive if w.wakes <= self.now]
        if not ready:
            self.now = min(w.wakes for w in alive)
            ready = [w for w in alive if w.wakes <= self.now]
        # Runs of steps by one writer reach places that a fair coin does not.
        if self._last in ready and self.random.random() < _STREAK:
            return self._last
        return self.random.choice(ready)

    def run(self, writers: list[Writer]) -> None:
        """Run them to their ends.

        Raises:
            StarvedError: They are still at work after very many steps.
        """
        self._writers = writers
        threads = [threading.Thread(target=self._live, args=(w,), daemon=True) for w in writers]
        for thread in threads:
            thread.start()
        first = self._next()
        if first is not None:
            first.turn.release()
            self._end.acquire()
        for writer in writers:  # those that were killed unwind without touching anything
            if not writer.done:
                writer.dead = True
                writer.turn.release()
        for thread in threads:
            thread.join()
        if self.steps > _STEPS:
            raise StarvedError(self.trace[-40:])

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
            chosen = self._next()
            (chosen.turn if chosen else self._end).release()

    def chance(self, probability: float) -> bool:
        """Decide by the seed."""
        return self.random.random() < probability

    def pick(self, items: Any) -> Any:
        """Choose by the seed."""
        return self.random.choice(items)
