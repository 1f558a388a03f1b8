"""Hundreds of schedules of two and three writers; and every planted fault is found."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from simulator.faults import FAULTS, planted
from simulator.schedules import KINDS, first_found, schedule

pytestmark = pytest.mark.simulator

SCHEDULES = int(os.environ.get("KEDRO_LAKEHOUSE_SCHEDULES") or 500)
_ENOUGH = 1000
"""A fault that is not found in so many schedules counts as not found."""


def test_no_schedule_loses_or_doubles_anything() -> None:
    seed, kinds = random.SystemRandom().randrange(10**9), Counter[str]()
    for number in range(SCHEDULES):
        outcome = schedule(seed + number)
        kinds[outcome.kind] += 1
        told = "\n".join([*outcome.trace[-60:], *outcome.problems])
        assert not outcome.problems, f"`python -m simulator 1 {outcome.seed}` repeats it:\n{told}"
    print(f"{SCHEDULES} schedules from seed {seed}: {dict(kinds)}")  # noqa: T201
    assert set(kinds) == set(KINDS)


RARE = {"quarantine_of_void_plans_stays": "races"}
"""Faults that show in one kind of schedules alone."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    only = RARE.get(fault)
    with planted(fault):
        found = first_found(range(_ENOUGH), only)
    assert found is not None, f"{fault} was not found in {_ENOUGH} schedules"
    number, outcome = found
    print(f"{fault}: found by schedule {number} ({outcome.kind}): {outcome.problems[0][:150]}")  # noqa: T201
    assert schedule(outcome.seed, only).problems == ()
