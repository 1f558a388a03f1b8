"""One writer's turn at a table of a format whose store does not refuse the later of two commits."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import CommitConflictError, LeaseLostError
from kedro_lakehouse.ops.lease import lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from kedro_lakehouse.names import TableName

    Confirm = Callable[[], None]
    """Returns if the turn is still ours, else raises ``CommitConflictError``: asked just before a write."""
    TakeTurn = Callable[[TableName], AbstractContextManager[Confirm]]


@contextlib.contextmanager
def publish_turn(leases: str, table: TableName) -> Iterator[Confirm]:
    """Let one writer at a time publish to a table; wait for the one that does.

    On a local file system nobody takes the turn over while the writer lives, stopped or not. In S3 another
    run does where it was not renewed for a while: ``confirm`` tells that as a lost race.
    """
    with lease(leases, table, "publish") as held:

        def confirm() -> None:
            try:
                held.confirm()
            except LeaseLostError as error:
                raise CommitConflictError(table=table, attempts=1) from error

        yield confirm


@contextlib.contextmanager
def no_turn(_: TableName) -> Iterator[Confirm]:
    """What is taken where the store itself refuses the later of two commits: nothing."""
    yield lambda: None
