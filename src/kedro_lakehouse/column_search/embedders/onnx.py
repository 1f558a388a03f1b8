"""all-MiniLM-L6-v2, or another sentence model, in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.embedders.wordpiece import WordPiece
from kedro_lakehouse.errors import ModelNotFoundError, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAX_TOKENS: Final = 256
_BATCH: Final = 32


class OnnxEmbedder:
    """A folder with ``model.onnx`` and ``vocab.txt``: BERT inputs, mean of the last layer's tokens."""

    def __init__(self, folder: Path, session: Any) -> None:
        """Keep the running session."""
        self._folder, self._session = folder, session
        self._tokenizer = WordPiece.read(folder / "vocab.txt")
        self._inputs = {field.name for field in session.get_inputs()}
        self.dimension = int(session.get_outputs()[0].shape[-1])

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:
        """Start ONNX Runtime on the model in the folder; by default ``models/onnx`` of the cache.

        Raises:
            UnsupportedError: The package onnxruntime is not installed.
            ModelNotFoundError: The folder does not hold the model.
        """
        what = "The embedder 'onnx' needs the package onnxruntime"
        runtime = require("onnxruntime", what=what, install="onnxruntime")
        folder = Path(argument).expanduser() if argument else cache / "models" / "onnx"
        for name in ("model.onnx", "vocab.txt"):
            if not (folder / name).is_file():
                raise ModelNotFoundError(
                    model=f"onnx:{folder.name}",
                    problem=f"{name} is not there",
                    remedy="Export the model to ONNX into that folder.",
                )
        session = runtime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        return cls(folder, session)

    @property
    def model_id(self) -> str:
        """The folder's name."""
        return f"onnx:{self._folder.resolve().name}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit row a text."""
        tokens = [self._tokenizer.encode(text, _MAX_TOKENS) for text in texts]
        made = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        for begin in range(0, len(order), _BATCH):
            some = order[begin : begin + _BATCH]
            made[some] = self._pooled([tokens[place] for place in some])
        return made

    def _pooled(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        width = max(map(len, tokens))
        mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in tokens], dtype=np.int64)
        ids = np.array([row + [0] * (width - len(row)) for row in tokens], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        return unit_rows((states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))
