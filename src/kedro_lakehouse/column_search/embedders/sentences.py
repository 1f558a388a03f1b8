"""Any model of the package sentence-transformers, by its name or from a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.errors import UnsupportedError, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DEFAULT: Final = "all-MiniLM-L6-v2"


class SentenceTransformerEmbedder:
    """``sentence-transformers:all-distilroberta-v1``, or ``sentence-transformers:/path/of/a/model``."""

    def __init__(self, name: str, model: Any) -> None:
        """Keep the loaded model."""
        self._name, self._model = name, model
        self.dimension = int(model.encode(["a"]).shape[1])

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:
        """Load the model; one that is given by name is downloaded into the cache by the package.

        Raises:
            UnsupportedError: The package is not installed, or it finds no such model.
        """
        what = "The embedder 'sentence-transformers' needs the package sentence-transformers"
        package = require("sentence_transformers", what=what, install="sentence-transformers")
        name = argument or _DEFAULT
        folder = Path(name).expanduser()
        place = str(folder) if folder.is_dir() else name
        try:
            model = package.SentenceTransformer(place, device="cpu", cache_folder=str(cache / "models"))
        except (OSError, ValueError) as error:
            raise UnsupportedError(
                what=f"The package sentence-transformers cannot load the model '{name}'.",
                remedy="Give the name of a published model and a network, or the folder of a model.",
            ) from error
        return cls(folder.resolve().name if folder.is_dir() else name, model)

    @property
    def model_id(self) -> str:
        """The model's name, or its folder's."""
        return f"sentence-transformers:{self._name}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit row a text."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return unit_rows(np.asarray(self._model.encode(list(texts), show_progress_bar=False)))
