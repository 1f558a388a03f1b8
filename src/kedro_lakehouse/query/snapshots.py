"""The published snapshots of datasets and the rejected loads, from metadata; known until a pointer moves.

A dataset is a declared table as its readers see it. Where rows have a column ``_snapshot_id``, a snapshot is
the rows with one value of it; else it is the table as one commit published it, by Iceberg's number.
"""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.names import SNAPSHOT_ID, TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, ERASURES, QUALITY_RESULTS
from kedro_lakehouse.query.errors import SnapshotErasedError, SnapshotExpiredError, SnapshotNotFoundError
from kedro_lakehouse.query.pins import Pin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table

    from kedro_lakehouse.project import Project

_PULLED: Final = re.compile(r"(\d{8}T\d{6}Z)-(\d+)")
_NUMBER: Final = re.compile(r"\d{1,19}")
_OPS: Final = (BATCHES, BATCH_LEDGER, QUALITY_RESULTS, ERASURES)
_BLOCKED: Final = "EXPECTATION_FAILED"


@dataclass(frozen=True, kw_only=True)
class DatasetSnapshot:
    """One snapshot of a dataset, or one load that was rejected.

    Attributes:
        partition: What tells its rows or its landed files from others, such as ``Year=2024/Month=01``.
        codes: The codes of the errors for which a load was rejected.
        rows: How many rows it has; None where metadata does not say.
        pin: How it is read; None of a rejected load, and of a table that is not in Iceberg.
    """

    id: str
    dataset: str
    partition: str
    time: datetime
    state: Literal["published", "rejected"] = "published"
    codes: tuple[str, ...] = ()
    rows: int | None = None
    pin: Pin | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """All that metadata says of one dataset at one time; ``table`` is None before its first commit."""

    name: TableName
    table: Table | None
    snapshots: Sequence[DatasetSnapshot]
    expired: frozenset[int]
    """Commits that were published and whose states cannot be read any more."""
    erased: frozenset[int]
    """Those of them that were published before somebody was erased."""

    @cached_property
    def by_id(self) -> Mapping[str, tuple[int, DatasetSnapshot]]:
        """Each snapshot with its place in the list."""
        return {one.id: (place, one) for place, one in enumerate(self.snapshots)}

    @property
    def latest(self) -> DatasetSnapshot | None:
        """The newest snapshot that was published."""
        return next((one for one in self.snapshots if one.state == "published"), None)

    def snapshot(self, wanted: str) -> DatasetSnapshot:
        """A snapshot or rejected load by its id.

        Raises:
            SnapshotNotFoundError: There was none of that id.
            SnapshotExpiredError: It was published, and has expired.
            SnapshotErasedError: It was published, and somebody whose rows it may hold was erased since.
        """
        if wanted in self.by_id:
            return self.by_id[wanted][1]
        facts = {"dataset": str(self.name), "snapshot": wanted[:40]}
        if _NUMBER.fullmatch(wanted) and int(wanted) in self.erased:
            raise SnapshotErasedError(**facts)
        if (_NUMBER.fullmatch(wanted) and int(wanted) in self.expired) or self._was_pulled(wanted):
            raise SnapshotExpiredError(**facts)
        raise SnapshotNotFoundError(**facts)

    def _was_pulled(self, wanted: str) -> bool:
        """Whether an id is that of an earlier pull: its number is below that of the newest one."""
        asked = _PULLED.fullmatch(wanted)
        numbers = [int(found[2]) for one in self.snapshots if (found := _PULLED.fullmatch(one.id))]
        return asked is not None and 0 < int(asked[2]) < max(numbers, default=0)


