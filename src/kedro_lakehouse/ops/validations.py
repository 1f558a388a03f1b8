"""Validations: results as rows of ``lake.ops.quality_results``, and the last ones of each suite."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.store import PUBLISHED, QUALITY_RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.ops.store import OpsStore


class Validations:
    """The validations of one lakehouse; the last ones are read once per run. Safe to share among threads."""

    def __init__(self, store: OpsStore, run_id: str) -> None:
        """Keep the store; nothing is read yet."""
        self._store, self._run_id = store, run_id
        self._last: dict[str, tuple[str, frozenset[str]]] | None = None
        self._working = threading.Lock()

    def is_validated(self, suite: str, snapshots: str, expectations: frozenset[str]) -> bool:
        """Whether a suite's last validation was of exactly these expectations and snapshots."""
        with self._working:
            if self._last is None:
                self._last = self._read()
            return self._last.get(suite) == (snapshots, expectations)

    def _read(self) -> dict[str, tuple[str, frozenset[str]]]:
        import pyarrow.compute as pc

        fields = ("suite", "stage", "snapshots", "expectation", "judged_at")
        rows = self._store.arrow(QUALITY_RESULTS, *fields)
        if rows is None:
            return {}
        rows = rows.filter(pc.equal(rows["stage"], PUBLISHED))
        newest = rows.group_by("suite").aggregate([("judged_at", "max")])
        newest = newest.rename_columns(["suite", "judged_at"])
        last: dict[str, tuple[str, frozenset[str]]] = {}
        for row in rows.join(newest, ["suite", "judged_at"], join_type="inner").to_pylist():
            _, titles = last.get(row["suite"], ("", frozenset()))
            last[row["suite"]] = (row["snapshots"], titles | {row["expectation"]})
        return last

    def record(self, suite: str, snapshots: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record one validation of published tables, in one commit."""
        facts = {
            "suite": suite,
            "stage": PUBLISHED,
            "snapshots": snapshots,
            "run_id": self._run_id,
            "judged_at": datetime.now(UTC),
        }
        self._store.append(QUALITY_RESULTS, [dict(row) | facts for row in rows])
        with self._working:
            if self._last is not None:
                self._last[suite] = (snapshots, frozenset(row["expectation"] for row in rows))
