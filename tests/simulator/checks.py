"""What must hold after every schedule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.ledger import Ledger
from simulator.engine import FOLDS, same_rows
from simulator.writers import accepted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.world import SimulatedProject, World


def differences(world: World, tables: list[str]) -> list[str]:
    """What is lost, doubled or wrong; nothing where all is right."""
    project = world.project("check")
    found = list(world.violations)
    for name in tables:
        found += [f"{name}: {problem}" for problem in _of_table(world, project, TableName.parse(name))]
    return found


def _of_table(world: World, project: SimulatedProject, name: TableName) -> Iterator[str]:
    lake = project.format_of(name)
    landed = world.landed[str(name)]
    changes = _rows(lake, name.with_suffix("changes"))
    quarantine = _rows(lake, name.with_suffix("quarantine"))
    places = {(f.name, i): r for f, records in landed.items() for i, r in enumerate(records)}
    applied = Counter(e["_position"] for e in changes)
    refused = Counter(e["_position"] for e in quarantine)
    for place, record in places.items():
        times, held = applied[place], refused[place]
        broken = record.broken and place[0] not in world.corrected_files
        if record.broken and not broken:  # a replay was asked for: it came back, or is still there
            if times + held != 1:
                yield f"{place}, corrected, is {times} times in the change log and {held} times in quarantine"
        elif (times, held) != ((0, 1) if broken else (1, 0)):
            yield f"{place} is {times} times in the change log and {held} times in quarantine"
    yield from _of_ledger(world, project, name, changes, quarantine)
    rows = _rows(lake, name)
    expected = FOLDS[project.table(name).write](accepted(project, name)) if changes else []
    if not same_rows(rows, expected):
        yield f"current holds {len(rows)} rows that are not the fold's {len(expected)}"


def _of_ledger(
    world: World, project: SimulatedProject, name: TableName, changes: Any, quarantine: Any
) -> Iterator[str]:
    state = project.format_of(name).state(name.with_suffix("changes"))
    chain = Ledger(project.ops, name, "check").chain(state.bookmark if state else None)
    files = Counter(f for p in chain.published if not p.is_replay for f in p.files)
    if files != Counter(dict.fromkeys(world.landed[str(name)], 1)):
        yield "the published plans do not hold each landed file once"
    batch_of = {f.name: p.batch for p in chain.published if not p.is_replay for f in p.files}
    for row in quarantine:
        if row["_batch"] != batch_of.get(row["_position"][0]):
            yield f"{row['_position']} is quarantined under batch {row['_batch']}, which does not have it"
    recorded = [r for r in world.ops.tables["batches"] if r["table"] == str(name)]
    identities = Counter((r["stage"], r["batch"], r["run_id"], r["committed_at"]) for r in recorded)
    if doubled := [i for i, n in identities.items() if n > 1]:
        yield f"rows of lake.ops.batches are there twice: {doubled}"
    # Catalogs drop by name: where two runs give a table up at once, the second may drop what the first has
    # made since, and make it once more. Both commits have their rows; the later one counts.
    ingested = {
        r["batch"]: r["applied"]
        for r in sorted(recorded, key=lambda r: r["committed_at"])
        if r["stage"] == "ingestion" and r["content_hash"] in {p.content_hash for p in chain.published}
    }
    if sorted(ingested) != list(range(1, chain.batch + 1)):
        yield f"of {chain.batch} published batches lake.ops.batches has {sorted(ingested)}"
    elif sum(ingested.values()) != len(changes):
        yield f"{sum(ingested.values())} events were counted, {len(changes)} are there"


def _rows(lake: Any, table: TableName) -> Any:
    return lake.read(table).rows if lake.state(table) is not None else ()
