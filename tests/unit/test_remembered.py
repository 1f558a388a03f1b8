"""What a process remembers of a ledger gives what the whole ledger gives, after whatever happened to it."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from property.seeds import SWITCH, the_seed

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.sources import ledger as ledger_module
from kedro_lakehouse.sources.ledger import Ledger
from kedro_lakehouse.sources.streams import StreamRange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.ledger import Chain
    from kedro_lakehouse.sources.plans import PlannedFiles

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")
PARTITIONS = 3


class Files:
    """``lake.ops`` as files of rows: each append adds one, and files are merged, as the store does it."""

    def __init__(self, place: str) -> None:
        self.place, self.number = place, 0
        self.files: dict[str, list[dict[str, Any]]] = {}
        self.whole = 0

    def _add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.number += 1
        self.files[f"f{self.number}"] = [dict(row) for row in rows]

    def append(self, _: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._add(rows)

    def merge(self, chance: random.Random) -> None:
        some = chance.sample(list(self.files), chance.randint(0, len(self.files)))
        rows = [row for path in some for row in self.files.pop(path)]
        chance.shuffle(rows)
        self._add(rows)

    def read(self, _: str, *, of_table: str) -> list[dict[str, Any]]:
        self.whole += 1
        return [dict(r) for rows in self.files.values() for r in rows if r["table"] == of_table]

    def read_files(
        self, _: str, of_table: str, known: Collection[str]
    ) -> dict[str, list[dict[str, Any]] | None] | None:
        return {
            path: None if path in known else [dict(r) for r in rows if r["table"] == of_table]
            for path, rows in self.files.items()
        }


def published(plan: PlannedFiles) -> CommitReport:
    return CommitReport(
        table=str(ITEM), stage="ingestion", batch=plan.batch, batches=1, content_hash=plan.content_hash,
        follows=plan.follows, epoch=plan.epoch, run_id="run", committed_at="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def ranges(chain: Chain, chance: random.Random) -> list[LandedFile]:
    """The next ranges of some partitions; now and then one without records, or one that overlaps."""
    ends = defaultdict(int, {one.partition: one.end for one in map(StreamRange.of, known(chain))})
    for one in map(StreamRange.of, known(chain)):
        ends[one.partition] = max(ends[one.partition], one.end)
    return [
        StreamRange(
            stream="in", identity="x", partition=str(part), first=ends[str(part)],
            end=ends[str(part)] + chance.randint(0, 5), until=chance.randint(0, 10**6),
        ).planned("kafka")
        for part in chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
    ]  # fmt: skip


def known(chain: Chain) -> list[LandedFile]:
    return [*chain.refused, *chain.read_ranges()]


def ends_of(found: Collection[LandedFile]) -> Any:
    """What sources make of published ranges: ends, times, and times of what a declared start left out."""
    marks: dict[str, tuple[int, int]] = {}
    for one in map(StreamRange.of, found):
        end, until = marks.get(one.partition, (0, 0))
        marks[one.partition] = max(end, one.end), max(until, one.until)
    return marks


def firsts_of(found: Collection[LandedFile]) -> dict[str, int]:
    firsts: dict[str, int] = {}
    for one in map(StreamRange.of, found):
        if one.first < one.end:
            firsts[one.partition] = min(one.first, firsts.get(one.partition, one.first))
    return firsts


def facts(ledger: Ledger, bookmark: CommitReport | None, tried: Sequence[PlannedFiles]) -> Any:
    """Everything that a ledger says."""
    chain = ledger.chain(bookmark)
    return {
        "batch": chain.batch, "head": chain.head, "epoch": chain.epoch, "given up": chain.is_given_up,
        "open": {(p.batch, p.content_hash, p.files, p.follows) for p in chain.open}, "void": chain.void,
        "refused": chain.refused, "ends": ends_of(known(chain)), "firsts": firsts_of(ledger.planned_ever()),
        "uuids": ledger.given_up, "holds": [chain.holds(p.batch, p.content_hash) for p in tried],
        "published": [(p.batch, p.content_hash, p.files) for p in chain.published],
    }  # fmt: skip


class Life:
    """A random life of one table: several runs plan, one plan is published, batches are rolled back."""

    def __init__(self, place: str, chance: random.Random) -> None:
        self.chance, self.store = chance, Files(place)
        self.past: list[CommitReport | None] = [None]
        self.tried: list[PlannedFiles] = []

    def ledger(self, run: str, *, remembers: bool = True) -> Ledger:
        return Ledger(self.store, ITEM, run, remembers=remembers)  # type: ignore[arg-type]

    def step(self) -> None:
        chance = self.chance
        runs = [self.ledger(f"run{n}") for n in range(chance.choice([1, 1, 2, 3]))]
        plans = [plan for run in runs if (plan := self.plan(run)) is not None]
        self.tried += plans
        if plans and chance.random() < 0.9:
            self.past.append(published(chance.choice(plans)))
        if chance.random() < 0.05:
            self.store.merge(chance)
        chain = (refusing := self.ledger("refusing")).chain(self.past[-1])
        if chance.random() < 0.03 and not chain.is_given_up:
            refusing.refuse(chain, dict.fromkeys(ranges(chain, chance), "NOTHING_CAME"))
        if chance.random() < 0.01:
            self.past = self.past[: chance.randint(max(1, len(self.past) - 60), len(self.past))]
        if chance.random() < 0.004:
            self.ledger("rebuild").begin_again(["u"])

    def plan(self, run: Ledger) -> PlannedFiles | None:
        chain = run.chain(self.past[-1])
        if chain.is_given_up:  # a run drops the change log
            self.past = [None]
            return None
        replayed = "r" if self.chance.random() < 0.05 else None
        return run.plan(chain, ranges(chain, self.chance), {}, replayed=replayed)

    def compare(self) -> None:
        some = self.chance.sample(self.tried, min(len(self.tried), 20))
        for bookmark in (self.past[-1], self.chance.choice(self.past)):
            plain = facts(self.ledger("check", remembers=False), bookmark, some)
            assert facts(self.ledger("check"), bookmark, some) == plain, f"again with {SWITCH}={the_seed()}"


@pytest.mark.parametrize("number", range(6))
def test_what_is_remembered_is_what_the_ledger_says(number: int, tmp_path: Path) -> None:
    life = Life(str(tmp_path), random.Random(the_seed() + number))  # noqa: S311 - no secret
    for step in range(220):
        life.step()
        if step % 7 == 0:
            life.compare()


def lived(store: Files, batches: int, chance: random.Random, *, merges: bool = False) -> CommitReport | None:
    """The bookmark after so many batches, each planned by a ledger of its own."""
    bookmark: CommitReport | None = None
    for _ in range(batches):
        run = Ledger(store, ITEM, "run", remembers=True)  # type: ignore[arg-type]
        chain = run.chain(bookmark)
        bookmark = published(run.plan(chain, ranges(chain, chance), {}))
        if merges and len(store.files) > 12:
            store.merge(chance)
    return bookmark


def test_a_cycle_takes_up_what_is_new_and_keeps_few_rows(tmp_path: Path) -> None:
    """A thousand batches: no whole reading after the first, and the rows of few are kept."""
    store = Files(str(tmp_path))
    bookmark = lived(store, 1_000, random.Random(7), merges=True)  # noqa: S311 - no secret
    assert store.whole == 0
    last = Ledger(store, ITEM, "run", remembers=True)  # type: ignore[arg-type]
    chain = last.chain(bookmark)
    assert (chain.batch, len(chain.published), store.whole) == (1_000, 1_000, 1)
    assert len(chain.recent) < 60
    assert len(last.planned_ever()) < 60 * PARTITIONS + PARTITIONS
    assert len(ledger_module._memories[str(tmp_path), str(ITEM)]._rows) < 60


def test_rows_that_are_gone_are_gone(tmp_path: Path) -> None:
    store = Files(str(tmp_path))
    lived(store, 100, random.Random(7))  # noqa: S311 - no secret
    store.files = {}
    assert Ledger(store, ITEM, "run", remembers=True).chain(None).batch == 0  # type: ignore[arg-type]
    assert Ledger(store, ITEM, "run", remembers=True).planned_ever() == []  # type: ignore[arg-type]


def test_files_of_lake_ops_are_read_once(tmp_path: Path) -> None:
    """The store itself: the rows of known files are not given again, also after small files were merged."""
    catalog = MetadataCatalog(
        {
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
            "spark.sql.catalog.lake.warehouse": f"{tmp_path}/warehouse",
        }
    )
    store, chance = OpsStore(catalog), random.Random(7)  # noqa: S311 - no secret
    bookmark: CommitReport | None = None
    assert store.read_files(BATCH_LEDGER, str(ITEM), ()) == {}
    for _ in range(30):
        run = Ledger(store, ITEM, "run", remembers=True)
        chain = run.chain(bookmark)
        bookmark = published(run.plan(chain, ranges(chain, chance), {}))
    found = store.read_files(BATCH_LEDGER, str(ITEM), ())
    assert found is not None
    assert 1 < len(found) <= 13
    assert sorted(r["batch"] for rows in found.values() for r in rows or ()) == list(range(1, 31))
    assert set((store.read_files(BATCH_LEDGER, str(ITEM), found) or {"": ()}).values()) == {None}
    assert store.read_files(BATCH_LEDGER, "shop.other", ()) == {path: [] for path in found}
    plain = facts(Ledger(store, ITEM, "check"), bookmark, ())
    assert facts(Ledger(store, ITEM, "check", remembers=True), bookmark, ()) == plain
