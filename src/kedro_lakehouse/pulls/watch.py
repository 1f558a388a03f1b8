"""End a read whose time is over, or whose process is asked to end: close its source, and leave it behind."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, TypeVar

from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kedro_lakehouse.pulls.protocol import PulledSource

_LOOKS: Final = 0.2
"""So often it is looked whether a read must end, in seconds."""
_Result = TypeVar("_Result")


@contextlib.contextmanager
def watched(source: PulledSource, *, end: float, stopping: threading.Event) -> Iterator[threading.Event]:
    """Close the source when its time is over, or the process is asked to end; another thread looks.

    Args:
        end: When the time is over, on the monotonic clock.
        stopping: Set when the process is asked to end.

    Returns:
        An event that is set if the time was over.
    """
    late, done = threading.Event(), threading.Event()

    def watch() -> None:
        while not done.wait(_LOOKS):
            if time.monotonic() >= end:
                late.set()
            if late.is_set() or stopping.is_set():
                with contextlib.suppress(SourceFault):
                    source.close()
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield late
    finally:
        done.set()


def in_background(work: Callable[[], _Result]) -> Future[_Result]:
    """Begin to do something in a thread of its own, for which the process does not wait at its end."""
    found: Future[_Result] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            found.set_exception(error)

    labels = contextvars.copy_context()
    threading.Thread(target=labels.run, args=(run,), daemon=True).start()
    return found


def done_unless(
    ending: Callable[[], Exception | None], work: Callable[[], _Result], *, within: float = 0.0
) -> _Result:
    """Do something in a thread of its own, and leave it behind when it must end and does not.

    A driver that waits for the answer of a silent source notices neither a signal nor that it is closed.

    Args:
        ending: Why the work must end; None: it may go on.
        work: What is done.
        within: How long the work may then take to end by itself, in seconds.
    """
    found = in_background(work)
    while not wait([found], _LOOKS).done:
        if (why := ending()) is not None:
            if wait([found], within).done:
                break
            raise why
    return found.result()