class Datasets:
    """The datasets of a project, each read again only after a commit to it or to the project's own tables."""

    def __init__(self, project: Project) -> None:
        """Read nothing yet."""
        self._project = project
        self._known: dict[TableName, tuple[tuple[str | None, ...], Dataset]] = {}
        self._reading = threading.Lock()

    def of(self, name: TableName) -> Dataset:
        """A dataset as metadata describes it now."""
        stored = self.stored(name)
        names = [stored, *(TableName.ops(table) for table in _OPS)]
        pointers = self._project.catalog.pointers(names)
        known = self._known.get(name)
        if known is not None and known[0] == pointers:
            return known[1]
        with self._reading:
            known = self._known.get(name)
            if known is None or known[0] != pointers:
                known = pointers, self._read(name, stored)
                self._known[name] = known
        return known[1]

    def pin(self, name: TableName, snapshot: str) -> Pin:
        """How a published snapshot is read.

        Raises:
            SnapshotNotFoundError: There was none of that id, or the load was rejected.
            SnapshotExpiredError: It has expired.
        """
        found = self.of(name).snapshot(snapshot)
        if found.pin is None:
            raise SnapshotNotFoundError(dataset=str(name), snapshot=snapshot[:40])
        return found.pin

    def stored(self, name: TableName) -> TableName:
        """The stored table that readers of a dataset see."""
        table = self._project.bind(name)
        return table.stored("current" if table.config.current else "history")

    def _read(self, name: TableName, stored: TableName) -> Dataset:
        bound = self._project.bind(name)
        table = self._project.catalog.find(stored) if bound.in_catalog else None
        stage = "current" if bound.config.current else "history"
        commits = [row for row in bound.ops.read(BATCHES, of_table=str(name)) if row["stage"] == stage]
        published = _first_commits(commits)
        if table is not None and SNAPSHOT_ID in table.schema().column_names:
            found = list(_pulled(name, table))
            gone = dict[int, datetime]()
        else:
            there = {one.snapshot_id for one in table.metadata.snapshots} if table is not None else set()
            if not bound.in_catalog:  # other formats are listed, and not read here
                there = set(published)
            shown = [row for number, row in published.items() if number in there]
            found = [_committed(name, row, reads=bound.in_catalog) for row in shown]
            gone = {n: row["committed_at"] for n, row in published.items() if n not in there}
        done = max((row["batch"] for row in commits), default=0)
        found += _rejected(name, bound.ops.read(BATCH_LEDGER, of_table=str(name)))
        found += _blocked(name, bound.ops.read(QUALITY_RESULTS, of_table=str(name)), done)
        found.sort(key=lambda one: (one.time, one.id), reverse=True)
        erasures = [row["recorded_at"] for row in bound.ops.read(ERASURES, of_table=str(name))]
        last = max(erasures, default=None)
        erased = {number for number, time in gone.items() if last is not None and time <= last}
        return Dataset(
            name=name, table=table, snapshots=found, expired=frozenset(gone), erased=frozenset(erased)
        )


def _first_commits(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The commit that published each state: a later one that changed no row has the same state."""
    found: dict[int, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["committed_at"]):
        if row["snapshot_id"] is not None:
            found.setdefault(row["snapshot_id"], row)
    return found


def _committed(name: TableName, row: Mapping[str, Any], *, reads: bool) -> DatasetSnapshot:
    number = row["snapshot_id"]
    pin = Pin(snapshot=str(number), state=number) if reads else None
    batch = f"batch={row['batch']}"
    return DatasetSnapshot(
        id=str(number), dataset=str(name), partition=batch, time=row["committed_at"], pin=pin
    )


def _pulled(name: TableName, table: Table) -> Iterator[DatasetSnapshot]:
    """The snapshots that are partitions of the present table, or that a tag keeps."""
    from kedro_lakehouse.formats.iceberg.published import partitions, published_tags

    tags = published_tags(table)
    rows = {number: count for number, (_, count) in partitions(table).items()}
    times = {one.snapshot_id: one.timestamp_ms for one in table.metadata.snapshots}
    for number in rows.keys() | tags.keys():
        said = _PULLED.fullmatch(number)
        if said is not None:
            time = datetime.strptime(said[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        else:
            current = table.metadata.current_snapshot_id
            moment = times.get(tags.get(number, current or 0), 0)
            time = datetime.fromtimestamp(moment / 1000, UTC)
        pin = Pin(snapshot=number, state=tags.get(number), partition=True)
        yield DatasetSnapshot(
            id=number, dataset=str(name), partition=f"{SNAPSHOT_ID}={number}", time=time,
            rows=rows.get(number), pin=pin,
        )  # fmt: skip


def _rejected(name: TableName, ledger: Sequence[Mapping[str, Any]]) -> list[DatasetSnapshot]:
    """The landed files that were refused, but for those that a later batch holds."""
    found: dict[str, DatasetSnapshot] = {}
    for row in sorted(ledger, key=lambda row: row["planned_at"]):
        refused = [*(row["refused"] or ()), *(row["waiting"] or ())]
        paths = {one["path"] for one in refused}
        if row["batch"] is not None:
            for file in row["files"] or ():
                if file["path"] not in paths:
                    found.pop(file["path"], None)
        for one in refused:
            found[one["path"]] = DatasetSnapshot(
                id=f"rejected-{hashlib.sha256(one['path'].encode()).hexdigest()[:16]}",
                dataset=str(name),
                partition="/".join(part for part in one["path"].split("/")[:-1] if "=" in part),
                time=row["planned_at"],
                state="rejected",
                codes=(one["code"],),
            )
    return list(found.values())


def _blocked(name: TableName, results: Sequence[Mapping[str, Any]], done: int) -> list[DatasetSnapshot]:
    """The batches that an expectation keeps from being published."""
    found: dict[int, DatasetSnapshot] = {}
    for row in results:
        batch = row["batch"]
        if row["success"] or row["severity"] != "block" or batch is None or batch <= done:
            continue
        found[batch] = DatasetSnapshot(
            id=f"batch-{batch}", dataset=str(name), partition=f"batch={batch}", time=row["judged_at"],
            state="rejected", codes=(_BLOCKED,),
        )  # fmt: skip
    return list(found.values())
