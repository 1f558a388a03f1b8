"""Random histories through real runs: every table is the model's after every batch.

``tests/rules`` has the same histories of all designs by the rules alone, in less time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.soak import only_in_soak

from property.histories import DESIGNS, table_of
from property.judging import Trial
from property.seeds import SWITCH, the_seed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.slow]

HISTORIES = 20_000


def counts() -> dict[str, int]:
    """How many histories each table takes: a truncate speaks of a whole table, so those are small."""
    small = {d.name: 10 for d in DESIGNS if d.truncates}
    large = [d.name for d in DESIGNS if not d.truncates]
    return small | dict.fromkeys(large, -(-(HISTORIES - sum(small.values())) // len(large)))


@only_in_soak
def test_every_table_is_the_models_after_every_batch(tmp_path: Path) -> None:
    seed = the_seed()
    number = counts()
    trial = Trial(tmp_path / "project", [table_of(d, number[d.name], seed) for d in DESIGNS])
    found = trial.run()
    shown = {place: words[:4] for place, words in found.items()}
    assert shown == {}, f"again with {SWITCH}={seed}"
