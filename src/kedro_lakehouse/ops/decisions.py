"""Decisions that people record about events: so far, that some are excluded."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.ops.store import DECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.store import OpsStore

WITHDRAW: Final = "withdraw"


@dataclass(frozen=True)
class ExcludedEvent:
    """An event that folds leave out: the position of its record, and a digest of its key and order.

    Neither changes when the table is rebuilt, even from its landed files with other batch numbers. Without
    a digest every event of the file is excluded.
    """

    file: str
    row: int | None
    digest: int | None


class Decisions:
    """The decisions of one lakehouse, read once a run; safe to share among threads."""

    def __init__(self, store: OpsStore) -> None:
        """Keep the store; nothing is read yet."""
        self._store = store
        self._rows: list[dict[str, Any]] | None = None
        self._reading = threading.Lock()

    def excluded(self, table: TableName) -> list[ExcludedEvent]:
        """The excluded events of a table."""
        return [ExcludedEvent(r["file"], r["row"], r["digest"]) for r in self._of(table)]

    def digest(self, table: TableName, *, upto: int) -> str:
        """A digest of the decisions about a table's batches up to ``upto``; empty without decisions."""
        found = sorted({r["decision"] for r in self._of(table) if r["batch"] <= upto})
        return hashlib.sha256(",".join(found).encode()).hexdigest()[:16] if found else ""

    def _of(self, table: TableName) -> list[dict[str, Any]]:
        with self._reading:
            if self._rows is None:
                self._rows = self._store.read(DECISIONS)
            return [r for r in self._rows if r["table"] == str(table) and r["action"] == WITHDRAW]

    def record(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record decisions in one commit; later calls of this object include them."""
        self._store.append(DECISIONS, rows)
        with self._reading:
            self._rows = None
