"""Run schedules: ``python -m simulator SCHEDULES [SEED]``; the seed of one that went wrong repeats it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from time import perf_counter

from simulator.schedules import schedule
from simulator.world import installed


def main(count: int, seed: int) -> int:
    begun, kinds, steps = perf_counter(), Counter[str](), 0
    print(f"{count} schedules from seed {seed}")  # noqa: T201
    for number in range(count):
        outcome = schedule(seed + number)
        kinds[outcome.kind] += 1
        steps += outcome.steps
        if outcome.problems:
            print(f"\nschedule {number + 1}, seed {outcome.seed} ({outcome.kind}):")  # noqa: T201
            print("\n".join(outcome.trace[-200:]), *outcome.problems, sep="\n")  # noqa: T201
            return 1
    seconds = perf_counter() - begun
    print(f"nothing lost, nothing doubled: {dict(kinds)}, {steps:,} steps, {seconds:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    with installed():
        ended = main(given[0], given[1] if len(given) > 1 else random.SystemRandom().randrange(10**9))
    raise SystemExit(ended)
