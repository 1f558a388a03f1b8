"""all-MiniLM-L6-v2 in NumPy: the forward pass of a six-layer BERT, mean pooling, unit length."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from kedro_lakehouse.column_search.embedders.base import one_thread, unit_rows
from kedro_lakehouse.column_search.embedders.weights import MINILM, verified_weights
from kedro_lakehouse.column_search.embedders.wordpiece import WordPiece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_LAYERS: Final = 6
_HEADS: Final = 12
_MAX_TOKENS: Final = 256
_BATCH_TOKENS: Final = 1024
"""So many tokens at once: what is between two layers then stays in the processor's cache."""
_EPSILON: Final = 1e-12


class MiniLM:
    """Sentence vectors of 384 numbers, without any deep-learning library.

    Source:
        Reimers and Gurevych 2019 (Sentence-BERT); Wang et al. 2020 (MiniLM); the model card of
        all-MiniLM-L6-v2: at most 256 tokens, mean of the last layer, unit length.
    """

    dimension: ClassVar[int] = 384

    def __init__(self, folder: Path) -> None:
        """Keep where the verified files are; they are read at the first text."""
        self._folder = folder

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:  # noqa: ARG003 - one model, no argument
        """Verify the weights in the cache.

        Raises:
            ModelNotFoundError: They are not there, or not the published ones.
        """
        return cls(verified_weights(MINILM, cache))

    @property
    def model_id(self) -> str:
        """The model's published name."""
        return MINILM.model_id

    @cached_property
    def _tokenizer(self) -> WordPiece:
        return WordPiece.read(self._folder / "vocab.txt")

    @cached_property
    def _network(self) -> Bert:
        return Bert(read_safetensors(self._folder / "model.safetensors"))

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one unit row a text; each distinct text is computed once.

        Texts of one number of tokens go together, so that there is nothing to pad and nothing to mask.
        """
        distinct = list(dict.fromkeys(texts))
        tokens = [self._tokenizer.encode(text, _MAX_TOKENS) for text in distinct]
        by_length: dict[int, list[int]] = {}
        for place, numbers in enumerate(tokens):
            by_length.setdefault(len(numbers), []).append(place)
        made = np.empty((len(distinct), self.dimension), dtype=np.float32)
        batches = [
            places[begin : begin + step]
            for length, places in by_length.items()
            for step in (max(1, _BATCH_TOKENS // length),)
            for begin in range(0, len(places), step)
        ]

        def fill(some: list[int]) -> None:
            made[some] = self._network.pooled(np.array([tokens[place] for place in some]))

        with one_thread():
            if len(batches) == 1:
                fill(batches[0])
            elif batches:
                _ = self._network  # read once, before the threads begin
                with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                    list(pool.map(fill, batches))
        place_of = {text: place for place, text in enumerate(distinct)}
        return made[[place_of[text] for text in texts]]


class Bert:
    """The encoder's forward pass, for texts of equal length."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        """Lay the weights out as the matrix products want them."""
        self._words = weights["embeddings.word_embeddings.weight"]
        # Every text is of the first of two kinds: its embedding is part of each position's.
        self._positions = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._first_norm = _norm(weights, "embeddings.LayerNorm")
        self._layers = [_Layer(weights, f"encoder.layer.{number}.") for number in range(_LAYERS)]

    def pooled(self, tokens: NDArray[np.int64]) -> Array:
        """The mean vector of each row of token numbers, at unit length."""
        count, length = tokens.shape
        states = layer_norm(self._words[tokens] + self._positions[:length], *self._first_norm)
        states = states.reshape(count * length, -1)
        for layer in self._layers:
            states = layer.forward(states, count)
        return unit_rows(states.reshape(count, length, -1).mean(axis=1))


class _Layer:
    """Self-attention and a feed-forward network, each with a residual sum and a norm."""

    def __init__(self, weights: Mapping[str, Array], prefix: str) -> None:
        attention = f"{prefix}attention."
        dense = [_dense(weights, f"{attention}self.{part}") for part in ("query", "key", "value")]
        self._qkv = np.concatenate([w for w, _ in dense], axis=1), np.concatenate([b for _, b in dense])
        self._out = _dense(weights, f"{attention}output.dense")
        self._out_norm = _norm(weights, f"{attention}output.LayerNorm")
        self._up = _dense(weights, f"{prefix}intermediate.dense")
        self._down = _dense(weights, f"{prefix}output.dense")
        self._down_norm = _norm(weights, f"{prefix}output.LayerNorm")

    def forward(self, states: Array, count: int) -> Array:
        mixed = self._attend(states, count) @ self._out[0] + self._out[1]
        states = layer_norm(states + mixed, *self._out_norm)
        fed = gelu(states @ self._up[0] + self._up[1]) @ self._down[0] + self._down[1]
        return layer_norm(states + fed, *self._down_norm)

    def _attend(self, states: Array, count: int) -> Array:
        rows, width = states.shape
        parts = (states @ self._qkv[0] + self._qkv[1]).reshape(count, rows // count, 3, _HEADS, -1)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(width / _HEADS))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        return np.asarray((scores @ value).transpose(0, 2, 1, 3).reshape(rows, width))


def _dense(weights: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]


def _norm(weights: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def layer_norm(states: Array, scale: Array, shift: Array) -> Array:
    """Bring each row to mean 0 and variance 1, then scale and shift it."""
    centred = states - states.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + np.float32(_EPSILON)) * scale + shift)


def gelu(states: Array) -> Array:
    """The exact Gaussian error linear unit, x Phi(x).

    Source:
        Abramowitz and Stegun 7.1.26 for the error function: its error is below 1.5e-7, a float's own.
    """
    scaled = np.abs(states) * np.float32(1 / np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * scaled)
    series: Array = np.full_like(t, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = np.asarray(series * t + np.float32(factor))
    tail = np.float32(0.5) * series * t * np.exp(-np.square(scaled))
    return np.asarray(states * np.where(states >= 0, 1 - tail, tail))


def read_safetensors(path: Path) -> dict[str, Array]:
    """Read the float tensors of a file, each a view of the mapped file.

    Source:
        The safetensors format: a little-endian length, a JSON header, then the tensors' bytes.
    """
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    size = int(raw[:8].view("<u8")[0])
    header = json.loads(raw[8 : 8 + size].tobytes())
    body = raw[8 + size :]
    return {
        name: body[slice(*facts["data_offsets"])].view("<f4").reshape(facts["shape"])
        for name, facts in header.items()
        if name != "__metadata__" and facts["dtype"] == "F32"
    }
