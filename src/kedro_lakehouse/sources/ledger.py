"""The ledger of planned batches: which files are in which batch, and which were refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.store import OpsStore

_REPLAY: Final = "replay:"
_REBUILD: Final = "rebuild:"


@dataclass(frozen=True)
class PlannedFiles:
    """A batch as the ledger has it."""

    batch: int
    files: tuple[LandedFile, ...]
    content_hash: str
    refused: frozenset[LandedFile] = frozenset()

    @property
    def is_replay(self) -> bool:
        """Whether the batch brings events back from quarantine; its files are in other batches too."""
        return self.content_hash.startswith(_REPLAY)


def content_hash(files: Sequence[LandedFile]) -> str:
    """A hash of the list of files: their paths, sizes and times."""
    listed = json.dumps([asdict(f) for f in sorted(files)], sort_keys=True)
    return hashlib.sha256(listed.encode()).hexdigest()


class Ledger:
    """The ledger of one table, as it was when the run first asked."""

    def __init__(self, store: OpsStore, table: TableName, run_id: str) -> None:
        """Read the table's rows."""
        self._store, self._table, self._run_id = store, str(table), run_id
        rows = sorted(store.read(BATCH_LEDGER, of_table=str(table)), key=lambda r: r["planned_at"])
        begun = [i for i, r in enumerate(rows) if (r["content_hash"] or "").startswith(_REBUILD)]
        rows = rows[begun[-1] :] if begun else rows  # what was planned before a rebuild does not count
        self._batches = {r["batch"]: r for r in rows if r["batch"] is not None}  # the newest plan counts
        self._refusals = [r for r in rows if r["batch"] is None]

    @property
    def last(self) -> PlannedFiles | None:
        """The highest planned batch."""
        if not self._batches:
            return None
        return _planned(self._batches[max(self._batches)])

    def planned(self) -> list[PlannedFiles]:
        """All batches, in their order."""
        return [_planned(self._batches[batch]) for batch in sorted(self._batches)]

    @property
    def dropped(self) -> frozenset[str]:
        """The identities of the stored tables that the last rebuild from landed files gave up."""
        marks = [r["content_hash"] or "" for r in self._refusals]
        found = [m.removeprefix(_REBUILD) for m in marks if m.startswith(_REBUILD)]
        return frozenset(found[-1].split(",")) - {""} if found else frozenset()

    def accepted(self) -> list[LandedFile]:
        """The files of all batches, without those that were refused."""
        return [f for p in map(_planned, self._batches.values()) for f in p.files if f not in p.refused]

    def new(self, files: Sequence[LandedFile]) -> list[LandedFile]:
        """Those of ``files`` that no batch holds; a file that was replaced since is new."""
        rows = [*self._batches.values(), *self._refusals]
        known = {LandedFile(**f) for row in rows for f in row["files"] or ()}
        return [f for f in files if f not in known]

    def forget(self, batch: int) -> None:
        """Let a batch of which nothing is published be planned anew under its number."""
        del self._batches[batch]

    def plan(
        self, batch: int, files: Sequence[LandedFile], refused: Mapping[LandedFile, str]
    ) -> PlannedFiles:
        """Write a batch down before any of its rows is written."""
        planned = PlannedFiles(batch, tuple(files), content_hash(files), frozenset(refused))
        self._append(planned.batch, planned.content_hash, planned.files, refused)
        return planned

    def plan_replay(self, batch: int, files: Sequence[LandedFile], what: str) -> PlannedFiles:
        """Write down a batch of events that leave quarantine, told apart by ``what``."""
        digest = hashlib.sha256(f"{content_hash(files)} {what}".encode()).hexdigest()
        planned = PlannedFiles(batch, tuple(files), _REPLAY + digest)
        self._append(planned.batch, planned.content_hash, planned.files, {})
        return planned

    def begin_again(self, stored: Iterable[str]) -> None:
        """Let all files be new, and the stored tables of these identities be given up: one commit."""
        self._batches.clear()
        self._refusals.clear()
        self._append(None, _REBUILD + ",".join(sorted(stored)), (), {})

    def refuse(self, refused: Mapping[LandedFile, str]) -> None:
        """Write down files that no batch will ever hold."""
        self._append(None, None, tuple(sorted(refused)), refused)

    def _append(
        self,
        batch: int | None,
        hashed: str | None,
        files: Sequence[LandedFile],
        refused: Mapping[LandedFile, str],
    ) -> None:
        row = {
            "table": self._table,
            "batch": batch,
            "content_hash": hashed,
            "files": [asdict(f) for f in files],
            "refused": [{"path": f.path, "code": code} for f, code in sorted(refused.items())],
            "run_id": self._run_id,
            "planned_at": datetime.now(UTC),
        }
        self._store.append(BATCH_LEDGER, [row])
        if batch is None:
            self._refusals.append(row)
        else:
            self._batches[batch] = row


def _planned(row: Mapping[str, Any]) -> PlannedFiles:
    files = tuple(LandedFile(**f) for f in row["files"])
    paths = {r["path"] for r in row["refused"] or ()}
    return PlannedFiles(
        row["batch"], files, row["content_hash"], frozenset(f for f in files if f.path in paths)
    )
