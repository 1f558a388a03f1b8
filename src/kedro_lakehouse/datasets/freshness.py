"""Freshness: how old a table's last commit is, and the alerts where a table became stale or fresh again."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.datasets.judged import read_only
from kedro_lakehouse.ops.store import ALERTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.quality.results import Result

logger = logging.getLogger(__name__)

_KIND: Final = "freshness"
FRESH, STALE = "fresh", "stale"


class AgeDataset(DeclaredDataset):
    """The age of a table's last commit, in seconds, from metadata alone; read-only.

    Example:
        In YAML::

            "{namespace}.{table}.age":
              type: kedro_lakehouse.datasets.AgeDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "age"

    def load(self) -> float | None:
        """Seconds since the last commit; None where nothing was ever committed."""
        kind = "current" if self.project.table(self._name).current else "history"
        state = self.project.format_of(self._name).state(self._name.with_suffix(kind))  # type: ignore[arg-type]
        bookmark = state.bookmark if state else None
        if bookmark is None:
            return None
        return (datetime.now(UTC) - datetime.fromisoformat(bookmark.committed_at)).total_seconds()

    def save(self, data: object) -> None:
        """Refuse: the age is what it is."""
        del data
        raise read_only(f"the age of {self._name}")


class FreshnessDataset(DeclaredDataset):
    """The freshness of a table in ``lake.ops.alerts``: one row for each change between fresh and stale.

    Example:
        In YAML::

            "{namespace}.{table}.freshness":
              type: kedro_lakehouse.datasets.FreshnessDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "freshness"

    def load(self) -> dict[str, str]:
        """The last state of each expectation, of this table and of others: fresh | stale."""
        rows = self.project.ops.read(ALERTS)
        told = sorted((r for r in rows if r["kind"] == _KIND), key=lambda r: r["told_at"])
        return {r["subject"]: r["state"] for r in told}

    def save(self, data: Sequence[Result]) -> None:
        """Write down what changed its state; a table that was never stale needs no row to be fresh."""
        known, changed = self.load(), list[dict[str, Any]]()
        for result in data:
            subject, state = f"{self._name}: {result.expectation.title}", FRESH if result.success else STALE
            if known.get(subject, FRESH) == state:
                continue
            detail = f"the last commit is {result.observed or 0:.0f} s old"
            logger.warning("%s is %s: %s", self._name, state, detail)
            changed.append(
                {
                    "kind": _KIND, "subject": subject, "state": state,
                    "message": detail, "run_id": self.project.run_id, "told_at": datetime.now(UTC),
                }
            )  # fmt: skip
        if changed:
            self.project.ops.append(ALERTS, changed)
