"""What writers do: runs as ``kedro run`` makes them, and each command that changes a table."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.commits.acknowledge import write_unrecorded_commits
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.target import commit_pending, load_pending
from kedro_lakehouse.errors import (
    BatchNotFoundError,
    CommitUnknownError,
    NoSuchSnapshotError,
    NothingToWithdrawError,
    UnsupportedError,
)
from kedro_lakehouse.ingestion.landing import ingest_batch, landed_batches
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.exclude import exclude
from kedro_lakehouse.operations.maintain import maintain_table
from kedro_lakehouse.operations.rebuild import begin_again, rebuild_from_changes
from kedro_lakehouse.operations.replay import Replay
from kedro_lakehouse.operations.rollback import Goal, roll_back
from kedro_lakehouse.ops.decisions import ExcludedEvent
from kedro_lakehouse.testing.memory import Rows
from simulator.landing import events_of, land
from simulator.world import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kedro_lakehouse.lake_table import LakeTable
    from simulator.scheduler import Writer
    from simulator.world import SimulatedProject, World

ALLOWED = (
    CommitUnknownError,
    BatchNotFoundError,
    NoSuchSnapshotError,
    NothingToWithdrawError,
    UnsupportedError,
)
"""How a run or a command may end: told that nobody answered, or that there is nothing to do."""


def run(world: World, tables: Iterable[str], name: str) -> None:
    """What ``kedro run`` does: the rows that are owed, then each table's batches, then its targets."""
    project = world.project(name)
    names = [project.bind(TableName.parse(t)) for t in tables]
    with contextlib.suppress(*ALLOWED):
        write_unrecorded_commits(project.ops, names)
    with contextlib.suppress(CommitUnknownError), world.ops.gathering():
        for table in names:
            with contextlib.suppress(CommitUnknownError):
                ingest(world, table)
                bring(table)


def ingest(world: World, table: LakeTable) -> None:
    """The node of pipeline ``ingestion``, between its datasets."""
    for batch in landed_batches(table):
        # A batch is rebuilt by the rules that it was first decoded by, else its quarantine would refuse it.
        rules = world.rules.setdefault(batch.planned.content_hash, frozenset(world.corrected_files))
        events = list(events_of(batch.groups, batch.token.batch, rules))
        ingest_batch(table, batch.token, accepted=events, rejected=events)


def bring(table: LakeTable) -> None:
    """The node of pipeline ``cdc_merge``, between its datasets."""
    commit_pending(table, load_pending(table, "current"))


def rebuild_landing(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """Give all up; the next run ingests anew."""
    begin_again(table)
    ingest(world, table)
    bring(table)


def fold_again(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """``kedro lakehouse rebuild``."""
    del world
    rebuild_from_changes(table)


def go_back(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """``kedro lakehouse rollback`` to a batch, and the run after it."""
    roll_back(table, Goal(batch=world.scheduler.pick([1, 1, 2, 3])))
    bring(table)


def tidy(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """``kedro run --pipelines=maintenance``."""
    del world
    maintain_table(project, table)


def leave_out(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """``kedro lakehouse withdraw``: the first event of some batch."""
    state = table.state("changes")
    batch = world.scheduler.pick(range(1, max(state.batch if state else 0, 1) + 1))

    def search(*_: object) -> dict[ExcludedEvent, str]:
        held = table.read("changes")
        found = sorted(e["_position"] for e in held.rows if e["_batch"] == batch)
        return {ExcludedEvent(*found[0], 0): "made up"} if found else {}

    exclude(table, batch, search=search)
    bring(table)


class SimulatedReplay(Replay):
    """Brings back all quarantined events of files whose rules were corrected."""

    def _files(self) -> Any:
        held = self.table.read("quarantine").rows
        world: World = self.table.environment.world  # type: ignore[attr-defined]
        world.corrected_files |= {r["_position"][0] for r in held}
        return {
            f: p.batch for p in self.chain.published for f in p.files if f.name in world.corrected_files
        }, ()

    def _apply(self, files: Any) -> Any:
        held = self.table.read("quarantine").rows
        back = [r for r in held if r["_position"][0] in {f.name for f in files}]
        if not back:
            return None, 0
        token = self.plan(list(files), str(sorted(r["_position"] for r in back)))
        self.ingest([r | {"_reasons": [], "_batch": token.batch} for r in back], token)
        self.release(Rows(tuple(back)), token.batch)
        return token, len(back)


def bring_back(world: World, project: SimulatedProject, table: LakeTable) -> None:
    """``kedro lakehouse quarantine --replay``."""
    del world
    SimulatedReplay(table).run()


COMMANDS: dict[str, Callable[[Any, Any, LakeTable], None]] = {
    "rebuild --from-landing": rebuild_landing,
    "rebuild": fold_again,
    "rollback": go_back,
    "maintenance": tidy,
    "withdraw": leave_out,
    "replay": bring_back,
}
_KEYED = ("rebuild", "withdraw", "replay")


def program(world: World, tables: list[str], commands: list[str]) -> Callable[[Writer], None]:
    """A writer's life: some runs, with a command here and there, while files land."""
    plan = [world.scheduler.pick(["run", "run", *commands]) for _ in range(world.scheduler.pick([1, 2, 3]))]

    def work(writer: Writer) -> None:
        for number, what in enumerate(plan):
            if world.scheduler.chance(0.5):
                land(world, world.scheduler.pick(tables))
            name = f"{writer.name}.{number}"
            if what == "run":
                run(world, tables, name)
            else:
                command(world, what, world.scheduler.pick(tables), name)

    return work


def command(world: World, what: str, table: str, name: str) -> None:
    """Run one command on a table that has it."""
    if what in _KEYED and "keys" not in TABLES[table]:
        return
    with contextlib.suppress(*ALLOWED):
        project = world.project(name)
        COMMANDS[what](world, project, project.bind(TableName.parse(table)))


def settle(world: World, tables: list[str]) -> None:
    """Let clean runs end what was begun, until one of them changes nothing."""
    for table in map(TableName.parse, tables if world.corrected_files else ()):
        if world.project("check").table(table).write == "merge":  # a replay that was killed is called again
            bring_pending_back(world, table)
    for number in range(6):
        before = {t: world.lake.tables.get(t) for t in world.lake.tables}
        project = world.project(f"settle.{number}")
        bound = [project.bind(TableName.parse(t)) for t in tables]
        write_unrecorded_commits(project.ops, bound)
        for table in bound:
            ingest(world, table)
            bring(table)
        if before == {t: world.lake.tables.get(t) for t in world.lake.tables}:
            return
    world.violations.append("runs without anything new go on changing tables")


def bring_pending_back(world: World, table: TableName) -> None:
    """Finish what is planned, then bring back what a killed replay had left in quarantine."""
    project = world.project("settle.replay")
    bound = project.bind(table)
    ingest(world, bound)
    bring_back(world, project, bound)


def accepted(project: SimulatedProject, table: TableName) -> Any:
    """The events that a table's targets are made from."""
    bound = project.bind(table)
    engine: Any = engine_of(bound)
    return engine.accepted(bound, upto=10**9)
