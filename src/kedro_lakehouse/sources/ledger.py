"""The ledger of planned batches, and the chain of those that were published.

Several runs may plan a batch of the same number. The bookmark of the published table decides which plan
counts, never a clock: the bookmark holds the identity of its plan (``content_hash``), that plan names the
plan that it follows, and so on back to the first batch. A plan outside of this chain is void, and its files
are new again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import LedgerGapError
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.sources.files import LandedFile
from kedro_lakehouse.sources.plans import REPAIR, REPLAY, PlannedFiles
from kedro_lakehouse.sources.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.sources.remembered import Settled, Taken

_REBUILD: Final = "rebuild:"
_memories: Final[dict[tuple[str, str], Remembered]] = {}
"""What this process remembers of ledgers, by lakehouse and table."""


@dataclass(frozen=True)
class Refusal:
    """An extract that a guard refused, and why; it is judged again when the guards or the table change."""

    file: LandedFile
    code: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class Chain:
    """What the ledger says about a table, given the bookmark of its change log.

    ``published`` are the plans of the published batches, in order. ``open`` are the plans that follow the
    last of them: at most one of these will be published.
    """

    epoch: int
    recent: tuple[PlannedFiles, ...]
    """The plans of the published batches after the ``settled`` ones, in order; all, where none are."""
    open: tuple[PlannedFiles, ...]
    refused: frozenset[LandedFile]
    void: frozenset[tuple[int, str]] = frozenset()
    """Number and identity of the plans that will never be published: another one was in their place."""
    waiting: tuple[tuple[str, Refusal], ...] = ()
    """What guards refused on top of the last published batch, each with those guards."""

    settled: Settled | None = None
    """Published batches of which a process remembers the identities alone."""
    read_whole: Callable[[], tuple[PlannedFiles, ...]] = tuple
    """Reads the plans of all published batches."""

    @cached_property
    def published(self) -> tuple[PlannedFiles, ...]:
        """The plans of all published batches, in order; where some are settled, the ledger is read for it."""
        return self.recent if self.settled is None else self.read_whole()

    @property
    def last(self) -> PlannedFiles | None:
        """The plan of the last published batch."""
        if self.recent:
            return self.recent[-1]
        return self.settled.head if self.settled else None

    @property
    def batch(self) -> int:
        """The number of the last published batch; 0 if there is none."""
        return self.last.batch if self.last else 0

    @property
    def is_given_up(self) -> bool:
        """Whether a rebuild has begun since the last batch: the old change log is dropped before any plan."""
        return self.last is not None and self.last.epoch < self.epoch

    @property
    def head(self) -> str:
        """The identity of the last published plan; empty if there is none."""
        return self.last.content_hash if self.last else ""

    def holds(self, batch: int, content_hash: str) -> bool:
        """Whether a batch of this number and identity is published."""
        return 0 < batch <= self.batch and _hash_of(batch, self.settled, self.recent) == content_hash

    def read_ranges(self) -> list[LandedFile]:
        """The ranges of a stream that are published, those of settled batches in short."""
        before = self.settled.ends if self.settled else ()
        return [*before, *(f for p in self.recent if not p.is_replay for f in p.files)]

    def accepted(self) -> list[LandedFile]:
        """The files of the published batches, without the refused ones."""
        return [f for p in self.published for f in p.files if f not in p.refused]

    @cached_property
    def _known(self) -> frozenset[LandedFile]:
        return self.refused.union(*(p.files for p in self.published))

    def new(self, files: Iterable[LandedFile]) -> list[LandedFile]:
        """Those of ``files`` that are neither published nor refused; a file replaced since then is new."""
        return [f for f in files if f not in self._known]


class Ledger:
    """The ledger of one table; its rows are read once, and again if they lack the plan of the bookmark."""

    def __init__(self, store: OpsStore, table: TableName, run_id: str, *, remembers: bool = False) -> None:
        """Store where the ledger is; nothing is read yet.

        Args:
            store: Where ``lake.ops`` is.
            table: The declared table.
            run_id: The run that plans.
            remembers: Whether this process remembers the ledger in short, for the next ones who open it.
        """
        self._store, self._table, self._run_id = store, str(table), run_id
        self._rows: list[dict[str, Any]] | None = None
        self._memory: Remembered | None = None
        if remembers:
            self._memory = _memories.setdefault((store.place, self._table), Remembered())
        self._taken: Taken | None = None

    def _read(self) -> list[dict[str, Any]]:
        if self._rows is None and self._memory is not None:
            read = partial(self._store.read_files, BATCH_LEDGER, self._table)
            self._taken = self._memory.taken(read)
            self._rows = self._taken.rows if self._taken else None
        if self._rows is None:
            self._rows = self._read_whole()
        return self._rows

    def _read_whole(self) -> list[dict[str, Any]]:
        return list(self._store.read(BATCH_LEDGER, of_table=self._table))

    @property
    def epoch(self) -> int:
        """The number of the last rebuild from landed files; 0 if there was none."""
        return max((_epoch(r) for r in self._read()), default=0)

    @property
    def given_up(self) -> frozenset[str]:
        """The uuids of the stored tables that the last rebuild gave up."""
        marks = [r["content_hash"] or "" for r in self._read() if _epoch(r) == self.epoch]
        found = [m.removeprefix(_REBUILD) for m in marks if m.startswith(_REBUILD)]
        return frozenset(uuid for mark in found for uuid in mark.split(",")) - {""}

    def planned_ever(self) -> list[LandedFile]:
        """The files of all plans, also of void ones and of those before a rebuild.

        Of a ledger that is remembered in short these are the first ranges, and those of recent plans.
        """
        plans = [r for r in self._read() if r["batch"] is not None]
        return [*(self._taken.firsts if self._taken else ()), *(f for r in plans for f in _files(r))]

    def read_again(self) -> None:
        """Forget the rows read so far, so that the next read includes those of other runs."""
        self._rows = self._taken = None

    def chain(self, bookmark: CommitReport | None) -> Chain:
        """Read the ledger against the bookmark of the change log.

        Args:
            bookmark: The bookmark of the change log as published now; None if nothing is published.

        Raises:
            LedgerGapError: The ledger does not hold the plan of a published batch.
        """
        found = self._chain(bookmark)
        if found is None:
            self.read_again()
            found = self._chain(bookmark)
        if found is None and self._memory is not None and self._taken is not None:
            self._memory.forget()  # the bookmark was moved back to before what is remembered
            self._rows, self._taken = self._read_whole(), None
            found = self._chain(bookmark)
        if found is None:
            raise LedgerGapError(table=self._table, batch=bookmark.batch if bookmark else 0)
        return found

    def _chain(self, bookmark: CommitReport | None) -> Chain | None:
        rows, taken = self._read(), self._taken
        settled = taken.settled if taken else None
        found = _chain(rows, bookmark, self.epoch, settled)
        if found is None or taken is None or self._memory is None:
            return found
        if all(plan.follows for plan in found.recent if plan.batch > 1):
            self._memory.settle(settled, found.recent)

        def read_whole() -> tuple[PlannedFiles, ...]:
            whole = _chain(self._read_whole(), bookmark, self.epoch)
            if whole is None:
                raise LedgerGapError(table=self._table, batch=found.batch)
            return whole.recent

        return replace(found, read_whole=read_whole)

    def plan(  # noqa: PLR0913 - what a plan consists of
        self,
        chain: Chain,
        files: Sequence[LandedFile],
        refused: Mapping[LandedFile, str],
        *,
        replayed: str | None = None,
        references: Mapping[str, int] | None = None,
        is_repair: bool = False,
    ) -> PlannedFiles:
        """Record the plan of the batch after the chain's last one, before any of its rows is written.

        If the ledger holds the same open plan already, that one is used and nothing is written.

        Args:
            replayed: Identifies the events, in a batch that replays events from quarantine.
            references: The snapshots that events are looked up in.
            is_repair: Whether events of earlier batches are looked up again.
        """
        snapshots = dict(sorted((references or {}).items()))
        listed = sorted(map(asdict, files), key=itemgetter("path"))
        facts = [chain.epoch, chain.head, listed, sorted(f.path for f in refused), replayed or ""]
        if snapshots:
            facts.append(snapshots)
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        kind = REPAIR if is_repair else REPLAY if replayed is not None else ""
        planned = PlannedFiles(
            batch=chain.batch + 1,
            files=tuple(files),
            content_hash=kind + digest,
            refused=frozenset(refused),
            epoch=chain.epoch,
            follows=chain.head,
            references=snapshots,
        )
        if planned.content_hash not in {p.content_hash for p in chain.open}:
            looked_up = [{"table": name, "snapshot": number} for name, number in snapshots.items()]
            self._append(
                planned.batch, planned.content_hash, planned.files, refused, chain, references=looked_up
            )
        return planned

    def begin_again(self, stored: Iterable[str]) -> int:
        """Begin a new epoch: all files are new, the tables with these uuids given up; return its number."""
        self.read_again()
        epoch = self.epoch + 1
        self._append(None, _REBUILD + ",".join(sorted(stored)), (), {}, Chain(epoch, (), (), frozenset()))
        return epoch

    def refuse(self, chain: Chain, refused: Mapping[LandedFile, str]) -> None:
        """Record files that no batch will hold as long as the chain's last batch stays published."""
        self._append(None, None, tuple(sorted(refused)), refused, chain)

    def wait(self, chain: Chain, refused: Mapping[LandedFile, tuple[str, str]], guards: str) -> None:
        """Record files that these guards refuse on top of the chain's last batch: the code and the reason."""
        if not refused:
            return
        waiting = [{**asdict(f), "code": c, "reason": r} for f, (c, r) in sorted(refused.items())]
        self._append(None, None, (), {}, chain, waiting=waiting, guards=guards)

    def _append(
        self,
        batch: int | None,
        hashed: str | None,
        files: Sequence[LandedFile],
        refused: Mapping[LandedFile, str],
        after: Chain,
        **more: Any,
    ) -> None:
        row = {
            "table": self._table,
            "batch": batch,
            "content_hash": hashed,
            "files": [asdict(f) for f in files],
            "refused": [{"path": f.path, "code": code} for f, code in sorted(refused.items())],
            "run_id": self._run_id,
            "planned_at": datetime.now(UTC),
            "epoch": after.epoch,
            "follows": after.head,
        } | more
        self._store.append(BATCH_LEDGER, [row])
        self._read().append(row)


