"""Rows of ``lake.ops`` while others write: another process compacts, or appends the same row at once.

On the SQLite catalog and on moto's Glue, which compares versions here as AWS does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from botocore.exceptions import HTTPClientError
from harness.aws import LAKEHOUSE, REGION, moto_aws
from harness.lossy import WAYS, lossy_glue
from harness.soak import only_in_soak
from harness.versions import versioned_glue
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.contract

ROW = {
    "table": "shop.item", "stage": "current", "run_id": "r",
    "committed_at": datetime(2026, 1, 1, 12, 30, 1, 123456, tzinfo=UTC),
}  # fmt: skip
OWED = ("table", "stage", "batch", "run_id", "committed_at")
PREFIX = "spark.sql.catalog.lake."


@pytest.fixture
def sqlite(tmp_path):
    return {
        f"{PREFIX}type": "jdbc",
        f"{PREFIX}uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
        f"{PREFIX}warehouse": f"{tmp_path}/warehouse",
    }


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as address:
        yield address


@pytest.fixture
def glue(aws):
    """Settings of a catalog in Glue, with a place of this test's own, at a given address."""

    def at(address):
        place = f"s3://{LAKEHOUSE}/{uuid.uuid4().hex}"
        settings = {"type": "glue", "warehouse": place, "client.region": REGION, "s3.endpoint": aws}
        return {f"{PREFIX}{k}": v for k, v in (settings | {"glue.endpoint": address}).items()}

    with versioned_glue(aws) as line:
        yield line, at
        MetadataCatalog(at(line.address)).purge(TableName.ops(BATCHES))


@dataclass
class Unanswered:
    """A commit that is applied or not, and not rightly answered, before which another process compacts."""

    conf: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    applied: bool
    error: Exception

    def meet(self, *, then=lambda: None, table=BATCHES):
        commit, asked = SqlCatalog.commit_table, []

        def met(*given):
            asked.append(given)
            if len(asked) > 1:
                return commit(*given)
            if self.applied:
                commit(*given)
            with self.monkeypatch.context() as patch:
                patch.setattr(SqlCatalog, "commit_table", commit)
                self._compact(table)
                then()
            raise self.error

        self.monkeypatch.setattr(SqlCatalog, "commit_table", met)

    def _compact(self, table):
        """Append until one file takes the place of all, and the old snapshots go."""
        catalog = MetadataCatalog(self.conf)
        before = {s.snapshot_id for s in catalog.find(TableName.ops(table)).snapshots()}
        for n in range(14):
            OpsStore(catalog).append(table, [{"table": "a.c", "batch": n}])
        assert not before & {s.snapshot_id for s in catalog.find(TableName.ops(table)).snapshots()}


@pytest.fixture(params=[True, False], ids=["applied", "lost"])
def unanswered(request, sqlite, monkeypatch):
    return Unanswered(sqlite, monkeypatch, request.param, HTTPClientError(error="closed"))


@pytest.mark.parametrize("unless", [(), ("table", "batch")])
def test_rows_are_there_once_where_a_compaction_removed_the_mark_of_their_commit(sqlite, unanswered, unless):
    store = OpsStore(MetadataCatalog(sqlite))
    store.append(BATCHES, [{"table": "a.b", "batch": 1}])
    unanswered.meet()
    store.append(BATCHES, [{"table": "a.b", "batch": 2}], unless=unless)
    assert sorted(row["batch"] for row in store.read(BATCHES, of_table="a.b")) == [1, 2]


@pytest.mark.parametrize("waiting", [None, [{"path": "f", "code": "X"}]], ids=["null", "list"])
def test_rows_whose_lists_are_null_or_not_are_there_once(sqlite, unanswered, waiting):
    """A planned batch waits for no file: its list is null, which no filter of a scan may ask for."""
    store = OpsStore(MetadataCatalog(sqlite))
    store.append(BATCH_LEDGER, [{"table": "a.b", "batch": 1}])
    unanswered.meet(table=BATCH_LEDGER)
    store.append(BATCH_LEDGER, [{"table": "a.b", "batch": 2, "files": [{"path": "f"}], "waiting": waiting}])
    assert sorted(row["batch"] for row in store.read(BATCH_LEDGER, of_table="a.b")) == [1, 2]


