"""What a vector index is: it finds columns by one vector, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, cast, runtime_checkable

from kedro_lakehouse.plugins import VECTOR_INDEXES, load_plugin

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """What an index is opened with.

    Attributes:
        argument: What its name says after the colon: a folder, or a server's address.
        model_id: The model whose vectors it holds; every model has an index of its own.
        dimension: The length of a vector.
        folder: Where an index on disk keeps its files.
    """

    argument: str
    model_id: str
    dimension: int
    folder: str


@runtime_checkable
class VectorIndex(Protocol):
    """The vectors of one model; register the class in ``kedro_lakehouse.vector_indexes``.

    The signature table is the truth: an index only finds candidates, which one scorer then ranks, so that
    every index gives the same order.
    """

    @classmethod
    def open(cls, settings: IndexSettings) -> Self:
        """Open the index, made if there is none.

        Raises:
            UnsupportedError: A package that it needs is not installed, or the argument is of no use.
        """
        ...

    @property
    def state(self) -> str:
        """The state of the signatures that the index was last brought to; empty for a new one."""
        ...

    def upsert(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Put vectors in place under their columns' names; doing it twice changes nothing."""
        ...

    def delete(self, ids: Collection[str]) -> None:
        """Take columns out; those that are not there do not matter."""
        ...

    def ids(self) -> set[str]:
        """The names of all columns that the index holds."""
        ...

    def mark(self, state: str) -> None:
        """Keep the state of the signatures that the index is now at."""
        ...

    def nearest(self, vector: NDArray[np.float32], k: int) -> list[str]:
        """The names of the ``k`` columns whose vectors have the greatest cosine, the greatest first."""
        ...


def open_index(name: str, *, model_id: str, dimension: int, folder: str) -> VectorIndex:
    """Load an index by its name, ``index`` or ``index:argument``, and open it.

    Raises:
        UnknownPluginError: No such index is registered.
    """
    kind, _, argument = name.partition(":")
    settings = IndexSettings(argument=argument.strip(), model_id=model_id, dimension=dimension, folder=folder)
    return cast("type[VectorIndex]", load_plugin(VECTOR_INDEXES, kind.strip())).open(settings)
