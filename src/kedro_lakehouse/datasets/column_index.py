"""The column index as two datasets: what of the lake is not indexed yet, and the signatures."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from kedro.io import AbstractDataset

from kedro_lakehouse.columns.embedders.base import ModelName
from kedro_lakehouse.columns.files import read_batches
from kedro_lakehouse.columns.indexing import PendingIndex, PendingTable
from kedro_lakehouse.columns.sketch import ColumnSketch, sketch_batches
from kedro_lakehouse.columns.space import SPACE, SpaceStore
from kedro_lakehouse.columns.store import SIGNATURES, Applied, Key, SignatureChange, SignatureStore
from kedro_lakehouse.columns.survey import file_tables, lake_tables, survey, table_version
from kedro_lakehouse.names import TableName, is_reserved_column, quote
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.table.snapshots import Snapshot

    from kedro_lakehouse.columns.signature import TableVersion
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

SMALL_TABLE: Final = 16 * 1024 * 1024
"""Bytes of files up to which a table is read here: Spark takes longer to begin with it."""


class ColumnTablesDataset(AbstractDataset[None, PendingIndex]):
    """The tables of the lake, and the files beside it, whose columns are not indexed as they are now.

    Example:
        In YAML::

            "ops.column_tables":
              type: kedro_lakehouse.datasets.ColumnTablesDataset
    """

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> PendingIndex:
        """Compare metadata with the index; no row is read and no Spark started.

        Raises:
            ModelNotFoundError: A model's weights are not there.
        """
        return pending_index(active_project())

    def save(self, data: None) -> None:
        """Refuse: the tables are written by their own datasets."""
        raise NotImplementedError

    def _describe(self) -> dict[str, Any]:
        return {"filepath": "lake.*.*"}


class ColumnSignaturesDataset(AbstractDataset[SignatureChange, list[Any]]):
    """The signatures of all columns, ``lake.ops.column_signatures``.

    Example:
        In YAML::

            "ops.column_signatures":
              type: kedro_lakehouse.datasets.ColumnSignaturesDataset
    """

    _SINGLE_PROCESS = True

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> list[Any]:
        """Key, place, version and fingerprint of every signature."""
        return signature_store(active_project()).standing()

    def save(self, data: SignatureChange) -> None:
        """Apply the change to the signatures and their history; nothing is written where nothing changed."""
        apply_change(active_project(), data)

    def _exists(self) -> bool:
        return signature_store(active_project()).snapshot_id() is not None

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(SIGNATURES)}


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
    own = name is not None
    if stored is not None and state is not None and _size(state) <= SMALL_TABLE:
        names = tuple(f.name for f in stored.schema().fields if not (own and is_reserved_column(f.name)))
        scan = stored.scan(selected_fields=names, snapshot_id=snapshot)
        return sketch_batches([scan.to_arrow_batch_reader().read_all().combine_chunks().select(names)])
    from kedro_lakehouse.columns.spark_sketch import sketch_frame

    place = f"{quote('lake', table.namespace, table.table)} VERSION AS OF {snapshot}"
    frame = project.session.sql(f"SELECT * FROM {place}")  # noqa: S608 - a quoted name and a number
    kept = [name for name in frame.columns if not (own and is_reserved_column(name))]
    return sketch_frame(frame.select(*[quote(name) for name in kept]))


def other_formats(project: Project) -> list[TableName]:
    """The declared current tables that are not Iceberg's: the catalog does not list them."""
    return [
        name for name, table in project.declarations.tables.items()
        if table.current and (table.format or project.default_format) != "iceberg"
    ]  # fmt: skip


def declared_version(project: Project, name: TableName) -> TableVersion | None:
    """A declared table as it is now, by its format; None where it is not there. Needs Spark."""
    state = project.format_of(name).state(name)
    if state is None or state.snapshot_id is None:
        return None
    location = f"{project.lakehouse}/warehouse/{name.namespace}/{name.table}"
    return table_version(
        name.namespace, name.table, location=location, snapshot=state.snapshot_id, config=project.table(name)
    )


def sketch_declared(project: Project, name: TableName) -> Mapping[str, ColumnSketch]:
    """Sketch a declared table's columns as its format reads them, in Spark."""
    from kedro_lakehouse.columns.spark_sketch import sketch_frame

    frame = project.format_of(name).read(name)
    return sketch_frame(frame.select(*[quote(c) for c in frame.columns if not is_reserved_column(c)]))


def _size(state: Snapshot) -> float:
    """The bytes of a snapshot's files; without end where it does not tell."""
    told = state.summary["total-files-size"] if state.summary else None
    return int(told) if told else math.inf


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
        len(change.upserts), change.embedded, applied.deleted, whole,
        ", ".join(f"{name} {taken:.1f}" for name, taken in seconds.items()),
    )  # fmt: skip
    project.reports.append(
        CommitReport(
            table=str(SIGNATURES), stage="column_index", batch=applied.number, batches=1, content_hash="",
            run_id=project.run_id, committed_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            counts={
                "events_in": len(change.upserts), "applied": change.embedded, "inserted": applied.inserted,
                "updated": applied.updated, "deleted": applied.deleted,
            },
        )
    )  # fmt: skip
    return applied


class ColumnStudiesDataset(AbstractDataset[None, dict[str, Any]]):
    """The evaluation set of the parameters, matched with every model: measures by model and study.

    Example:
        In YAML::

            "ops.column_studies":
              type: kedro_lakehouse.datasets.ColumnStudiesDataset
    """

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> dict[str, Any]:
        """Match the studies.

        Raises:
            UnreadableFileError: There is no study where parameters_column_index.yml says.
        """
        from kedro_lakehouse.columns.evaluation.studies import judge_studies, read_studies

        project = active_project()
        config = project.column_index
        studies = read_studies(Path(config.evaluation.path)) if config.evaluation else []
        embedders = [ModelName.parse(name).open(Path(project.cache)) for name in config.models]
        return {embedder.model_id: judge_studies(studies, embedder) for embedder in embedders}

    def save(self, data: None) -> None:
        """Refuse: the set is given."""
        raise NotImplementedError

    def _describe(self) -> dict[str, Any]:
        return {"filepath": "parameters:column_index.evaluation.path"}
