"""Requests of persons to be erased, and what ``lake.ops.erasures`` says of each erasure."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.lake_table import erasure_key
from kedro_lakehouse.names import quote
from kedro_lakehouse.ops.store import ERASURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.store import OpsStore

BEGUN, PENDING, DONE = "begun", "pending", "done"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A person who asks to be erased, and until when (with a zone)."""

    subject: str
    due: datetime | None = None

    @classmethod
    def at(cls, subject: str, due: float | None) -> Request:
        """A request that is due so many seconds after 1970, in UTC."""
        return cls(subject=subject, due=None if due is None else datetime.fromtimestamp(due, UTC))


@dataclass(frozen=True, kw_only=True)
class KnownErasure:
    """What is recorded of one erasure; times are in UTC."""

    erasure: str
    status: str
    """``begun``: it was interrupted, or is still at work. ``pending``: something is left. ``done``."""
    begun_at: datetime
    ended_at: datetime | None
    due: datetime | None
    subjects: int
    tables: tuple[str, ...]
    rows: int | None
    files: int | None
    found: int | None
    """In how many places a file still held a person's identifier."""
    pending: tuple[str, ...]
    evidence: str | None
    signature: str | None

    def is_late(self, now: datetime) -> bool:
        """Whether it was not done when it was due."""
        done_at = self.ended_at if self.status == DONE else None
        return self.due is not None and (done_at or now) > self.due


def earliest(times: Iterable[datetime | None]) -> datetime | None:
    """The first of some times; None where none is known."""
    return min((time for time in times if time is not None), default=None)


def known_erasures(ops: OpsStore) -> list[KnownErasure]:
    """The recorded erasures, newest first; without those that a later one has repeated."""
    rows = _by_erasure(ops)
    found: list[KnownErasure] = []
    proved_later: set[str] = set()
    for known in sorted(map(_known, rows.values()), key=lambda known: known.begun_at, reverse=True):
        if known.status == DONE or not _hashes(rows[known.erasure]) & proved_later:
            found.append(known)
        proved_later |= set(_facts(known.evidence).get("subjects", ()))
    return found


def unfinished_of(ops: OpsStore, table: str) -> set[str]:
    """The hashes of a table's erased subjects of whom no evidence was made: an erasure was interrupted."""
    rows = ops.read(ERASURES)
    ended = {one for row in rows for one in _facts(row["evidence"]).get("subjects", ())}
    return {row["subject"] for row in rows if row["status"] == BEGUN and row["table"] == table} - ended


def interrupted_requests(table: LakeTable, subject: str) -> list[Request]:
    """Persons whose erasure was interrupted, and of whom the table's change log still has events."""
    unfinished = unfinished_of(table.environment.ops, str(table))
    if not unfinished or table.state("changes") is None:
        return []
    from kedro_lakehouse.changes.subjects import hash_of  # it imports Spark

    key = erasure_key(table.environment)
    held = table.read("changes").selectExpr(f"cast({quote(subject)} AS string) AS subject").distinct()
    names = [row["subject"] for row in held.where("subject IS NOT NULL").collect()]
    return [Request(subject=name) for name in names if hash_of(key, name) in unfinished]


def _by_erasure(ops: OpsStore) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in ops.read(ERASURES):
        rows[row["erasure"]].append(row)
    return rows


def _hashes(rows: Sequence[dict[str, Any]]) -> set[str]:
    return {row["subject"] for row in rows if row["subject"]}


def _facts(evidence: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(evidence or "{}")
    return found


def _known(rows: Sequence[dict[str, Any]]) -> KnownErasure:
    ended = [row for row in rows if row["status"] != BEGUN]
    last: dict[str, Any] = max(ended, key=lambda row: row["recorded_at"]) if ended else {}
    facts = _facts(last.get("evidence"))
    return KnownErasure(
        erasure=rows[0]["erasure"],
        status=last.get("status", BEGUN),
        begun_at=min(row["recorded_at"] for row in rows),
        ended_at=last.get("recorded_at"),
        due=earliest(row["due"] for row in rows),
        subjects=len(facts.get("subjects") or _hashes(rows)),
        tables=tuple(facts.get("tables") or sorted({row["table"] for row in rows if row["table"]})),
        rows=last.get("rows"),
        files=last.get("files"),
        found=last.get("found"),
        pending=tuple(last.get("pending") or ()),
        evidence=last.get("evidence"),
        signature=last.get("signature"),
    )
