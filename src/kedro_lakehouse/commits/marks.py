"""Table properties that commits set beside the bookmark."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kedro_lakehouse.formats.base import TableState

HORIZON: Final = "kedro_lakehouse.horizon"
"""On a compacted change log: events from before this time are too late."""

REFOLD: Final = "kedro_lakehouse.refold"
"""On a change log: the batch whose commit deleted events; targets at an earlier batch are refolded."""

FOLDED_AT: Final = "kedro_lakehouse.folded_at"
"""On a refolded target: a rollback does not return to a state from before this time."""

DISTINCT: Final = "kedro_lakehouse.distinct_keys"
"""On a change log: a batch in which no key has two events, and which has no truncate; its first one."""

DECIDED: Final = "kedro_lakehouse.decided"
"""On a target: a digest of the decisions about events of its batches that its rows respect."""

ROLLED_BACK: Final = "kedro_lakehouse.rolled_back"
"""On a rolled back target: an id of the rollback. A stage planned before it cannot be published."""

DERIVED: Final = "kedro_lakehouse.derived"
"""On the change log of a derived table: what its last batch was computed from."""


MOVED: Final = "kedro_lakehouse.moved"
"""On a current table that lacks its old rows, and on its archive: the number of the last move of rows."""


def horizon_of(state: TableState | None) -> dt.datetime | None:
    """The time up to which a change log is compacted; None where it is whole."""
    text = state.properties.get(HORIZON) if state else None
    return dt.datetime.fromisoformat(text) if text else None


def last_move(state: TableState | None) -> int:
    """The number of the last move of old rows that a current table, or its archive, has; 0 if there was none.

    A current table with a number lacks rows that its change log folds to. A refold makes it whole again, and
    takes the number away.
    """
    return int(state.properties.get(MOVED) or 0) if state else 0
