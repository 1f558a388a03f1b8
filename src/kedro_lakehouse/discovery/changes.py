"""What changed between two looks: tables and columns that were added, changed, renamed or removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from kedro_lakehouse.discovery.found import CRAWLED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset

ChangeKind = Literal[
    "table_added",
    "table_removed",
    "table_renamed",
    "table_moved",
    "format_changed",
    "column_added",
    "column_removed",
    "column_renamed",
    "type_changed",
    "partition_added",
    "partition_removed",
]
Status = Literal["present", "removed", "renamed"]

_WORDS: Final[Mapping[ChangeKind, str]] = {
    "table_added": "the table is new",
    "table_removed": "the table is gone",
    "table_renamed": "the table was {before}",
    "table_moved": "the table lies in {after}, no longer in {before}",
    "format_changed": "the format is {after}, no longer {before}",
    "column_added": "column {column} is new: {after}",
    "column_removed": "column {column} is gone: {before}",
    "column_renamed": "column {after} was {before}",
    "type_changed": "column {column} is {after}, no longer {before}",
    "partition_added": "it is partitioned by {after}",
    "partition_removed": "it is no longer partitioned by {before}",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of one table; ``before`` and ``after`` are names, types or places."""

    table: str
    kind: ChangeKind
    column: str = ""
    before: str = ""
    after: str = ""

    @property
    def words(self) -> str:
        """What changed, without the table's name."""
        return _WORDS[self.kind].format(column=self.column, before=self.before, after=self.after)


@dataclass(frozen=True, kw_only=True)
class FoundVersion:
    """A dataset as one look found it; ``version`` counts the states of its name, place and columns."""

    dataset: FoundDataset
    version: int
    status: Status = "present"
    changes: tuple[str, ...] = ()
    run_id: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class Comparison:
    """What is to be recorded, and what is to be reported; nothing of both if nothing changed."""

    versions: Sequence[FoundVersion]
    changes: Sequence[Change]


def compare(found: Sequence[FoundDataset], known: Sequence[FoundVersion]) -> Comparison:
    """Compare what lies there now with the newest known version of each dataset.

    The very first look reports nothing: there is nothing that it could be a change of. A dataset that is
    gone and one that is new are one that was renamed if they have the same identity.

    Args:
        found: All datasets there are now.
        known: The newest version of each dataset ever found.
    """
    before = {one.dataset.name: one for one in known}
    present = {name: one for name, one in before.items() if one.status == "present"}
    now = {one.name: one for one in found}
    renamed = _renamed(
        [one for name, one in now.items() if name not in present],
        [one for name, one in present.items() if name not in now],
    )
    versions, changes = list[FoundVersion](), list[Change]()
    for name, dataset in sorted(now.items()):
        old, came = present.get(name), list[Change]()
        if old is None and name in renamed:
            old = renamed[name]
            came.append(Change(table=name, kind="table_renamed", before=old.dataset.name, after=name))
        if old is not None:
            came += changes_between(old.dataset, dataset)
        elif known:
            came.append(Change(table=name, kind="table_added", after=dataset.kind))
        changes += came
        earlier = max(one.version for one in (before.get(name), old) if one) if name in before or old else 0
        if old is None or came or old.dataset != dataset:
            version = earlier + 1 if came or old is None else earlier
            versions.append(
                FoundVersion(dataset=dataset, version=version, changes=tuple(c.words for c in came))
            )
    moved = {old.dataset.name: name for name, old in renamed.items()}
    for name, old in sorted(present.items()):
        if name in moved:
            words = (f"the table is now {moved[name]}",)
            versions.append(replace(old, status="renamed", version=old.version + 1, changes=words))
        elif name not in now:
            gone = Change(table=name, kind="table_removed", before=old.dataset.kind)
            changes.append(gone)
            versions.append(replace(old, status="removed", version=old.version + 1, changes=(gone.words,)))
    return Comparison(versions, changes)


def changes_between(old: FoundDataset, new: FoundDataset) -> list[Change]:
    """The changes of one dataset's format, place, partitions and columns; figures are no change.

    A partition that is a column as well is one change, not two. A table format that numbers its columns
    tells a renamed column from one that was dropped beside one that was added.
    """
    found = list[Change]()
    if old.kind != new.kind:
        found.append(Change(table=new.name, kind="format_changed", before=old.kind, after=new.kind))
    if old.location != new.location and old.name == new.name:
        found.append(Change(table=new.name, kind="table_moved", before=old.location, after=new.location))
    come = [p for p in new.partitions if p not in old.partitions]
    gone = [p for p in old.partitions if p not in new.partitions]
    found += [Change(table=new.name, kind="partition_added", after=p) for p in come]
    found += [Change(table=new.name, kind="partition_removed", before=p) for p in gone]
    before = {c.name: c for c in old.columns if c.name not in gone or _has(new, c.name)}
    after = {c.name: c for c in new.columns if c.name not in come or _has(old, c.name)}
    changed = list(_of_columns(new.name, before, after))
    return found + (_outermost(changed) if new.kind in CRAWLED else changed)


def _outermost(changes: Sequence[Change]) -> list[Change]:
    """Of fields of documents, those that came or went by themselves: not within one that did."""
    whole = {(c.kind, c.column) for c in changes if c.kind in ("column_added", "column_removed")}
    return [c for c in changes if not any((c.kind, outer) in whole for outer in _around(c.column))]


def _around(path: str) -> Iterator[str]:
    """The paths of what a field lies in."""
    for place in range(1, len(path)):
        if path[place] in ".[{":
            yield path[:place]


def _has(dataset: FoundDataset, column: str) -> bool:
    return any(c.name == column for c in dataset.columns)


def _of_columns(
    table: str, before: Mapping[str, FoundColumn], after: Mapping[str, FoundColumn]
) -> Iterator[Change]:
    numbered = {c.id: c for c in before.values() if c.id is not None}
    renamed = {
        c.name: numbered[c.id]
        for c in after.values()
        if c.id in numbered and c.name not in before and numbered[c.id].name not in after
    }
    for name, column in after.items():
        old = before.get(name) or renamed.get(name)
        if old is None:
            yield Change(table=table, kind="column_added", column=name, after=column.type)
            continue
        if name in renamed:
            yield Change(table=table, kind="column_renamed", column=name, before=old.name, after=name)
        if old.type != column.type:
            yield Change(table=table, kind="type_changed", column=name, before=old.type, after=column.type)
    kept = {one.name for one in renamed.values()}
    for name, column in before.items():
        if name not in after and name not in kept:
            yield Change(table=table, kind="column_removed", column=name, before=column.type)


def _renamed(new: Sequence[FoundDataset], gone: Sequence[FoundVersion]) -> dict[str, FoundVersion]:
    """The new datasets that were there under another name: one of each identity, among both."""
    found: dict[str, FoundVersion] = {}
    for dataset in new:
        same = [
            one
            for one in gone
            if one.dataset.identity == dataset.identity and one.dataset.kind == dataset.kind
        ]
        twins = [one for one in new if one.identity == dataset.identity]
        if dataset.identity and len(same) == len(twins) == 1:
            found[dataset.name] = same[0]
    return found
