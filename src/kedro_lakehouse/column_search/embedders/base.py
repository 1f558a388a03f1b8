"""What an embedder is, how a model is named, and what all of them need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from threadpoolctl import ThreadpoolController

from kedro_lakehouse.plugins import EMBEDDERS, load_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray


@runtime_checkable
class Embedder(Protocol):
    """A model that is ready for use; register its class in ``kedro_lakehouse.embedders``."""

    dimension: int

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:
        """Make the model ready.

        Args:
            argument: What the model's name says after the colon: a path, or another name.
            cache: The folder in which the project keeps what it fetched.

        Raises:
            ModelNotFoundError: Its weights are not there.
            UnsupportedError: A package that it needs is not installed, or the argument is of no use.
        """
        ...

    @property
    def model_id(self) -> str:
        """The name under which vectors of this model are kept; other weights have another one."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, of length 1; of length 0 where the model knows no word of the text."""
        ...


@dataclass(frozen=True)
class ModelName:
    """A model as a user writes it: ``embedder`` or ``embedder:argument``.

    Example:
        >>> ModelName.parse("glove:/models/glove.6B.300d.txt")
        ModelName(embedder='glove', argument='/models/glove.6B.300d.txt')
    """

    embedder: str
    argument: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name."""
        embedder, _, argument = text.partition(":")
        return cls(embedder.strip(), argument.strip())

    def open(self, cache: Path) -> Embedder:
        """Load the embedder that the name speaks of, and make it ready.

        Raises:
            UnknownPluginError: No such embedder is registered.
            ModelNotFoundError: Its weights are not there.
        """
        return cast("type[Embedder]", load_plugin(EMBEDDERS, self.embedder)).open(self.argument, cache)


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scale every row to length 1; rows of zeros stay as they are."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return np.asarray(unit, dtype=np.float32)


def one_thread() -> AbstractContextManager[Any]:
    """Hold the threads of OpenBLAS and its like off while the block runs.

    They wait for each other by spinning: beside Spark, or on busy processors, they cost several times what
    they gain.
    """
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the libraries of the process: a millisecond or two
