"""How long batches took before, by ``lake.ops``: what a run may expect of those that wait now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.ops.store import OpsStore

_LAST: Final = 10
"""So many of a table's last batches count."""
Took = tuple[int, float]
"""The bytes of a batch's files, and the seconds from its plan to its last commit."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """The last batches of each table.

    Attributes:
        side_by_side: How many tables were worked on at one time, on average of a run.
    """

    tables: Mapping[str, Sequence[Took]]
    side_by_side: float

    def seconds(self, table: str, size: int) -> float | None:
        """How long so many bytes of a table take; None where no batch tells it.

        Up to the largest batch of the table that is the median of its batches, above it more in proportion. A
        table without batches is taken for one like all others.
        """
        took = self.tables.get(table) or [one for of_table in self.tables.values() for one in of_table]
        if not took:
            return None
        usual = median(seconds for _, seconds in took)
        largest, its_seconds = max(took)
        return usual if size <= largest or not largest else max(usual, its_seconds * size / largest)


def past_of(ops: OpsStore) -> Past:
    """What the ledger and the commits tell. Starts no Spark."""
    ends: dict[tuple[str, int, str], Any] = {}
    for row in ops.read(BATCHES, columns=("table", "batch", "run_id", "committed_at")):
        key = (row["table"], row["batch"], row["run_id"])
        ends[key] = max(row["committed_at"], ends.get(key, row["committed_at"]))
    tables: dict[str, list[tuple[Any, Took]]] = defaultdict(list)
    runs: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    for row in ops.read(BATCH_LEDGER, columns=("table", "batch", "run_id", "planned_at", "files")):
        end = ends.get((row["table"], row["batch"], row["run_id"]))
        if end is None:  # planned by a run that died, or not committed
            continue
        size = sum(file["size"] or 0 for file in row["files"] or ())
        tables[row["table"]].append((end, (size, (end - row["planned_at"]).total_seconds())))
        runs[row["run_id"]].append((row["planned_at"], end))
    last = {
        name: [took for _, took in sorted(found, key=lambda one: one[0])[-_LAST:]]
        for name, found in tables.items()
    }
    return Past(tables=last, side_by_side=_side_by_side(list(runs.values())))


def _side_by_side(runs: Sequence[Sequence[tuple[Any, Any]]]) -> float:
    """The seconds of all batches, by the seconds in which they were done; at least 1."""
    worked = sum((end - begun).total_seconds() for run in runs for begun, end in run)
    passed = sum(
        (max(end for _, end in run) - min(begun for begun, _ in run)).total_seconds() for run in runs
    )
    return max(worked / passed, 1.0) if passed else 1.0