def waiting_in(rows: Iterable[Mapping[str, Any]], head: str) -> list[tuple[str, Refusal]]:
    """What guards refused on top of the batch with this identity, with those guards.

    Args:
        rows: Rows of one table's ledger; of these, those without a batch matter.
        head: The identity of the last published batch; empty if nothing is published.
    """
    unnumbered = [r for r in rows if r["batch"] is None]
    epoch = max(map(_epoch, unnumbered), default=0)
    found: dict[tuple[str, str], tuple[str, Refusal]] = {}
    for row in _by_time(r for r in unnumbered if _epoch(r) == epoch and (r.get("follows") or "") == head):
        for one in row.get("waiting") or ():
            file = LandedFile(one["path"], one["size"], one["modified"])
            refusal = Refusal(file, one["code"], one["reason"], row["planned_at"])
            found.setdefault((row["guards"], one["path"]), (row["guards"], refusal))
    return list(found.values())


def _epoch(row: Mapping[str, Any]) -> int:
    return int(row.get("epoch") or 0)


def _chain(
    rows: Sequence[Mapping[str, Any]],
    bookmark: CommitReport | None,
    epoch: int,
    settled: Settled | None = None,
) -> Chain | None:
    """The chain that ends in the bookmark; None if the rows lack one of its plans.

    With ``settled``, rows of the batches up to it may be missing, and the chain must lead there.
    """
    if epoch == 0:
        rows = _since_the_last_rebuild(rows)
    plans = {(r["batch"], r["content_hash"]): r for r in _by_time(rows) if r["batch"] is not None}
    published: list[PlannedFiles] = []
    at = (bookmark.batch, bookmark.content_hash) if bookmark and bookmark.batch else None
    if settled and at is None:
        return None
    while at is not None:  # backwards, from the plan of the bookmark to that of the first batch
        if settled and at == (settled.batch, settled.head.content_hash):
            break
        row = plans.get(at) if settled is None or at[0] > settled.batch else None
        if row is None:
            return None
        published.append(_planned(row))
        at = _before(row, plans)
    published.reverse()
    hashes = {p.content_hash for p in published} | {""}
    head = published[-1] if published else settled.head if settled else None

    def is_known(content_hash: str) -> bool:
        return content_hash in hashes or bool(settled and settled.has(content_hash))

    may_follow = [i for i, r in plans.items() if _may_follow(r, i, head, epoch, plans)]
    follows = head.content_hash if head else ""
    return Chain(
        epoch=max(epoch, head.epoch if head else 0),
        recent=tuple(published),
        open=tuple(replace(_planned(plans[i]), follows=follows) for i in may_follow),
        # No plan of a higher number is void yet: newer batches may be published that this bookmark lacks.
        void=frozenset(
            i
            for i, r in plans.items()
            if head
            and i[0] <= head.batch
            and _epoch(r) == head.epoch
            and i[1] != _hash_of(i[0], settled, published)
        ),
        refused=frozenset(
            LandedFile(**f)
            for r in rows
            if r["batch"] is None and _epoch(r) == epoch and is_known(r.get("follows") or "")
            for f in r["files"] or ()
        ),
        waiting=tuple(waiting_in(rows, follows)),
        settled=settled,
    )


