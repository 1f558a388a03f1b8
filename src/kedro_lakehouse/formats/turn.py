"""Let one writer at a time publish, for formats whose store does not refuse the later of two commits."""

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
    """Called just before a write: returns if the turn is still ours, else raises ``CommitConflictError``."""
    TakeTurn = Callable[[TableName], AbstractContextManager[Confirm]]


@contextlib.contextmanager
def publish_turn(leases: str, table: TableName) -> Iterator[Confirm]:
    """Let one writer at a time publish to a table; wait while another writer has its turn.

    On a local file system nobody takes the turn over while the writer lives, even if its process is
    stopped. In S3 another run takes it over if it was not renewed for a while; ``confirm`` then raises
    ``CommitConflictError``, as after a lost race.
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
    """Take no turn: for stores that themselves refuse the later of two commits."""
    yield lambda: None
