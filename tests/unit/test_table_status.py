"""In which state a table is: from rows of ``lake.ops`` and leases, each read once for all tables."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pytest

from kedro_lakehouse.monitoring.runs import failing_tables
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import held_leases, lease
from kedro_lakehouse.sources.ledger import waiting_in

pytestmark = pytest.mark.unit

BEGUN = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)
ITEM = TableName("shop", "item")


def run(hour, *, failed=(), tables=(), recovered=None, env="local"):
    at = BEGUN + dt.timedelta(hours=hour)
    failures = [{"table": table, "code": code, "message": f"{code} at {hour}"} for table, code in failed]
    return {"env": env, "started_at": at, "ended_at": at, "failed": failures, "tables": list(tables),
            "recovered": recovered}  # fmt: skip


def failing(*runs):
    project = SimpleNamespace(env="local", ops=SimpleNamespace(read=lambda _: list(runs)))
    return {t: (f.since.hour, f.message) for t, f in failing_tables(project).items()}


def test_a_table_fails_since_the_first_of_its_failures_in_a_row():
    broken = [("a", "AUDIT_FAILED")]
    runs = [run(3, failed=[("a", "SEQUENCE_TIE")], recovered=[]), run(1, failed=broken, recovered=[])]
    assert failing(*runs) == {"a": (1, "SEQUENCE_TIE at 3")}
    assert failing(*runs, run(4, recovered=["a"])) == {}
    assert failing(*runs, run(4, recovered=["a"]), run(5, failed=broken, recovered=[])) == {
        "a": (5, "AUDIT_FAILED at 5")
    }


def test_a_table_that_only_changed_has_not_recovered_except_in_rows_of_earlier_versions():
    failed = run(1, failed=[("a", "AUDIT_FAILED")], recovered=[])
    assert failing(failed, run(2, tables=["a"], recovered=[])) == {"a": (1, "AUDIT_FAILED at 1")}
    assert failing(failed, run(2, tables=["a"])) == {}


def test_refused_extracts_and_other_environments_are_no_failure():
    assert failing(run(1, failed=[("a", "EXTRACTS_REFUSED")]), run(1, failed=[("b", "X")], env="aws")) == {}


def ledger_row(number, *, follows="h1", epoch=0, guards="g", paths=("a.csv",)):
    waiting = [{"path": p, "size": 1, "modified": 2, "code": "SNAPSHOT_EMPTY", "reason": "is empty"}
               for p in paths]  # fmt: skip
    at = BEGUN + dt.timedelta(minutes=number)
    return {"batch": None, "planned_at": at, "follows": follows, "epoch": epoch, "guards": guards,
            "waiting": waiting, "content_hash": None, "files": []}  # fmt: skip


def names(rows, head):
    return [(guards, r.file.path, r.since.minute) for guards, r in waiting_in(rows, head)]


def test_a_refusal_stands_as_long_as_its_batch_is_the_last():
    rows = [ledger_row(1), ledger_row(2, follows="h2", paths=["b.csv"])]
    assert names(rows, "h1") == [("g", "a.csv", 1)]
    assert names(rows, "h2") == [("g", "b.csv", 2)]
    assert names(rows, "h3") == []


def test_a_refusal_is_told_with_the_guards_that_judged_and_a_rebuild_ends_it():
    rows = [ledger_row(1), ledger_row(2, guards="other"), ledger_row(3)]
    assert names(rows, "h1") == [("g", "a.csv", 1), ("other", "a.csv", 2)]
    assert names([*rows, {**ledger_row(4, epoch=1), "waiting": None}], "h1") == []


def test_who_holds_a_lease_works_on_its_table(tmp_path):
    assert held_leases(str(tmp_path)) == set()
    with lease(str(tmp_path), ITEM, "current"):
        assert held_leases(str(tmp_path)) == {"shop.item.current"}
    assert held_leases(str(tmp_path)) == set()
