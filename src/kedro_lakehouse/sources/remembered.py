"""What a process remembers of the ledger of a stream: a cycle of the loop costs the same after many batches.

Of a published batch that others follow only its identity matters, and how far it read each partition. So its
row is forgotten. The ledger's data files never change: of those that are known nothing is read again. Whoever
asks for a batch before the remembered ones reads the ledger whole, as without a memory.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kedro_lakehouse.sources.plans import PlannedFiles

    Row = Mapping[str, Any]
    ReadFiles = Callable[[Collection[str]], Mapping[str, Sequence[Row] | None] | None]

_LAST: Final = 20
"""So many of the last batches are kept as rows: a rollback by less needs no reading of all."""
_AT_LEAST: Final = 20
"""So many batches at least are settled at once."""
_TELLING: Final = ("batch", "content_hash", "run_id", "planned_at", "epoch", "follows", "guards")
"""What tells rows of one table apart, in whichever file. (pyiceberg reads a null list as an empty one.)"""


def _identity(row: Row) -> int:
    return hash(tuple(row.get(name) for name in _TELLING))


class Extremes:
    """Of the ranges of each partition those that tell where it begins, and up to where it was read."""

    def __init__(self) -> None:
        """Know no range yet."""
        self._first: dict[tuple[str, str], tuple[int, LandedFile]] = {}
        self._ends: dict[tuple[str, str], tuple[tuple[int, int], LandedFile]] = {}
        self._untils: dict[tuple[str, str], tuple[tuple[int, int], LandedFile]] = {}

    def add(self, ranges: Iterable[LandedFile]) -> None:
        """Take up ranges: those of a published batch, or of any plan."""
        for one in ranges:
            *_, identity, ends, name = one.path.rsplit("/", 3)
            partition, (first, _, last) = (identity, name), ends.partition("-")
            begin, end, until = int(first), int(last), one.modified
            if begin < end and ((held := self._first.get(partition)) is None or begin < held[0]):
                self._first[partition] = begin, one
            if (kept := self._ends.get(partition)) is None or (end, until) > kept[0]:
                self._ends[partition] = (end, until), one
            if (kept := self._untils.get(partition)) is None or (until, end) > kept[0]:
                self._untils[partition] = (until, end), one

    @property
    def first(self) -> tuple[LandedFile, ...]:
        """Those with records that begin first."""
        return tuple(one for _, one in self._first.values())

    @property
    def last(self) -> tuple[LandedFile, ...]:
        """Those that end last, and those that were read last."""
        kept = [*self._ends.values(), *self._untils.values()]
        return tuple(dict.fromkeys(one for _, one in kept))


@dataclass(frozen=True)
class Settled:
    """The published batches up to one, in short."""

    hashes: Sequence[str]
    """The identities of at least these batches, the first one's first."""
    numbers: Mapping[str, int]
    """Their numbers by their identities."""
    head: PlannedFiles
    """The last one."""
    ends: tuple[LandedFile, ...]
    """How far they read each partition."""

    @property
    def batch(self) -> int:
        """The number of the last one."""
        return self.head.batch

    def has(self, content_hash: str) -> bool:
        """Whether one of them has this identity."""
        return 0 < self.numbers.get(content_hash, 0) <= self.batch


@dataclass(frozen=True)
class Taken:
    """What is remembered now: the rows that are not settled, what is, and where all plans ever began."""

    rows: list[dict[str, Any]]
    settled: Settled | None
    firsts: tuple[LandedFile, ...]


class Remembered:
    """What is remembered of the ledger of one table; several threads may ask at once."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Remember nothing any more."""
        with self._lock:
            self._files: dict[str, array[int]] = {}
            self._rows: list[dict[str, Any]] = []
            self._settled: Settled | None = None
            self._hashes: list[str] = []
            self._numbers: dict[str, int] = {}
            self._ends, self._firsts = Extremes(), Extremes()

    def taken(self, read: ReadFiles) -> Taken | None:
        """Take up the rows that are new; None if the ledger's files cannot be told.

        Args:
            read: Gives the ledger's data files, each with its rows unless it is among those that are given.
        """
        with self._lock:
            found = read(self._files)
            if found is not None and not self._take_up(found):
                self.forget()  # rows are gone
                found = read(())
                if found is not None:
                    self._take_up(found)
            if found is None:
                return None
            return Taken(list(self._rows), self._settled, self._firsts.first)

    def _take_up(self, found: Mapping[str, Sequence[Row] | None]) -> bool:
        """Take up what new files hold; false if they lack rows of files that are not there any more."""
        new = {path: rows for path, rows in found.items() if rows is not None}
        told = {path: array("q", map(_identity, rows)) for path, rows in new.items()}
        gone = Counter(one for path, held in self._files.items() if path not in found for one in held)
        if gone - Counter(one for held in told.values() for one in held):
            return False
        for path, rows in new.items():
            for identity, row in zip(told[path], rows, strict=True):
                if gone[identity] > 0:
                    gone[identity] -= 1
                    continue
                self._rows.append(dict(row))
                if row["batch"] is not None:
                    self._firsts.add(LandedFile(**file) for file in row["files"] or ())
        self._files = {path: told[path] if path in told else self._files[path] for path in found}
        return True

    def settle(self, before: Settled | None, published: Sequence[PlannedFiles]) -> None:
        """Forget the rows of batches that many others follow.

        Args:
            before: What was settled when the chain was made.
            published: The batches of the chain after these, each of which names the one that it follows.
        """
        if len(published) < _LAST + _AT_LEAST:
            return
        with self._lock:
            if self._settled is not before:
                return  # another thread has settled meanwhile
            done = published[:-_LAST]
            for plan in done:
                self._hashes.append(plan.content_hash)
                self._numbers[plan.content_hash] = plan.batch
                self._ends.add(() if plan.is_replay else plan.files)
            self._settled = Settled(self._hashes, self._numbers, done[-1], self._ends.last)
            gone = {(plan.batch, plan.content_hash) for plan in done}
            self._rows = [row for row in self._rows if (row["batch"], row["content_hash"]) not in gone]
