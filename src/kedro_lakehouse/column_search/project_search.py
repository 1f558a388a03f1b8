"""The column search of a project: what a notebook, the command line and the console open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.embedders.base import Embedder, ModelName
from kedro_lakehouse.column_search.files import read_batches, table_files
from kedro_lakehouse.column_search.indexes.base import VectorIndex, open_index
from kedro_lakehouse.column_search.indexing import change_index, query_columns
from kedro_lakehouse.column_search.lake_index import (
    apply_change,
    pending_index,
    present_names,
    signature_store,
)
from kedro_lakehouse.column_search.results import ColumnFilter, ColumnHit, JoinHit, TableHit
from kedro_lakehouse.column_search.search import ColumnSearch
from kedro_lakehouse.column_search.sketch import sketch_batches
from kedro_lakehouse.column_search.survey import lake_tables
from kedro_lakehouse.column_search.values import as_texts, counted, kind_of
from kedro_lakehouse.errors import IndexEmptyError, UnsupportedError
from kedro_lakehouse.project import Project, active_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.column_search.store import SignatureChange

__all__ = [
    "ColumnFilter",
    "ColumnHit",
    "ColumnSearch",
    "JoinHit",
    "TableHit",
    "add_files",
    "exact_containment",
    "file_columns",
    "indexed_models",
    "open_search",
    "tables_not_indexed",
]


def open_search(
    project: Project | None = None,
    *,
    model: str | None = None,
    index: str | None = None,
    lets: Callable[[ColumnSignature], bool] | None = None,
) -> ColumnSearch:
    """Open the search over what is indexed; no JVM is started.

    Args:
        project: By default the active one.
        model: As in parameters_column_index.yml, by default its first: ``minilm``, ``glove:/path``.
        index: By default that of parameters_column_index.yml: ``exact``, ``lance``, ``opensearch:https://host:9200``.
        lets: Which columns may be seen; to the search there are no others. Default: all.

    Raises:
        ModelNotFoundError: The model's weights are not there.
        IndexEmptyError: Nothing is indexed with the model yet.
        UnsupportedError: No column may be seen.
    """
    own = project or active_project()
    embedder = _embedder(own, model)
    store = signature_store(own)
    state = str(store.snapshot_id() or "")
    signatures = store.read(embedder.model_id)
    if not signatures:
        raise IndexEmptyError(model=embedder.model_id, indexed=store.models())
    corpus = ColumnCorpus(signatures, embedder.dimension)
    vectors = open_index(
        index or own.column_index.index,
        model_id=embedder.model_id,
        dimension=embedder.dimension,
        folder=str(Path(own.cache if "://" in own.lakehouse else own.lakehouse) / "column_index"),
    )
    bring_up_to_date(vectors, corpus, state)
    if lets is not None:
        seen = [one for one in signatures if lets(one)]
        if not seen:
            raise UnsupportedError(
                what="None of the columns in the index may be seen by who asks.",
                remedy="`kedro lakehouse grants show` lists what roles may see.",
            )
        corpus = ColumnCorpus(seen, embedder.dimension)
    return ColumnSearch(corpus, embedder, vectors)


def bring_up_to_date(index: VectorIndex, corpus: ColumnCorpus, state: str) -> None:
    """Give an index the vectors of a corpus, and take out what is no more; nothing where it is up to date."""
    if state and index.state == state:
        return
    names = [one.column_id for one in corpus.signatures]
    index.upsert(names, corpus.lead)
    index.delete(index.ids() - set(names))
    index.mark(state)


def add_files(
    paths: Iterable[str], project: Project | None = None, *, models: Sequence[str] = ()
) -> SignatureChange:
    """Index files and folders beside the lake, now and in every later run, until they are gone.

    Raises:
        UnreadableFileError: A path does not exist, or a named file is of no known kind.
    """
    own, added = project or active_project(), [str(path) for path in paths]
    for path in added:
        table_files(Path(path).expanduser())
    change = change_index(pending_index(own, add=added, models=models, lake=False))
    apply_change(own, change)
    return change


def file_columns(
    path: Path, project: Project | None = None, *, model: str | None = None
) -> list[ColumnSignature]:
    """The columns of a file to search with; it is not kept.

    Raises:
        UnreadableFileError: The file is not what its name says.
    """
    own = project or active_project()
    return query_columns(sketch_batches(read_batches(path)), path, _embedder(own, model))


def exact_containment(project: Project, query: ColumnSignature, found: ColumnSignature) -> float:
    """The share of one column's distinct values that another one has, counted over all their rows.

    Values are compared as the sketches compare them: as text, ignoring case. Reads both columns; no JVM.
    """
    own, other = distinct_values(project, query), distinct_values(project, found)
    return len(own & other) / len(own) if own else 0.0


def distinct_values(project: Project, one: ColumnSignature) -> set[str]:
    """The distinct values of a column as text, ignoring case; of a lake's table as it was indexed."""
    name = one.profile.name
    found: set[str] = set()
    if one.table.source == "file":
        batches = (batch.select([name]) for batch in read_batches(Path(one.table.location)))
    else:
        table = project.catalog.load((one.table.namespace, one.table.table))
        if table is None:
            return set()
        snapshot = int(one.table.version.partition("+")[0])
        # The index has the name by which it saw the column, or the one that the column has by now.
        name = next(
            (then for then, now in present_names(table, snapshot).items() if name in (then, now)), name
        )
        batches = table.scan(selected_fields=(name,), snapshot_id=snapshot).to_arrow_batch_reader()
    for batch in batches:
        values, _ = counted(batch.column(name))
        found.update(text.casefold() for text in as_texts(values, kind_of(batch.column(name).type)) if text)
    return found


def tables_not_indexed(project: Project, search: ColumnSearch) -> list[str]:
    """The current tables of the lake that are not in the index of a search; none if it has no model.

    Only metadata is read. A run of a part of the tables (``kedro run --namespaces``) does not index them.
    """
    if not project.column_index.models:
        return []
    indexed = {(one.table.namespace, one.table.table) for one in search.corpus.signatures}
    there = lake_tables(project.catalog, project.declarations.tables)
    return [f"{one.namespace}.{one.table}" for one in there if (one.namespace, one.table) not in indexed]


def indexed_models(project: Project | None = None) -> list[str]:
    """The models that columns are indexed with."""
    return signature_store(project or active_project()).models()


def _embedder(project: Project, model: str | None) -> Embedder:
    name = model or next(iter(project.column_index.models), "minilm")
    return ModelName.parse(name).open(Path(project.cache))
