"""What the Makefile asks, and says where nobody can answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"


@pytest.mark.parametrize(
    ("words", "said", "left"),
    [([], "Kept. To delete it unasked: make clean-lake FORCE=1", True), (["FORCE=1"], "Deleted", False)],
)
def test_without_a_terminal_the_lake_is_kept_and_the_way_to_delete_it_told(tmp_path, words, said, left):
    (tmp_path / "data/lakehouse").mkdir(parents=True)
    command = ["make", "-s", "-f", str(MAKEFILE), "clean-lake", *words]
    ended = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert said in ended.stdout
    assert (tmp_path / "data/lakehouse").exists() is left
