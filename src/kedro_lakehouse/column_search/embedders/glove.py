"""Averaged word vectors from a local text file in GloVe's format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.words import value_words
from kedro_lakehouse.errors import ModelNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class GloveEmbedder:
    """The mean of the vectors of a text's words: ``glove:/path/of/glove.6B.300d.txt``.

    Source:
        Pennington, Socher and Manning 2014; a line is a word and its numbers, separated by blanks.
    """

    def __init__(self, name: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep the words' vectors, all of one dimension."""
        self._name, self._vectors = name, vectors
        self.dimension = len(next(iter(vectors.values())))

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:
        """Read the file; a relative path without such a file is looked for among the cache's models.

        Raises:
            UnsupportedError: No file was named, or a line of it is not as it should be.
            ModelNotFoundError: There is no such file.
        """
        if not argument:
            raise UnsupportedError(
                what="The embedder 'glove' has no vectors of its own.",
                remedy="Name a file: glove:/path/of/vectors.txt.",
            )
        path = Path(argument).expanduser()
        kept = (cache / "models" / argument, cache / "models" / f"{argument}.txt")
        path = next((one for one in (path, *kept) if one.is_file()), path)
        if not path.is_file():
            raise ModelNotFoundError(
                model=f"glove:{argument}",
                problem="there is no such file",
                remedy="Put the file of vectors there.",
            )
        vectors: dict[str, NDArray[np.float32]] = {}
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                word, *numbers = line.rstrip().split(" ")
                try:
                    vectors[word] = np.array(numbers, dtype=np.float32)
                except ValueError as error:
                    raise _not_vectors(path, number) from error
                if not numbers or len(numbers) != len(next(iter(vectors.values()))):
                    raise _not_vectors(path, number)
        if not vectors:
            raise _not_vectors(path, 1)
        return cls(path.stem, vectors)

    @property
    def model_id(self) -> str:
        """The file's name, without its ending."""
        return f"glove:{self._name}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text: of unit length, or zero where none of its words is known."""
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for place, text in enumerate(texts):
            known = [self._vectors[word] for word in value_words(text) if word in self._vectors]
            if known:
                made[place] = np.mean(known, axis=0)
        return unit_rows(made)


def _not_vectors(path: Path, line: int) -> UnsupportedError:
    return UnsupportedError(
        what=f"{path.name}, line {line}: expected a word and as many numbers as in the first line.",
        remedy="Give a text file in GloVe's format.",
    )
