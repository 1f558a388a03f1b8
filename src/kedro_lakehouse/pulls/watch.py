"""Close the source of a read whose time is over, or whose process is asked to end.

Not every driver that waits for an answer notices that: a process that is to end waits for it no longer than a
moment, see ``ingestion/pulling.py``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.pulls.protocol import PulledSource

_LOOKS: Final = 0.2
"""So often it is looked whether a read must be ended, in seconds."""


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
