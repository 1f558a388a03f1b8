"""The seed of a test run: a new one each time, unless the environment gives it."""

from __future__ import annotations

import os
import random
from functools import cache

SWITCH = "KEDRO_LAKEHOUSE_SEED"


@cache
def the_seed() -> int:
    """The seed of this run, printed once."""
    given = os.environ.get(SWITCH)
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    print(f"{SWITCH}={seed}")  # noqa: T201
    return seed
