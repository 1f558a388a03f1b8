"""The ledger is read along the chain of published batches, whoever planned what and by which clock."""

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pytest

from kedro_lakehouse.errors import LedgerGapError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, SCHEMAS, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.sources import ledger as ledger_module
from kedro_lakehouse.sources.files import LandedFile
from kedro_lakehouse.sources.ledger import Ledger

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")
F1, F2, F3 = (LandedFile(f"/landing/f{n}", 10, n) for n in (1, 2, 3))


@pytest.fixture
def catalog(tmp_path):
    return MetadataCatalog(
        {
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
            "spark.sql.catalog.lake.warehouse": f"{tmp_path}/warehouse",
        }
    )


@dataclass
class Runs:
    """Runs that open the ledger of one table."""

    catalog: MetadataCatalog

    def open(self, run="run"):
        return Ledger(OpsStore(self.catalog), ITEM, run)


@pytest.fixture
def runs(catalog):
    return Runs(catalog)


def published(plan):
    return CommitReport(
        table=str(ITEM), stage="ingestion", batch=plan.batch, batches=1, content_hash=plan.content_hash,
        follows=plan.follows, epoch=plan.epoch, run_id="run", committed_at="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def two_plans(runs):
    """Two runs plan batch 1 on the same state: one saw a file more than the other."""
    first, second = runs.open("a"), runs.open("b")
    before = first.chain(None), second.chain(None)
    return first.plan(before[0], [F1], {}), second.plan(before[1], [F1, F2], {})


def test_of_two_plans_of_one_number_the_published_one_counts_and_the_others_files_are_new(runs):
    small, large = two_plans(runs)
    chain = runs.open().chain(published(small))
    assert (chain.batch, chain.new([F1, F2, F3])) == (1, [F2, F3])
    assert chain.void == {(1, large.content_hash)}


def test_a_file_of_the_published_plan_is_not_taken_twice_whoever_plans_later(runs):
    small, large = two_plans(runs)
    late = runs.open("late")
    late.plan(late.chain(None), [F1], {})
    chain = runs.open().chain(published(large))
    assert (chain.new([F1, F2]), chain.void) == ([], {(1, small.content_hash)})


def test_plans_that_may_still_be_published_are_told_and_their_files_are_new_until_then(runs):
    plans = two_plans(runs)
    chain = runs.open().chain(None)
    assert set(chain.open) == set(plans)
    assert chain.new([F1, F2]) == [F1, F2]


def test_the_same_plan_is_written_once(runs):
    first = runs.open("a")
    planned = first.plan(first.chain(None), [F1, F2], {})
    second = runs.open("b")
    assert second.plan(second.chain(None), [F2, F1], {}).content_hash == planned.content_hash
    assert len(OpsStore(runs.catalog).read(BATCH_LEDGER)) == 1


def test_a_batch_of_the_same_files_is_another_one_after_another_batch(runs):
    small, large = two_plans(runs)
    after = [runs.open().plan(runs.open().chain(published(p)), [F3], {}) for p in (small, large)]
    assert after[0].content_hash != after[1].content_hash
    chain = runs.open().chain(published(after[1]))
    assert [p.content_hash for p in chain.published] == [large.content_hash, after[1].content_hash]


@pytest.mark.parametrize("minutes", [-10, 0, 10])
def test_no_clock_takes_part(runs, monkeypatch, minutes):
    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime.now(tz) + dt.timedelta(minutes=minutes)

    old = runs.open()
    before = old.plan(old.chain(None), [F1], {})
    monkeypatch.setattr(ledger_module, "datetime", Clock)
    again = runs.open()
    assert again.begin_again(["uuid"]) == 1
    first = again.plan(again.chain(None), [F1], {})
    second = again.plan(again.chain(published(first)), [F2], {})
    found = runs.open()
    assert found.chain(published(second)).new([F1, F2, F3]) == [F3]
    assert (found.given_up, found.epoch, first.content_hash != before.content_hash) == ({"uuid"}, 1, True)


def test_plans_of_an_earlier_epoch_can_not_be_published_any_more(runs):
    two_plans(runs)
    again = runs.open()
    again.begin_again([])
    assert again.chain(None).open == ()


def test_a_file_that_was_refused_behind_a_void_plan_is_new_again(runs):
    small, large = two_plans(runs)
    refusing = runs.open()
    refusing.refuse(refusing.chain(published(large)), {F3: "SNAPSHOT_OUT_OF_ORDER"})
    assert runs.open().chain(published(large)).new([F3]) == []
    assert runs.open().chain(published(small)).new([F3]) == [F3]


def test_a_published_batch_without_its_plan_is_refused(runs):
    small, _ = two_plans(runs)
    OpsStore(runs.catalog).forget(BATCH_LEDGER, of_table=str(ITEM))
    with pytest.raises(LedgerGapError, match="batch 1"):
        runs.open().chain(published(small))


def test_in_a_ledger_of_an_earlier_version_the_newest_plan_of_a_number_counts(runs):
    schema = pa.schema([f for f in SCHEMAS[BATCH_LEDGER] if f.name not in ("epoch", "follows")])
    runs.catalog.ensure_namespace("ops")
    made = runs.catalog.catalog.create_table("ops.batch_ledger", schema=schema)
    for minute, (batch, content_hash, file) in enumerate([(1, "a", F1), (1, "b", F2), (2, "c", F3)]):
        row = {
            "table": str(ITEM), "batch": batch, "content_hash": content_hash, "run_id": "old", "refused": [],
            "files": [vars(file)], "planned_at": dt.datetime(2026, 1, 1, 0, minute, tzinfo=dt.UTC),
        }  # fmt: skip
        made.append(pa.Table.from_pylist([row], schema=schema))
    bookmark = CommitReport(
        table=str(ITEM), stage="ingestion", batch=2, batches=1, content_hash="c", run_id="old",
        committed_at="2026-01-01T00:05:00.000+00:00",
    )  # fmt: skip
    ledger = runs.open()
    chain = ledger.chain(bookmark)
    assert chain.new([F1, F2, F3]) == [F1]
    planned = ledger.plan(chain, [F1], {})
    assert (planned.batch, planned.follows) == (3, "c")
    assert runs.open().chain(published(planned)).new([F1, F2, F3]) == []
