"""Random histories through real runs: every table is the model's after every batch.

``tests/rules`` has the same histories of all designs by the rules alone, in less time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from harness.soak import soaking

from property.histories import DESIGNS, Design, table_of
from property.judging import Trial
from property.seeds import SWITCH, the_seed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.slow]

IN_TEST, IN_SOAK = 520, 20_000
DESIGNS_IN_TEST = 4


def designs(seed: int) -> list[Design]:
    """All designs in a soak, otherwise those that the seed picks."""
    return list(DESIGNS) if soaking() else random.Random(seed).sample(DESIGNS, DESIGNS_IN_TEST)  # noqa: S311


def counts(chosen: Sequence[Design]) -> dict[str, int]:
    """How many histories each table takes: a truncate speaks of a whole table, so those are small."""
    every = IN_SOAK if soaking() else IN_TEST
    small = {d.name: 10 for d in chosen if d.truncates}
    large = [d.name for d in chosen if not d.truncates]
    return small | dict.fromkeys(large, -(-(every - sum(small.values())) // len(large)))


def test_every_table_is_the_models_after_every_batch(tmp_path: Path) -> None:
    seed = the_seed()
    chosen = designs(seed)
    number = counts(chosen)
    trial = Trial(tmp_path / "project", [table_of(d, number[d.name], seed) for d in chosen])
    found = trial.run()
    shown = {place: words[:4] for place, words in found.items()}
    assert shown == {}, f"again with {SWITCH}={seed}"
