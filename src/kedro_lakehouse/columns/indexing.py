"""From profiles to signatures: only what changed since the last index is embedded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kedro_lakehouse.columns.files import read_batches
from kedro_lakehouse.columns.profile import profile_table
from kedro_lakehouse.columns.signature import ColumnSignature, TableVersion, fingerprint_of
from kedro_lakehouse.columns.sketch import sketch_batches
from kedro_lakehouse.columns.texts import column_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from kedro_lakehouse.columns.embedders.base import Embedder
    from kedro_lakehouse.columns.profile import ColumnProfile
    from kedro_lakehouse.columns.texts import Aspect


@dataclass(frozen=True)
class EmbeddedColumns:
    """Signatures with their vectors, and how many of them had to be embedded."""

    signatures: Sequence[ColumnSignature]
    embedded: int


def describe_columns(
    table: TableVersion, profiles: Iterable[ColumnProfile], model_id: str
) -> list[ColumnSignature]:
    """Signatures of a table's columns, still without vectors."""
    found = []
    for ordinal, profile in enumerate(profiles):
        texts = column_texts(profile, table.table)
        found.append(
            ColumnSignature(
                table=table, ordinal=ordinal, profile=profile, model_id=model_id, texts=texts,
                fingerprint=fingerprint_of(profile, texts, model_id),
            )
        )  # fmt: skip
    return found


def embed_columns(
    described: Sequence[ColumnSignature],
    embedder: Embedder,
    known: Mapping[str, Mapping[Aspect, NDArray[np.float32]]] | None = None,
) -> EmbeddedColumns:
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
    return EmbeddedColumns(
        [replace(one, vectors=made.get(id(one)) or held.get(one.fingerprint, {})) for one in described],
        embedded=len(new),
    )


def profile_file(path: Path, table: str) -> list[ColumnProfile]:
    """Profile every column of a file in one pass.

    Raises:
        UnreadableFileError: The file is not what its name says.
    """
    return profile_table(sketch_batches(read_batches(path)), table=table)


def file_signatures(
    path: Path, embedder: Embedder, *, namespace: str = "query", table: str | None = None
) -> list[ColumnSignature]:
    """The signatures of a file that is searched with, not kept."""
    version = TableVersion(
        namespace=namespace, table=table or path.stem, location=str(path), version="", added=str(path)
    )
    described = describe_columns(version, profile_file(path, version.table), embedder.model_id)
    return list(embed_columns(described, embedder).signatures)
