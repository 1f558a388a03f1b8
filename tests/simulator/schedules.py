"""One schedule after the other: writers, what goes wrong, and whether everything is right in the end."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simulator.checks import differences
from simulator.landing import land
from simulator.scheduler import StarvedError, Writer
from simulator.world import TABLES, Chances, World
from simulator.writers import COMMANDS, program, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS: dict[str, tuple[Chances, Sequence[str]]] = {
    "races": (Chances(no_leases=True), ()),
    "kills": (Chances(kill=0.01, lost_lease=0.02), ()),
    "answers": (Chances(lost_answer=0.03, lost_lease=0.02), ()),
    "clocks": (Chances(clocks=True, no_leases=True), ("rebuild --from-landing",)),
    "commands": (Chances(lost_lease=0.03), tuple(COMMANDS)),
    "everything": (
        Chances(kill=0.005, lost_answer=0.01, lost_lease=0.03, clocks=True), tuple(COMMANDS),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of one schedule."""

    seed: int
    kind: str
    steps: int
    problems: tuple[str, ...]
    trace: tuple[str, ...] = ()


def schedule(seed: int, only: str | None = None) -> Outcome:
    """Run the schedule of a seed, of a kind that the seed picks unless it is given."""
    chosen = random.Random(seed)  # noqa: S311 - a schedule must be repeatable
    kind = only or chosen.choice(sorted(KINDS))
    chances, commands = KINDS[kind]
    world = World(chosen.randrange(2**32), chances)
    tables = chosen.sample(sorted(TABLES), chosen.choice([1, 1, 2]))
    for table in tables:
        for _ in range(chosen.choice([1, 2, 3])):
            land(world, table)
    writers = []
    for number in range(chosen.choice([2, 2, 3])):
        work = program(world, tables, list(commands))
        offset = chosen.choice([0.0, -600.0, 600.0]) if chances.clocks else 0.0
        writers.append(Writer(f"w{number}", work, offset=offset))
    try:
        world.scheduler.run(writers)
        problems = [_told(w.error, f"{w.name} ends") for w in writers if w.error]
        calm(world)
        settle(world, tables)
        problems += differences(world, tables)
    except StarvedError as error:
        problems = [f"somebody starves: {error}"]
    except Exception as error:  # noqa: BLE001 - whatever a clean run raises is what the schedule led to
        problems = [_told(error, "a clean run ends")]
    return Outcome(seed, kind, world.scheduler.steps, tuple(problems), tuple(world.scheduler.trace))


def _told(error: BaseException, who: str) -> str:
    return "".join([f"{who} with an error:\n", *traceback.format_exception(error)])


def calm(world: World) -> None:
    """Let nothing go wrong any more, and forget the leases of the dead."""
    world.chances = replace(world.chances, kill=0, lost_answer=0, lost_lease=0, no_leases=True)
    world.leases.clear()


def first_found(seeds: Any, only: str | None = None) -> tuple[int, Outcome] | None:
    """How many schedules it takes until one goes wrong, and that one; None where none does."""
    for number, seed in enumerate(seeds, 1):
        outcome = schedule(seed, only)
        if outcome.problems:
            return number, outcome
    return None
