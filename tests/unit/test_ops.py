"""Tables of ``lake.ops``: those that an earlier version made, many writes, and writes that nobody answers."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import HTTPClientError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, SCHEMAS, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit


@pytest.fixture
def catalog(tmp_path):
    return MetadataCatalog(
        {
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
            "spark.sql.catalog.lake.warehouse": f"{tmp_path}/warehouse",
        }
    )


def test_a_table_without_a_new_column_gets_it_and_keeps_its_rows(catalog):
    old = pa.schema([field for field in SCHEMAS[BATCHES] if field.name != "correlation_id"])
    catalog.ensure_namespace("ops")
    made = catalog.catalog.create_table("ops.batches", schema=old)
    made.append(pa.Table.from_pylist([{"table": "a.b", "batch": 1}], schema=old))
    store = OpsStore(catalog)
    assert "correlation_id" not in store.read(BATCHES)[0]
    store.append(BATCHES, [{"table": "a.b", "batch": 2, "correlation_id": "id"}])
    store.append(BATCHES, [{"table": "a.b", "batch": 3}])
    found = {row["batch"]: row["correlation_id"] for row in store.read(BATCHES)}
    assert found == {1: None, 2: "id", 3: None}


def test_rows_of_one_table_are_forgotten_and_others_stay(catalog):
    store = OpsStore(catalog)
    store.append(BATCH_LEDGER, [{"table": "a.b", "batch": 1}, {"table": "a.c", "batch": 1}])
    store.forget(BATCH_LEDGER, of_table="a.b")
    store.forget(BATCH_LEDGER, of_table="a.b")
    assert [row["table"] for row in store.read(BATCH_LEDGER)] == ["a.c"]
    assert len(catalog.catalog.load_table("ops.batch_ledger").history()) == 2


def test_many_small_appends_leave_few_files_and_snapshots_and_every_row(catalog):
    stores = [OpsStore(catalog), OpsStore(catalog)]  # as two processes have them
    with ThreadPoolExecutor(max_workers=2) as pool:
        rows = [{"table": "shop.item", "stage": "current", "batch": n} for n in range(40)]
        list(pool.map(lambda row: stores[row["batch"] % 2].append(BATCHES, [row]), rows))
    assert sorted(r["batch"] for r in stores[0].read(BATCHES)) == list(range(40))
    stored = catalog.find(TableName.ops(BATCHES))
    assert int(stored.current_snapshot().summary["total-data-files"]) <= 13
    assert len(stored.snapshots()) <= 40


def test_an_append_does_not_rewrite_a_large_file(catalog):
    store, large = OpsStore(catalog), 5_000
    store.append(BATCHES, [{"table": f"shop.t{n % 7}", "stage": "current", "batch": n} for n in range(large)])
    rewritten = 0
    for number in range(60):
        store.append(BATCHES, [{"table": "shop.item", "stage": "current", "batch": large + number}])
        stored = catalog.find(TableName.ops(BATCHES))
        summary = stored.current_snapshot().summary
        rewritten += int(summary["added-records"]) - 1
        assert int(summary["total-data-files"]) <= 13
    assert sorted(r["batch"] for r in store.read(BATCHES)) == list(range(large + 60))
    assert rewritten < 60 * 6
    places = [r["table"] for r in store.read(BATCHES, of_table="shop.t3")]
    assert len(places) == len(range(3, large, 7))


def test_what_threads_append_meanwhile_is_one_commit(catalog, monkeypatch):
    store = OpsStore(catalog)
    store.append(BATCHES, [{"table": "a.b", "stage": "current", "batch": 0}])
    commit, first, rest = SqlCatalog.commit_table, threading.Event(), threading.Event()
    commits = []

    def slow(self, *arguments):
        commits.append(arguments)
        first.set()
        assert rest.wait(timeout=30)
        return commit(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", slow)
    rows = [{"table": "a.b", "stage": "current", "batch": n} for n in range(1, 6)]
    with ThreadPoolExecutor(max_workers=5) as pool:
        done = [pool.submit(store.append, BATCHES, rows[:1], unless=("batch",))]
        assert first.wait(timeout=30)
        done += [pool.submit(store.append, BATCHES, [row], unless=("batch",)) for row in rows[1:]]
        while len(store._waiting[BATCHES]) < len(rows):
            time.sleep(0.01)
        rest.set()
    assert [future.result() for future in done] == [None] * 5
    assert sorted(r["batch"] for r in store.read(BATCHES)) == list(range(6))
    assert len(commits) == 2


def commits_of(catalog, table=BATCHES):
    """How many commits a table of ``lake.ops`` has had."""
    return len(catalog.catalog.load_table(f"ops.{table}").history())


def test_rows_that_can_wait_go_into_one_commit_and_are_read_at_once(catalog):
    store, other = OpsStore(catalog), OpsStore(catalog)
    rows = [{"table": "a.b", "stage": "current", "batch": n} for n in range(9)]
    store.gathers = True
    for row in rows[:8]:
        store.append_soon(BATCHES, [row], unless=("batch",))
    assert [r["batch"] for r in other.read(BATCHES)] == [0]
    assert sorted(r["batch"] for r in store.read(BATCHES)) == list(range(8))
    assert commits_of(catalog) == 2
    other.append(BATCHES, rows[8:])  # what another process found out first
    store.append_soon(BATCHES, rows[8:], unless=("batch",))
    store.flush()
    assert sorted(r["batch"] for r in other.read(BATCHES)) == list(range(9))


def test_where_nobody_will_flush_nothing_waits(catalog):
    store = OpsStore(catalog)
    for number in range(3):
        store.append_soon(BATCHES, [{"table": "a.b", "stage": "current", "batch": number}])
        assert len(OpsStore(catalog).read(BATCHES)) == number + 1


def test_rows_that_could_not_be_written_wait_on(catalog, monkeypatch):
    store = OpsStore(catalog)
    store.gathers = True
    with monkeypatch.context() as patch:
        patch.setattr(store, "_commit", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            store.append_soon(BATCHES, [{"table": "a.b", "stage": "current", "batch": 1}])
    store.append(BATCHES, [{"table": "a.b", "stage": "current", "batch": 2}])
    assert sorted(r["batch"] for r in OpsStore(catalog).read(BATCHES)) == [1, 2]


def test_an_error_of_a_common_commit_is_every_threads(catalog, monkeypatch):
    store = OpsStore(catalog)
    monkeypatch.setattr(store, "_commit", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with ThreadPoolExecutor(max_workers=3) as pool:
        done = [pool.submit(store.append, BATCHES, [{"table": "a.b", "batch": n}]) for n in range(3)]
    assert [str(future.exception()) for future in done] == ["full"] * 3


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("error", [HTTPClientError(error="closed"), CommitFailedException("version")])
def test_rows_whose_commit_was_not_answered_are_there_once(catalog, monkeypatch, applied, error):
    """As where an answer is lost and the client asks again: it conflicts with itself."""
    store = OpsStore(catalog)
    store.append(BATCHES, [{"table": "a.b", "batch": 1}])
    commit, asked = SqlCatalog.commit_table, []

    def unanswered(*given):
        asked.append(given)
        if len(asked) == 1:
            if applied:
                commit(*given)
            raise error
        return commit(*given)

    monkeypatch.setattr(SqlCatalog, "commit_table", unanswered)
    store.append(BATCHES, [{"table": "a.b", "batch": 2}])
    assert sorted(row["batch"] for row in store.read(BATCHES)) == [1, 2]
    assert len(asked) == (1 if applied else 2)


@pytest.fixture
def meet(monkeypatch):
    """Let commits meet what a test says, the first time with what it gave and with the real commit."""

    def meet(what):
        commit, asked = SqlCatalog.commit_table, []

        def met(*given):
            asked.append(given)
            return what(commit, asked)

        monkeypatch.setattr(SqlCatalog, "commit_table", met)
        return asked

    return meet


def test_a_commit_that_arrives_after_it_was_given_up_is_not_made_again(catalog, meet):
    store = OpsStore(catalog)
    store.append(BATCHES, [{"table": "a.b", "batch": 1}])

    def late(commit, asked):
        if len(asked) == 1:
            raise HTTPClientError(error="closed")
        if len(asked) == 2:
            commit(*asked[0])  # after the second attempt looked for it
        return commit(*asked[-1])

    asked = meet(late)
    store.append(BATCHES, [{"table": "a.b", "batch": 2}])
    assert sorted(row["batch"] for row in store.read(BATCHES)) == [1, 2]
    assert len(asked) == 2


def test_a_lost_race_leaves_no_metadata_of_its_own(catalog, meet):
    store = OpsStore(catalog)
    store.append(BATCHES, [{"table": "a.b", "batch": 1}])
    folder = Path(catalog.find(TableName.ops(BATCHES)).location().removeprefix("file:")) / "metadata"
    before = len(list(folder.glob("*.avro")))

    def lost(commit, asked):
        if len(asked) == 1:
            raise CommitFailedException("version")
        return commit(*asked[-1])

    meet(lost)
    store.append(BATCHES, [{"table": "a.b", "batch": 2}])
    assert len(list(folder.glob("*.avro"))) == before + 2  # a manifest, and a list of manifests


ROW = {
    "table": "shop.item", "stage": "current", "batch": 2, "run_id": "r",
    "committed_at": datetime(2026, 1, 1, 12, 30, 1, 123456, tzinfo=UTC),
}  # fmt: skip
OWED = tuple(ROW)


def test_a_row_that_is_there_is_left_out_and_others_come(catalog):
    store = OpsStore(catalog)
    store.append(BATCHES, [ROW], unless=OWED)
    others = [ROW | {"batch": 3}, ROW | {"run_id": None}, ROW | {"committed_at": None}]
    store.append(BATCHES, [ROW | {"batches": 7}, *others], unless=OWED)
    store.append(BATCHES, others, unless=OWED)
    store.append(BATCHES, [], unless=OWED)
    found = store.read(BATCHES)
    assert sorted((r["batch"], r["run_id"], r["batches"]) for r in found if r["run_id"]) == [
        (2, "r", None), (2, "r", None), (3, "r", None)
    ]  # fmt: skip
    assert len(found) == 4
    assert len(catalog.find(TableName.ops(BATCHES)).history()) == 2


def test_a_catalog_that_never_answers_is_not_asked_for_ever(catalog, monkeypatch):
    def silent(*_):
        raise HTTPClientError(error="closed")

    monkeypatch.setattr(SqlCatalog, "commit_table", silent)
    with pytest.raises(HTTPClientError):
        OpsStore(catalog).append(BATCHES, [{"table": "a.b", "batch": 1}])
