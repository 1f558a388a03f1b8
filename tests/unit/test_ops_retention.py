"""Old rows of ``lake.ops`` go, and what decides something stays."""

import datetime as dt
from functools import partial

import pyarrow as pa
import pytest

from kedro_lakehouse.commits.acknowledge import _Recorded
from kedro_lakehouse.config.maintenance import load_maintenance
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.retention import TIMES, kept
from kedro_lakehouse.ops.store import (
    ALERTS,
    BATCH_LEDGER,
    BATCHES,
    DECISIONS,
    MAINTENANCE,
    QUALITY_RESULTS,
    RUNS,
    SCHEMAS,
    OpsStore,
)
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

LIMIT = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)


def day(number):
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number)


def left(table, rows):
    """What stays of rows of which day 0 to 180 is before the limit; each by its day."""
    given = pa.Table.from_pylist(
        [
            {name: row.get(name) for name in SCHEMAS[table].names} | {TIMES[table]: day(row["day"])}
            for row in rows
        ],
        schema=SCHEMAS[table],
    )
    return [(moment - day(0)).days for moment in kept(table, given, LIMIT)[TIMES[table]].to_pylist()]


def test_plans_and_decisions_are_never_old():
    assert not {BATCH_LEDGER, DECISIONS} & TIMES.keys()


def test_of_each_target_the_commit_stays_that_newer_ones_follow():
    rows = [{"table": "a.b", "stage": "current", "day": d} for d in (1, 2, 3, 200)]
    rows += [{"table": "a.b", "stage": "history", "day": d} for d in (4, 5)]
    assert left(BATCHES, rows) == [200, 3, 5]


def test_the_failures_of_a_table_stay_until_it_has_recovered():
    def run(at, *, failed=(), recovered=(), env="base"):
        found = [{"table": table, "code": "X", "message": ""} for table in failed]
        return {"env": env, "day": at, "tables": [], "failed": found, "recovered": list(recovered)}

    rows = [
        run(1, failed=["a.b", "a.c"]),
        run(2, failed=["a.b"]),
        run(3, recovered=["a.c"]),
        run(4, failed=["a.d"]),
        run(5, recovered=["a.d"], env="other"),
        run(6),
        run(200, recovered=["a.d"]),
    ]
    assert left(RUNS, rows) == [1, 2, 200]


def test_the_last_state_of_each_alert_and_the_last_validation_stay():
    alert = {"notifier": "chat", "kind": "failure"}
    rows = [
        {**alert, "subject": subject, "day": d} for subject, d in (("a", 1), ("a", 2), ("b", 3), ("a", 200))
    ]
    assert left(ALERTS, rows) == [3, 200]
    judged = [
        {"suite": "a.b", "stage": "published", "expectation": "one", "day": 1},
        {"suite": "a.b", "stage": "current", "expectation": "one", "day": 1},
        {"suite": "a.b", "stage": "published", "expectation": "one", "day": 2},
        {"suite": "a.b", "stage": "published", "expectation": "two", "day": 2},
    ]
    assert left(QUALITY_RESULTS, judged) == [1, 2, 2]
    assert left(MAINTENANCE, [{"day": 1}, {"day": 200}]) == [200]


@pytest.fixture
def store(tmp_path):
    uri, warehouse = f"jdbc:sqlite:file:{tmp_path}/catalog.db", f"{tmp_path}/warehouse"
    conf = {"type": "jdbc", "uri": uri, "warehouse": warehouse}
    return OpsStore(MetadataCatalog({f"spark.sql.catalog.lake.{k}": v for k, v in conf.items()}))


def commits(*days):
    """Rows of commits of one target, each of which follows the one before."""
    return [
        {
            "table": "a.b", "stage": "current", "batch": n + 1, "batches": 1, "content_hash": f"h{n + 1}",
            "follows": f"h{n}" if n else "", "run_id": "r", "committed_at": day(d),
        }
        for n, d in enumerate(days)
    ]  # fmt: skip


def test_deleted_rows_are_not_owed_again(store):
    store.append(BATCHES, commits(1, 2, 3, 200, 201))
    assert store.kept_since(BATCHES) is None
    assert store.keep(BATCHES, partial(kept, BATCHES, before=LIMIT), since=LIMIT) == 2
    assert store.keep(BATCHES, partial(kept, BATCHES, before=LIMIT), since=LIMIT) == 0
    rows = store.read(BATCHES)
    assert sorted(row["batch"] for row in rows) == [3, 4, 5]
    last = CommitReport(
        table="a.b", stage="current", batch=5, batches=1, content_hash="h5", run_id="r",
        committed_at=day(201).isoformat(), follows="h4",
    )  # fmt: skip
    assert _Recorded(rows).lacks_one_before(last), "without the time, the deleted row would be missed"
    assert store.kept_since(BATCHES) == LIMIT
    assert not _Recorded(rows, store.kept_since(BATCHES)).lacks_one_before(last)


def test_rows_are_kept_at_least_as_long_as_snapshots():
    assert load_maintenance({}, ()).ops.keep is None
    assert load_maintenance({"ops": {"keep": "90 days"}}, ()).ops.keep == dt.timedelta(days=90)
    tables = {"a.b": {"expire": {"older_than": "100 days"}}}
    with pytest.raises(ConfigurationError, match=r"shorter than tables.a.b.expire.older_than"):
        load_maintenance({"ops": {"keep": "90 days"}, "tables": tables}, ["a.b"])
    with pytest.raises(ConfigurationError, match="below 1 day"):
        load_maintenance({"ops": {"keep": "1 hour"}}, ())
