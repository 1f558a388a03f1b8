"""A trimmed change log leads to the tables that the whole one leads to: the fold itself, on Sail."""

from __future__ import annotations

import pytest

from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.session.sail import on_sail
from rules.trimming import kept_events, with_later_events, with_times_of_any_order

pytestmark = [
    pytest.mark.property,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test` runs it"),
]

SEEDS = [1, 7]
OLD = [
    ("upsert", 1, "a", 1, 1, 1), ("truncate", None, None, 2, 2, 1), ("upsert", 1, "a", 3, 3, 1),
    ("upsert", 2, "a", 3, 3, 1), ("truncate", None, None, 4, 4, 1), ("upsert", 1, "b", 4, 4, 1),
    ("upsert", 1, "c", 5, 5, 1),
]  # fmt: skip


@pytest.mark.parametrize("work", [with_later_events, with_times_of_any_order])
def test_any_events_fold_as_onto_the_whole_record(work):
    found = {seed: on_sail(work, seed) for seed in SEEDS}
    assert {seed: [what for what, holds in facts.items() if not holds] for seed, facts in found.items()} == {
        seed: [] for seed in SEEDS
    }


def test_of_old_truncates_the_last_one_stays_and_what_it_removed_goes():
    assert on_sail(kept_events, OLD) == [("truncate", None, 4), ("upsert", 1, 5)]
    # An event that stays, and whose order is before the second truncate, keeps it and what is beside it.
    assert on_sail(kept_events, [*OLD, ("upsert", 3, "s", 3, 40, 1)]) == [
        ("truncate", None, 2), ("truncate", None, 4), ("upsert", 1, 3), ("upsert", 1, 4), ("upsert", 1, 5),
        ("upsert", 2, 3), ("upsert", 3, 3),
    ]  # fmt: skip
