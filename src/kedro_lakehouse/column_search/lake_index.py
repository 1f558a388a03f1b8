"""Bring the index of a lake's columns up to date: what is not indexed yet, and the change that indexes it."""

from __future__ import annotations

import logging
import math
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.column_search.embedders.base import ModelName
from kedro_lakehouse.column_search.files import read_batches
from kedro_lakehouse.column_search.indexing import PendingIndex, PendingTable
from kedro_lakehouse.column_search.sketch import ColumnSketch, sketch_batches, sketch_frame
from kedro_lakehouse.column_search.space import SPACE, SpaceStore
from kedro_lakehouse.column_search.store import SIGNATURES, Applied, Key, SignatureChange, SignatureStore
from kedro_lakehouse.column_search.survey import file_tables, lake_tables, survey, table_version
from kedro_lakehouse.names import TableName, is_reserved_column, quote
from kedro_lakehouse.ops.report import CommitReport, now

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import DataFrame

    from kedro_lakehouse.column_search.signature import TableVersion
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

SMALL_TABLE: Final = 16 * 1024 * 1024
"""Bytes of files up to which a table is read here: Spark takes longer to begin with it."""


def signature_store(project: Project) -> SignatureStore:
    """The signatures of a project's lake."""
    return SignatureStore(project.catalog, project.leases)


def pending_index(
    project: Project, *, add: Iterable[str] = (), models: Sequence[str] = (), lake: bool = True
) -> PendingIndex:
    """What an index run has to do.

    Args:
        add: Files and folders that are to be indexed from now on, beside those that are already.
        models: The models to index with; by default those of parameters_column_index.yml.
        lake: Whether tables of the lake that changed are indexed too (large ones take Spark).
    """
    begun = perf_counter()
    embedders = [
        ModelName.parse(name).open(Path(project.cache)) for name in models or project.column_index.models
    ]
    store = signature_store(project)
    standing = store.standing()
    paths = {row["added"] for row in standing if row["added"]}
    paths |= {str(Path(path).expanduser().resolve()) for path in (*project.column_index.paths, *add)}
    tables = lake_tables(project.catalog, project.declarations.tables) + file_tables(paths)
    others = other_formats(project)
    if lake:
        tables += [version for name in others if (version := declared_version(project, name))]
    unseen = set() if lake else {name.identifier for name in others}
    known = [row for row in standing if (row["namespace"], row["table"]) not in unseen]
    found = survey(tables, known, [embedder.model_id for embedder in embedders])
    held: dict[str, list[Key]] = {}
    for row in standing:
        held.setdefault(row["location"], []).append((row["column_id"], row["model_id"]))
    pending = [
        PendingTable(table, partial(sketch_table, project, table))
        for table in found.changed
        if lake or table.source == "file"
    ]
    seconds = {"survey": perf_counter() - begun}
    return PendingIndex(pending, embedders, held, found.gone, store.vectors, seconds)


def sketch_table(project: Project, table: TableVersion) -> Mapping[str, ColumnSketch]:
    """Sketch a table's columns: files and small tables of the lake here, others where Spark reads them."""
    if table.source == "file":
        return sketch_batches(read_batches(Path(table.location)))
    # Tables of others may bear names that are no TableName.
    name = next(
        (n for n in project.declarations.tables if n.identifier == (table.namespace, table.table)), None
    )
    if name is not None and name in other_formats(project):
        return sketch_declared(project, name)
    snapshot = int(table.version.partition("+")[0])
    stored = project.catalog.load((table.namespace, table.table))
    state = stored.snapshot_by_id(snapshot) if stored is not None else None
    own, now = name is not None, present_names(stored, snapshot) if stored is not None else {}
    if stored is not None and state is not None and _size(state) <= SMALL_TABLE:
        names = tuple(n for n in now if not (own and is_reserved_column(n)))
        scan = stored.scan(selected_fields=names, snapshot_id=snapshot)
        rows = scan.to_arrow_batch_reader().read_all().combine_chunks().select(names)
        return sketch_batches([rows.rename_columns([now[n] for n in names])])
    place = f"{quote('lake', table.namespace, table.table)} VERSION AS OF {snapshot}"
    frame = project.session.sql(f"SELECT * FROM {place}")  # noqa: S608 - a quoted name and a number
    return _sketch_in_spark(frame.toDF(*[now.get(n, n) for n in frame.columns]), own=own)


def present_names(stored: Table, snapshot: int) -> dict[str, str]:
    """The names that the columns of a snapshot had at its time, each with its present name."""
    then, now = stored.scan(snapshot_id=snapshot).projection(), stored.schema()
    return {f.name: now.find_column_name(f.field_id) or f.name for f in then.fields}


def sketch_declared(project: Project, name: TableName) -> Mapping[str, ColumnSketch]:
    """Sketch a declared table's columns as its format reads them, in Spark."""
    return _sketch_in_spark(project.bind(name).read("current"), own=True)


def _sketch_in_spark(frame: DataFrame, *, own: bool) -> Mapping[str, ColumnSketch]:
    kept = [name for name in frame.columns if not (own and is_reserved_column(name))]
    return sketch_frame(frame.select(*[quote(name) for name in kept]))


def other_formats(project: Project) -> list[TableName]:
    """The declared current tables that are not Iceberg's: the catalog does not list them."""
    return [
        name
        for name, table in project.declarations.tables.items()
        if table.current and not project.bind(name).in_catalog
    ]


def declared_version(project: Project, name: TableName) -> TableVersion | None:
    """A declared table as it is now, by its format; None where it is not there. Needs Spark."""
    table = project.bind(name)
    state = table.state("current")
    if state is None or state.snapshot_id is None:
        return None
    location = f"{project.lakehouse}/warehouse/{name.namespace}/{name.table}"
    return table_version(
        name.namespace, name.table, location=location, snapshot=state.snapshot_id, config=table.config
    )


def _size(state: Snapshot) -> float:
    """The bytes of a snapshot's files; without end where it does not tell."""
    size = state.summary["total-files-size"] if state.summary else None
    return int(size) if size else math.inf


def apply_change(project: Project, change: SignatureChange) -> Applied | None:
    """Write a change of the signatures, and tell of it in log and summary."""
    begun = perf_counter()
    store = signature_store(project)
    applied = store.apply(change)
    with project.lease(SPACE, "index"):
        SpaceStore(project.catalog).rebuild(store)
    seconds = {**change.seconds, "writing": perf_counter() - begun}
    whole = sum(seconds.values())
    if applied is None:
        logger.info("column_index: nothing changed (%.1f s)", whole)
        return None
    logger.info(
        "column_index: %s columns profiled, %s embedded, %s dropped (%.1f s: %s)",
        len(change.upserts),
        change.embedded,
        applied.deleted,
        whole,
        ", ".join(f"{name} {taken:.1f}" for name, taken in seconds.items()),
    )
    project.reports.append(
        CommitReport(
            table=str(SIGNATURES),
            stage="column_index",
            batch=applied.number,
            batches=1,
            content_hash="",
            run_id=project.run_id,
            committed_at=now(),
            counts={
                "events_in": len(change.upserts),
                "applied": change.embedded,
                "inserted": applied.inserted,
                "updated": applied.updated,
                "deleted": applied.deleted,
            },
        )
    )
    return applied
