"""When a source that does not answer is asked again, and for how long."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.errors import TransientFault

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A pause before a source is asked again."""

    table: TableName
    reason: str
    """Why it gave no answer; without secrets."""
    seconds: float
    left: float
    """So many seconds from now the source is given up, unless it goes on."""


Tell = Callable[[Wait], None]


def logged(wait: Wait) -> None:
    """Say in the log what is waited for."""
    logger.info("%s: %s; asked again in %.1f s", wait.table, wait.reason, wait.seconds)


class Retries:
    """The pauses of one pull: they grow, or are as long as the source asks for, and end with a budget.

    The budget counts from the first failure, and anew after one that came behind progress.
    """

    def __init__(self, budget: timedelta, tell: Tell = logged) -> None:
        """Take how long is waited in all, and who is told of each pause."""
        self._budget, self._tell = budget.total_seconds(), tell
        self._begun: float | None = None
        self._times = self._reached = 0

    def pause(self, table: TableName, fault: TransientFault, *, progress: int) -> float | None:
        """The seconds until the source is to be asked again; None if the budget does not last so long.

        Args:
            progress: How many parts of the pull need not be read again.
        """
        if progress > self._reached:  # it went on meanwhile
            self._begun, self._times, self._reached = None, 0, progress
        now = time.monotonic()
        self._begun, self._times = now if self._begun is None else self._begun, self._times + 1
        usual = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._times, 10))
        seconds = usual * random.uniform(0.5, 1)  # noqa: S311 - not for secrets
        if fault.retry_after is not None:
            seconds = max(0.0, fault.retry_after)
        left = self._budget - (now - self._begun)
        if seconds > left:
            return None
        self._tell(Wait(table=table, reason=fault.reason, seconds=seconds, left=left))
        return seconds