def _hash_of(batch: int, settled: Settled | None, recent: Sequence[PlannedFiles]) -> str:
    """The identity of a published batch."""
    if settled is not None and batch <= settled.batch:
        return settled.hashes[batch - 1]
    return recent[batch - 1 - (settled.batch if settled else 0)].content_hash


def _by_time(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda r: r["planned_at"])


def _since_the_last_rebuild(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The rows since the newest rebuild, in ledgers without numbered epochs: it ended what was before it."""
    ordered = _by_time(rows)
    begun = [i for i, r in enumerate(ordered) if (r["content_hash"] or "").startswith(_REBUILD)]
    return ordered[begun[-1] :] if begun else ordered


def _before(
    row: Mapping[str, Any], plans: Mapping[tuple[int, str], Mapping[str, Any]]
) -> tuple[int, str] | None:
    """The identity of the plan that a published one follows.

    In older ledgers, whose plans do not name it, the newest plan of each number is the one that counts.
    """
    number = row["batch"] - 1
    if number == 0:
        return None
    if row.get("follows"):
        return number, row["follows"]
    earlier = [i for i, r in plans.items() if i[0] == number and not r.get("follows")]
    return earlier[-1] if earlier else (number, "")


def _may_follow(
    row: Mapping[str, Any],
    identity: tuple[int, str],
    head: PlannedFiles | None,
    epoch: int,
    plans: Mapping[tuple[int, str], Mapping[str, Any]],
) -> bool:
    """Whether a plan directly follows the last published one, ``head``, in the present epoch."""
    if identity[0] != (head.batch if head else 0) + 1 or _epoch(row) != max(epoch, head.epoch if head else 0):
        return False
    if row.get("follows") or head is None or row.get("epoch") is not None:
        return (row.get("follows") or "") == (head.content_hash if head else "")
    return _before(row, plans) == (head.batch, head.content_hash)


def _files(row: Mapping[str, Any]) -> list[LandedFile]:
    return [LandedFile(**f) for f in row["files"] or ()]


def _planned(row: Mapping[str, Any]) -> PlannedFiles:
    files = tuple(_files(row))
    paths = {r["path"] for r in row["refused"] or ()}
    return PlannedFiles(
        row["batch"],
        files,
        row["content_hash"],
        frozenset(f for f in files if f.path in paths),
        _epoch(row),
        row.get("follows") or "",
        {r["table"]: r["snapshot"] for r in row.get("references") or ()},
    )
