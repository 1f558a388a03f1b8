"""What the writers of a schedule share: files, tables, lake.ops, leases and clocks; and what goes wrong."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kedro_lakehouse.config.loading import Formats, load_declarations
from kedro_lakehouse.errors import CommitUnknownError, LeaseLostError
from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.ops.patience import Patience
from kedro_lakehouse.project import Project
from kedro_lakehouse.testing.memory import MemoryFormat, MemoryLake
from simulator.engine import ListEngine
from simulator.landing import SimulatedReader, SimulatedSource
from simulator.readers import half_of_something
from simulator.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.files import LandedFile
    from simulator.landing import Record
    from simulator.scheduler import Writer

TABLES: dict[str, dict[str, Any]] = {
    "shop.item": {"source": "shop", "keys": ["id"]},
    "shop.line": {"source": "shop", "write": "append"},
    "shop.stock": {"source": "shop", "write": "replace"},
}
_EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Chances:
    """How often something goes wrong, at each step where it can."""

    kill: float = 0.0
    lost_answer: float = 0.0
    lost_lease: float = 0.0
    no_leases: bool = False
    clocks: bool = False


@dataclass(eq=False)
class World:
    """One world; the seed decides all that happens in it."""

    seed: int
    chances: Chances = Chances()
    landed: dict[str, dict[LandedFile, list[Record]]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed, kills=self.chances.kill)
        self.lake = SimulatedLake(self)
        self.ops = SimulatedOps(self)
        self.leases: dict[tuple[str, str], SimulatedLease] = {}
        self.violations: list[str] = []
        self.scheduler.mischief = self._lose_a_lease
        self.corrected_files: set[str] = set()
        self.rules: dict[str, frozenset[str]] = {}
        self.broken = self.scheduler.pick([0.1, 0.4])
        """How often a landed record is broken."""
        SimulatedSource.world = SimulatedDatetime.world = PhaseWatch.world = self
        random.seed(self.seed)  # the jitter of pauses

    def project(self, run: str) -> SimulatedProject:
        """The project as a run of this name opens it."""
        return SimulatedProject.opened(self, run)

    def now(self) -> dt.datetime:
        """The time by the clock of the running writer; each look is later than the one before."""
        self.scheduler.now += 0.000_1
        writer = self.scheduler.current
        return _EPOCH + dt.timedelta(seconds=self.scheduler.now + (writer.offset if writer else 0))

    def _lose_a_lease(self) -> None:
        if self.leases and self.scheduler.chance(self.chances.lost_lease):
            lost = self.leases.pop(self.scheduler.pick(sorted(self.leases)))
            lost.lost, lost.noticed = True, self.scheduler.chance(0.7)
            self.scheduler.trace.append(f"the lease {lost.name} is lost{', noticed' if lost.noticed else ''}")

    def may_lose(self, what: str, *, applied: bool) -> None:
        """Lose a request, or the answer to one that was done."""
        if self.scheduler.current is not None and self.scheduler.chance(self.chances.lost_answer / 2):
            self.scheduler.trace.append(
                f"{self.scheduler.current.name}: {what}: {'answer' if applied else 'request'} lost"
            )
            raise CommitUnknownError(table=what, batch=0)


class SimulatedLake(MemoryLake):
    """Tables in memory; a change of one may go unanswered."""

    def __init__(self, world: World) -> None:
        super().__init__(touch=world.scheduler.touch)
        self._world = world

    def swap(self, table: TableName, found: Any, changed: Any) -> bool:
        self._world.may_lose(f"commit to {table}", applied=False)
        swapped = super().swap(table, found, changed)
        if swapped:
            declared = _declarations().tables.get(table)
            write = declared.write if declared else None
            if changed is not None and (seen := half_of_something(self._world, table, changed, write)):
                self._world.violations.append(f"a reader of {table} sees half: {seen}")
            self._world.may_lose(f"commit to {table}", applied=True)
        return swapped


class SimulatedOps:
    """lake.ops in memory: appends are atomic; a request may go unanswered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._waiting: dict[Writer | None, list[tuple[Any, ...]]] = {}
        self.verified: dict[tuple[str, str], tuple[Any, ...]] = {}

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Rows of ``append_soon`` may wait for the block's end; those of one that dies in it are lost."""
        writer = self._world.scheduler.current
        self._waiting[writer] = []
        try:
            yield
            self._flush()
        finally:
            del self._waiting[writer]

    def append_soon(self, table: str, rows: Sequence[dict[str, Any]], *, unless: Sequence[str] = ()) -> None:
        waiting = self._waiting.get(self._world.scheduler.current)
        if waiting is None or self._world.scheduler.chance(0.3):
            self._flush()
            self.append(table, rows, unless=unless)
        else:
            waiting.append((table, rows, unless))

    def _flush(self) -> None:
        waiting = self._waiting.get(self._world.scheduler.current)
        while waiting:
            table, rows, unless = waiting[0]
            self.append(table, rows, unless=unless)
            del waiting[0]

    def append(self, table: str, rows: Sequence[dict[str, Any]], *, unless: Sequence[str] = ()) -> None:
        self._world.scheduler.touch(f"append to ops.{table}")
        self._world.may_lose(f"ops.{table}", applied=False)
        held = {tuple(r.get(c) for c in unless) for r in self.tables[table]} if unless else set()
        self.tables[table] += [dict(r) for r in rows if tuple(r.get(c) for c in unless) not in held]
        self._world.may_lose(f"ops.{table}", applied=True)

    def read(
        self,
        table: str,
        *,
        of_table: str | None = None,
        columns: Sequence[str] = (),
        from_batch: int | None = None,
    ) -> list[dict[str, Any]]:
        del columns  # all of them
        self._flush()
        self._world.scheduler.touch(f"read ops.{table}")
        rows = [r for r in self.tables[table] if of_table is None or r["table"] == of_table]
        return [dict(r) for r in rows if from_batch is None or r["batch"] >= from_batch]

    def kept_since(self, _: str) -> None:
        """No row goes because of its age."""


