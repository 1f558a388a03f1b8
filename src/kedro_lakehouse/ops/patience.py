"""How long a commit that loses races is planned again, and how it waits in between."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, TypeVar

from kedro_lakehouse.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

DEADLINE: Final = 600.0
"""Seconds until a commit that never won is given up: eight writers lost over twenty races in a row."""
_FIRST: Final = 0.1
_LONGEST: Final = 10.0


class Patience:
    """Pauses of random length that grow with each lost race, until a deadline."""

    def __init__(
        self,
        table: object,
        deadline: float = DEADLINE,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to count now.

        Units:
            deadline: seconds from the first lost race after a success.
        """
        self._table, self._deadline, self._clock, self._sleep = table, deadline, clock, sleep
        self._since: float | None = None
        self._lost = 0

    def pause(self, error: Exception) -> None:
        """Wait before the next attempt.

        Raises:
            CommitConflictError: The deadline is over; ``error`` is its cause.
        """
        now = self._clock()
        self._since = now if self._since is None else self._since
        self._lost += 1
        if now - self._since >= self._deadline:
            raise CommitConflictError(table=self._table, attempts=self._lost) from error
        longest = min(_FIRST * 2 ** (self._lost - 1), _LONGEST)
        self._sleep(random.uniform(0, longest))  # noqa: S311 - jitter

    def keep_trying(self, work: Callable[[], _T], *, lost: Callable[[], None] = lambda: None) -> _T:
        """Do work, and again after every lost race; ``lost`` is called after each.

        Raises:
            CommitConflictError: The deadline is over.
        """
        while True:
            try:
                return work()
            except CommitConflictError as error:
                lost()
                self.pause(error)

    def succeeded(self) -> None:
        """Begin to count anew, after a commit that won."""
        self._since, self._lost = None, 0
