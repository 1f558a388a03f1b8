"""Published snapshots of an Iceberg table: a tag each keeps them readable when older ones expire. No JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.names import SNAPSHOT_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update.snapshot import ManageSnapshots

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog

PUBLISHED_TAG: Final = "published_"
"""Begins the name of the tag of a published snapshot; its id comes after it."""


def keep_published(
    catalog: MetadataCatalog, table: TableName, published: Sequence[int], keep: int
) -> Mapping[str, int]:
    """Tag the newest published snapshots, and take such tags of earlier ones away, in one commit.

    A tag that is there stays where it is. Where rows have a column ``_snapshot_id``, each of its values is a
    snapshot: its tag is at the state that added its newest file.

    Args:
        published: The states that commits published, by Iceberg's numbers, the earliest first.
        keep: How many snapshots keep a tag.

    Returns:
        The tags that were made, with the states that they are at.

    Raises:
        CommitConflictError: A writer was faster; nothing was changed.
    """
    found = catalog.find(table)
    if found is None:
        return {}
    present = published_tags(found)
    wanted = dict(_published(found, published)[-keep:])
    made = {f"{PUBLISHED_TAG}{n}": state for n, state in wanted.items() if n not in present}
    gone = [number for number in present if number not in wanted]
    if not (made or gone):
        return {}
    change = found.manage_snapshots()
    for name, state in made.items():
        change.create_tag(state, name)
    for number in gone:
        change.remove_tag(f"{PUBLISHED_TAG}{number}")
    commit_refs(change, table)
    return made


def forget_published(catalog: MetadataCatalog, table: TableName) -> None:
    """Take all tags of published snapshots away: an erasure lets no earlier state stay.

    Raises:
        CommitConflictError: A writer was faster; nothing was changed.
    """
    found = catalog.find(table)
    if found is None or not (present := published_tags(found)):
        return
    change = found.manage_snapshots()
    for number in present:
        change.remove_tag(f"{PUBLISHED_TAG}{number}")
    commit_refs(change, table)


def commit_refs(change: ManageSnapshots, table: TableName) -> None:
    """Commit a change of tags and branches.

    Raises:
        CommitConflictError: A writer was faster; nothing was changed.
    """
    from pyiceberg.exceptions import CommitFailedException

    try:
        change.commit()
    except CommitFailedException as error:
        raise CommitConflictError(table=table, attempts=1) from error


def published_tags(table: Table) -> dict[str, int]:
    """The ids of published snapshots that have a tag, with the states that the tags are at."""
    return {
        name.removeprefix(PUBLISHED_TAG): ref.snapshot_id
        for name, ref in table.refs().items()
        if name.startswith(PUBLISHED_TAG)
    }


def partitions(table: Table) -> dict[str, tuple[int, int]]:
    """The values of ``_snapshot_id`` in the present rows: the state that added its newest file, and the rows.

    Rows that a delete file hides are counted.
    """
    from pyiceberg.manifest import ManifestContent

    snapshot, column = table.current_snapshot(), table.schema().find_field(SNAPSHOT_ID).field_id
    found: dict[str, tuple[int, int]] = {}
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content != ManifestContent.DATA:
            continue
        fields = enumerate(table.specs()[manifest.partition_spec_id].fields)
        own = [n for n, one in fields if one.source_id == column and str(one.transform) == "identity"]
        if not own:
            return _values(table)
        for entry in manifest.fetch_manifest_entry(table.io):
            number, added = str(entry.data_file.partition[own[0]]), entry.snapshot_id or 0
            state, rows = found.get(number, (0, 0))
            newer = added if _order(table, added) >= _order(table, state) else state
            found[number] = newer, rows + entry.data_file.record_count
    return found


def _values(table: Table) -> dict[str, tuple[int, int]]:
    """The same of a table that is not partitioned by the column: its values are read."""
    held = table.scan(selected_fields=(SNAPSHOT_ID,)).to_arrow().column(SNAPSHOT_ID)
    state = table.metadata.current_snapshot_id or 0
    return {str(one["values"]): (state, int(one["counts"])) for one in held.value_counts().to_pylist()}


def _published(table: Table, published: Sequence[int]) -> list[tuple[str, int]]:
    """The snapshots that can be tagged, the earliest first, each with its state."""
    there = {one.snapshot_id for one in table.metadata.snapshots}
    if SNAPSHOT_ID not in table.schema().column_names:
        return [(str(number), number) for number in dict.fromkeys(published) if number in there]
    current = table.metadata.current_snapshot_id or 0
    states = {number: state for number, (state, _) in partitions(table).items()}
    return [(n, state if state in there else current) for n, state in sorted(states.items())]


def _order(table: Table, state: int) -> int:
    found = table.snapshot_by_id(state)
    return (found.sequence_number or 0) if found else -1