class SimulatedDatetime(dt.datetime):
    """Tells the time by the clock of the running writer."""

    world: ClassVar[World | None] = None

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
        return cls.world.now() if cls.world is not None else dt.datetime.now(tz)


class PhaseWatch(logging.Handler):
    """Sees that no run publishes under a lease that it knew to be lost when it had staged."""

    world: ClassVar[World | None] = None

    def createLock(self) -> None:  # noqa: N802 - logging's own name
        """None: a writer that stops in here would stop all others."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        writer = self.world.scheduler.current if self.world else None
        phase, step = record.__dict__.get("phase"), record.__dict__.get("stage")
        if self.world is None or writer is None:
            return
        self.world.scheduler.touch(f"phase {phase} of {step}")
        for lease in writer.leases:
            if lease.step == step and phase == "staged":
                lease.gone_when_staged = lease.lost and lease.noticed
            elif lease.step == step and phase == "published" and lease.gone_when_staged:
                self.world.violations.append(f"{writer.name} published {step} under a lease that it had lost")


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let the project's own modules ask the simulated clock, its phases be seen, its source be found."""
    from kedro_lakehouse.ingestion import landing
    from kedro_lakehouse.operations import exclude as withdraw
    from kedro_lakehouse.ops import report
    from kedro_lakehouse.sources import ledger
    from kedro_lakehouse.testing import memory

    modules: tuple[Any, ...] = (ledger, memory, report, withdraw)
    logger, phases = logging.getLogger("kedro_lakehouse"), logging.getLogger("kedro_lakehouse.phase")
    watch, levels = PhaseWatch(), (logger.level, phases.level)
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "datetime", SimulatedDatetime)
        patch.setattr(landing, "FileReader", SimulatedReader)
        patch.setattr(sys, "path", [*sys.path, str(Path(__file__).with_name("installed"))])
        patch.setattr(phases, "propagate", False)
        logger.setLevel(logging.ERROR)
        phases.setLevel(logging.DEBUG)
        phases.addHandler(watch)
        try:
            yield
        finally:
            phases.removeHandler(watch)
            logger.setLevel(levels[0])
            phases.setLevel(levels[1])


class SimulatedLease:
    """A lease that can be lost; its holder may know or not."""

    def __init__(self, world: World, table: TableName, step: str, writer: Writer | None) -> None:
        self._world, self._table, self._step, self.writer = world, table, step, writer
        self.step, self.name = step, f"{table}.{step}"
        self.lost = self.noticed = self.gone_when_staged = False

    def check(self) -> None:
        if self.lost and self.noticed:
            raise LeaseLostError(table=self._table, stage=self._step)

    def confirm(self) -> None:
        if self.lost:
            raise LeaseLostError(table=self._table, stage=self._step)


class SimulatedProject(Project):
    """A project whose leases, clocks and stores are the world's."""

    world: World

    @classmethod
    def opened(cls, world: World, run: str) -> SimulatedProject:
        made = cls(
            env="simulated", declarations=_declarations(), spark_conf={}, lakehouse="memory",
            run_id=run, default_format="memory", _maintenance=lambda: {"compact": {"small_files": 2}},
        )  # fmt: skip
        context = FormatContext(
            session=_no_session,
            catalog=None,
            lakehouse="memory",
            run_id=run,
            correlation_id=run,  # type: ignore[arg-type]
        )
        made.world = world
        made.__dict__["ops"] = world.ops
        made._formats["memory"] = MemoryFormat(context, world.lake)
        made.engine = ListEngine()
        return made

    @contextlib.contextmanager
    def lease(self, table: TableName, stage: str) -> Iterator[Any]:  # type: ignore[override]
        world, at = self.world, (str(table), stage)
        writer = world.scheduler.current
        held = SimulatedLease(world, table, stage, writer)
        world.scheduler.touch(f"lease {stage}")
        while not world.chances.no_leases and (other := world.leases.get(at)) is not None:
            if other.lost or other.writer is None or other.writer.dead:
                break
            world.scheduler.sleep(1.0)
        world.leases[at] = held
        if writer is not None:
            writer.leases.append(held)
        try:
            yield held
        finally:
            if writer is not None:
                writer.leases.remove(held)
            if world.leases.get(at) is held and not (writer and writer.dead):
                del world.leases[at]

    def patience(self, table: TableName) -> Patience:
        scheduler = self.world.scheduler
        return Patience(table, clock=lambda: scheduler.now, sleep=scheduler.sleep)


def _no_session() -> Any:
    raise AssertionError("the simulator starts no Spark")


@cache
def _declarations() -> Any:
    sources = {"shop": {"type": "simulated", "path": "memory", "max_files": 3}}
    return load_declarations(
        sources,
        TABLES,
        {"simulated": SimulatedSource.config_model},
        {},
        formats=Formats(["memory"], "memory"),
    )
