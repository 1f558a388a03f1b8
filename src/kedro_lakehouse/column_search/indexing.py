"""From profiles to signatures: only what changed since the last index is embedded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence  # noqa: TC003 - dataclasses keep them
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.column_search.profile import profile_table
from kedro_lakehouse.column_search.signature import (
    ColumnSignature,
    TableVersion,
    column_texts,
    fingerprint_of,
)
from kedro_lakehouse.column_search.store import Key, SignatureChange
from kedro_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.embedders.base import Embedder
    from kedro_lakehouse.column_search.profile import ColumnProfile
    from kedro_lakehouse.column_search.signature import Aspect
    from kedro_lakehouse.column_search.sketch import ColumnSketch

logger = logging.getLogger(__name__)

_TABLES_AT_ONCE: Final = 4


def describe_columns(
    table: TableVersion, profiles: Iterable[ColumnProfile], model_id: str
) -> list[ColumnSignature]:
    """Signatures of a table's columns, still without vectors."""
    found = []
    for ordinal, profile in enumerate(profiles):
        texts = column_texts(profile, table.table)
        found.append(
            ColumnSignature(
                table=table,
                ordinal=ordinal,
                profile=profile,
                model_id=model_id,
                texts=texts,
                fingerprint=fingerprint_of(profile, texts, model_id),
            )
        )
    return found


def embed_columns(
    described: Sequence[ColumnSignature],
    embedder: Embedder,
    known: Mapping[str, Mapping[Aspect, NDArray[np.float32]]] | None = None,
) -> list[ColumnSignature]:
    """Give signatures their vectors: those ``known`` for their fingerprint, or else of the model.

    Texts go to the model together; one that several columns share is computed once.
    """
    held = known or {}
    new = [one for one in described if one.fingerprint not in held]
    texts = list(dict.fromkeys(text for one in new for text in one.texts.values() if text))
    vectors = dict(zip(texts, embedder.embed(texts), strict=True)) if texts else {}
    made = {
        id(one): {aspect: vectors[text] for aspect, text in one.texts.items() if text and vectors[text].any()}
        for one in new
    }
    return [replace(one, vectors=made.get(id(one)) or held.get(one.fingerprint, {})) for one in described]


def query_columns(
    sketches: Mapping[str, ColumnSketch], path: Path, embedder: Embedder
) -> list[ColumnSignature]:
    """The signatures of a file that is searched with, not kept."""
    version = TableVersion(
        namespace="query", table=path.stem, location=str(path), version="", added=str(path)
    )
    described = describe_columns(version, profile_table(sketches, table=path.stem), embedder.model_id)
    return embed_columns(described, embedder)


@dataclass(frozen=True)
class PendingTable:
    """A table that the index does not know as it is now, and how to sketch its columns."""

    version: TableVersion
    sketch: Callable[[], Mapping[str, ColumnSketch]]


@dataclass(frozen=True)
class PendingIndex:
    """What an index run has to do.

    Attributes:
        held: The keys that the index has of each table, by the table's location.
        gone: The keys of tables that are no more.
        known: Gives the vectors that the index has for some fingerprints.
        seconds: What finding out took.
    """

    tables: Sequence[PendingTable] = ()
    embedders: Sequence[Embedder] = ()
    held: Mapping[str, Collection[Key]] = field(default_factory=dict)
    gone: Collection[Key] = ()
    known: Callable[[Collection[str]], Mapping[str, Mapping[Aspect, NDArray[np.float32]]]] = lambda _: {}
    seconds: Mapping[str, float] = field(default_factory=dict)


def change_index(pending: PendingIndex) -> SignatureChange:
    """Profile what changed, embed what is new in it, and tell what became of the rest.

    A table that cannot be read keeps what the index has of it, and does not stop the others.
    """
    begun = perf_counter()
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        profiled = [found for found in pool.map(_profiled, pending.tables) if found]
    profiling, begun = perf_counter() - begun, perf_counter()
    upserts: list[ColumnSignature] = []
    embedded = 0
    for embedder in pending.embedders:
        described = [
            one
            for version, profiles in profiled
            for one in describe_columns(version, profiles, embedder.model_id)
        ]
        known = pending.known({one.fingerprint for one in described})
        upserts += embed_columns(described, embedder, known)
        embedded += sum(one.fingerprint not in known for one in described)
    found = {(one.column_id, one.model_id) for one in upserts}
    models = {embedder.model_id for embedder in pending.embedders}
    dropped = {
        key
        for version, _ in profiled
        for key in pending.held.get(version.location, ())
        if key[1] in models and key not in found
    }
    seconds = {**pending.seconds, "profiling": profiling, "embedding": perf_counter() - begun}
    return SignatureChange(upserts, dropped | set(pending.gone), embedded, seconds)


def _profiled(table: PendingTable) -> tuple[TableVersion, list[ColumnProfile]] | None:
    try:
        sketches = table.sketch()
    except (LakehouseError, OSError) as error:
        logger.warning("%s is not indexed: %s", table.version, error)
        return None
    return table.version, profile_table(sketches, table=table.version.table, personal=table.version.personal)