def test_a_client_that_conflicts_with_its_own_commit_leaves_its_rows_once(sqlite, unanswered):
    """A client that hears nothing asks again by itself, and is told of a conflict."""
    store = OpsStore(MetadataCatalog(sqlite))
    store.append(BATCHES, [{"table": "a.b", "batch": 1}])
    unanswered.error = CommitFailedException("version")
    unanswered.meet()
    store.append(BATCHES, [{"table": "a.b", "batch": 2}])
    assert sorted(row["batch"] for row in store.read(BATCHES, of_table="a.b")) == [1, 2]


def test_rows_that_came_after_a_delete_without_an_answer_stay(sqlite, unanswered):
    store = OpsStore(MetadataCatalog(sqlite))
    store.append(BATCHES, [{"table": "a.b", "batch": 1}, {"table": "a.c", "batch": 100}])
    later = OpsStore(MetadataCatalog(sqlite))
    unanswered.meet(then=lambda: unanswered.applied and later.append(BATCHES, [{"table": "a.b", "batch": 2}]))
    store.forget(BATCHES, of_table="a.b")
    left = [row["batch"] for row in store.read(BATCHES, of_table="a.b")]
    assert left == ([2] if unanswered.applied else [])
    assert len(store.read(BATCHES, of_table="a.c")) == 15


def in_threads(conf, writer, *arguments):
    """Run a function side by side, each with a store of its own, as processes have them."""
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(writer, OpsStore(MetadataCatalog(conf)), n, *arguments) for n in range(4)]
        for future in done:
            future.result()


_WRITER = """
import json, sys
from datetime import datetime
from kedro_lakehouse.ops.store import BATCHES, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
conf, row, owed, number = map(json.loads, sys.argv[1:])
row["committed_at"] = datetime.fromisoformat(row["committed_at"])
store = OpsStore(MetadataCatalog(conf))
sys.stdin.readline()
for n in range(4):
    store.append(BATCHES, [row | {"batch": n}], unless=owed)
    store.append(BATCHES, [row | {"batch": n, "run_id": f"run {number}"}])
"""


def in_processes(conf):
    """The same by four processes, each of which has rows of its own too."""
    row = ROW | {"committed_at": ROW["committed_at"].isoformat()}
    words = [json.dumps(given) for given in (conf, row, OWED)]
    command = [sys.executable, "-c", _WRITER, *words]
    processes = [
        subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in processes]
    assert [text for text, code in ended if code] == []


def append_owed(store, number):
    for n in range(4):
        store.append(BATCHES, [ROW | {"batch": n}], unless=OWED)
        store.append(BATCHES, [ROW | {"batch": n, "run_id": f"run {number}"}])


def assert_each_row_once(conf):
    found = Counter((r["run_id"], r["batch"]) for r in OpsStore(MetadataCatalog(conf)).read(BATCHES))
    assert found == Counter((run, n) for run in ("r", *(f"run {i}" for i in range(4))) for n in range(4))


@pytest.mark.parametrize(
    "way", [lambda conf: in_threads(conf, append_owed), in_processes], ids=["threads", "processes"]
)
def test_writers_that_owe_the_same_rows_leave_one_of_each_on_sqlite(sqlite, way):
    way(sqlite)
    assert_each_row_once(sqlite)


@pytest.mark.aws
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(lambda conf: in_threads(conf, append_owed), id="threads", marks=only_in_soak),
        pytest.param(in_processes, id="processes"),
    ],
)
def test_writers_that_owe_the_same_rows_leave_one_of_each_in_glue(glue, way):
    line, at = glue
    way(at(line.address))
    assert_each_row_once(at(line.address))
    assert line.met["refused"] > 0
    assert line.met["unversioned"] == 0


@pytest.mark.aws
@only_in_soak  # pyiceberg's client of Glue waits up to 20 s before it asks again
def test_writers_over_a_line_that_loses_answers_leave_each_row_once_in_glue(glue):
    line, at = glue
    with lossy_glue(line.address) as lossy:
        in_threads(at(lossy.address), append_owed)
        assert set(lossy.met) == {"nothing lost", *WAYS}
    assert_each_row_once(at(line.address))
