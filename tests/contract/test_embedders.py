"""The suite that every embedder runs, and what MiniLM must give besides."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from kedro_lakehouse.column_search.embedders.base import Embedder, ModelName
from kedro_lakehouse.column_search.embedders.minilm import MiniLM
from kedro_lakehouse.column_search.embedders.weights import MINILM, verified_weights, weights_folder
from kedro_lakehouse.column_search.embedders.wordpiece import WordPiece
from kedro_lakehouse.errors import ModelNotFoundError, UnknownPluginError, UnsupportedError
from kedro_lakehouse.testing.embedders import EmbedderContract

pytestmark = pytest.mark.contract

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
REFERENCE = ROOT / "tests/data/minilm"
HAS_MODEL = weights_folder(MINILM, CACHE).is_dir()
VOCABULARY = ["city", "zip", "code", "price", "birth", "of", "12", "50"]
needs_model = pytest.mark.skipif(not HAS_MODEL, reason="the model is not in .cache: make model")


@pytest.fixture(scope="module")
def glove(tmp_path_factory: pytest.TempPathFactory) -> str:
    chance = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("glove") / "tiny.300d.txt"
    lines = [f"{word} {' '.join(f'{n:.5f}' for n in chance.normal(size=300))}" for word in VOCABULARY]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"glove:{path}"


class TestEveryEmbedder(EmbedderContract):
    @pytest.fixture(params=["hash", "glove", pytest.param("minilm", marks=needs_model)])
    def embedder(self, request: pytest.FixtureRequest, glove: str) -> Embedder:
        return ModelName.parse(glove if request.param == "glove" else request.param).open(CACHE)


def test_models_have_ids_of_their_own(glove: str) -> None:
    ids = [ModelName.parse(name).open(CACHE).model_id for name in ("hash", glove)]
    assert ids == ["hash", "glove:tiny.300d"]


@needs_model
def test_minilm_gives_the_vectors_of_sentence_transformers() -> None:
    texts = json.loads((REFERENCE / "texts.json").read_text(encoding="utf-8"))
    expected = np.load(REFERENCE / "vectors.npy")
    found = MiniLM.open("", CACHE).embed(texts)
    assert (found * expected).sum(axis=1).min() > 0.999999


@needs_model
def test_wordpiece_gives_the_tokens_of_the_published_tokenizer() -> None:
    texts = json.loads((REFERENCE / "texts.json").read_text(encoding="utf-8"))
    expected = json.loads((REFERENCE / "tokens.json").read_text(encoding="utf-8"))
    tokenizer = WordPiece.read(weights_folder(MINILM, CACHE) / "vocab.txt")
    assert [tokenizer.encode(text, 256) for text in texts] == expected


@needs_model
def test_minilm_gets_district_nearer_to_city_than_to_price() -> None:
    district, city, price = MiniLM.open("", CACHE).embed(["district", "city", "price"])
    assert district @ city > district @ price + 0.1


def test_without_its_weights_the_model_says_how_to_fetch_them(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"kedro_lakehouse\.cli\.model"):
        ModelName.parse("minilm").open(tmp_path)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in MINILM.files}
    weights = replace(MINILM, files=hashes)
    folder = weights_folder(weights, tmp_path)
    folder.mkdir(parents=True)
    for name in weights.files:
        (folder / name).write_bytes(name.encode())
    assert verified_weights(weights, tmp_path) == folder
    (folder / "vocab.txt").write_text("changed", encoding="utf-8")
    with pytest.raises(ModelNotFoundError, match=r"vocab\.txt is not the published file"):
        verified_weights(weights, tmp_path)


@pytest.mark.parametrize("content", ["", "word\n", "a 1 2\nb 1\n", "a 1 x\n"])
def test_what_is_no_vector_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.txt").write_text(content, encoding="utf-8")
    with pytest.raises(UnsupportedError, match="line"):
        ModelName.parse(f"glove:{tmp_path / 'bad.txt'}").open(tmp_path)


def test_a_model_that_nobody_registers_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownPluginError, match="minilm"):
        ModelName.parse("minilmm").open(CACHE)


@pytest.mark.parametrize(
    ("name", "module"), [("onnx", "onnxruntime"), ("sentence-transformers", "sentence_transformers")]
)
def test_an_embedder_without_its_package_says_what_to_install(name: str, module: str) -> None:
    if find_spec(module):
        pytest.skip(f"{module} is installed here")
    with pytest.raises(UnsupportedError, match=f"needs the package {module.replace('_', '-')}"):
        ModelName.parse(name).open(CACHE)
