"""What is told once, and what not at all."""

import datetime as dt

import pytest
from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.errors import RefusedExtractsError, SnapshotEmptyError, UnreadableFileError
from kedro_lakehouse.monitoring.alerts import (
    crossings,
    failure_states,
    quarantine_states,
    staleness_states,
)
from kedro_lakehouse.monitoring.outcome import unreached_subjects, whole_subjects
from kedro_lakehouse.monitoring.table_status import TableStatus
from kedro_lakehouse.notifiers.base import Alert, AlertState, Message
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.ops.report import CommitReport

pytestmark = pytest.mark.unit

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
EMPTY = SnapshotEmptyError(table="shop.item", extract="x.csv")


def state(raised, *, kind="failure", subject="shop.item"):
    return AlertState(kind=kind, subject=subject, raised=raised)


def report(table, batch, quarantined):
    return CommitReport(
        table=table, stage="ingestion", batch=batch, batches=1, content_hash="x", run_id="r",
        committed_at=NOW.isoformat(), counts={"applied": 3, "quarantined": quarantined},
    )  # fmt: skip


def stands(table, last_commit):
    return TableStatus(
        table=table, state="fresh", rows=1, history_rows=None, batch=1, current_batch=1,
        history_batch=None, lag=0, last_commit=last_commit, quarantined=0,
    )  # fmt: skip


def test_only_a_change_of_state_is_a_crossing():
    key = ("failure", "shop.item")
    assert crossings([state(raised=True)], {}) == [state(raised=True)]
    assert crossings([state(raised=True)], {key: True}) == []
    assert crossings([state(raised=False)], {key: True}) == [state(raised=False)]
    assert crossings([state(raised=False)], {key: False}) == []
    assert crossings([state(raised=False)], {}) == []


def test_kinds_and_subjects_cross_apart():
    known = {("failure", "shop.item"): True}
    other = [state(raised=True, kind="staleness"), state(raised=True, subject="shop.line")]
    assert crossings(other, known) == other


def test_a_failed_table_is_raised_and_those_that_ran_whole_are_well():
    error = TablesFailedError(tables={"shop.item": EMPTY}, retry="kedro run")
    found = {s.subject: s for s in failure_states(error, {"shop.item", "shop.line"})}
    assert (found["shop.item"].raised, found["shop.item"].code) == (True, "SNAPSHOT_EMPTY")
    assert "x.csv" in found["shop.item"].message
    assert not found["shop.line"].raised
    assert not found[""].raised


def test_a_run_that_failed_as_a_whole_says_nothing_of_its_tables():
    found = failure_states(ValueError("no"), {"shop.line"})
    assert [(s.subject, s.raised, s.code) for s in found] == [("", True, "ValueError")]


def test_quarantined_events_raise_and_a_clean_batch_clears():
    reports = [report("a.bad", 3, 2), report("a.bad", 4, 0), report("a.good", 1, 0)]
    bad, good = quarantine_states(reports)
    assert (bad.subject, bad.raised, bad.batch) == ("a.bad", True, 3)
    assert "2, of batch 3." in bad.message
    assert (good.subject, good.raised) == ("a.good", False)
    assert quarantine_states([]) == []


def test_several_bad_batches_are_looked_at_together():
    (found,) = quarantine_states([report("a.bad", 3, 2), report("a.bad", 4, 1)])
    assert (found.batch, "3, of batch 3, 4." in found.message) == (None, True)


def test_a_table_is_stale_when_its_last_commit_is_older_than_its_own_limit():
    hour = dt.timedelta(hours=1)
    statuses = [stands("a.old", NOW - 3 * hour), stands("a.own", NOW - 3 * hour), stands("a.empty", None)]
    found = staleness_states(statuses, {"default": 2 * hour, "a.own": 4 * hour}, NOW)
    assert [(s.subject, s.raised) for s in found] == [("a.old", True), ("a.own", False)]
    assert "3.0 hours ago" in found[0].message
    assert staleness_states(statuses, {"a.own": 4 * hour}, NOW)[0].subject == "a.own"


def pipeline(*nodes):
    """Nodes in chains: each one awaits the node before it, up to a None."""
    made, last = [], "given"
    for node in nodes:
        if node is None:
            last = "given"
            continue
        space, name = node
        made.append(Node(lambda given: given, last, f"{space}.{name}", name=name, namespace=space))
        last = f"{space}.{name}"
    return Pipeline(made)


def test_only_a_table_of_which_every_node_ran_can_recover():
    whole = pipeline(("a.b", "ingest"), ("a.b", "merge"), None, ("a.c", "ingest"))
    part = pipeline(("a.b", "ingest"), None, ("a.c", "ingest"))
    assert whole_subjects(whole, {"__default__": whole}, {}) == {"a.b", "a.c"}
    assert whole_subjects(part, {"__default__": whole}, {}) == {"a.c"}
    assert whole_subjects(part, {}, {}) == {"a.b", "a.c"}


def test_a_table_that_waits_for_a_failed_one_does_not_recover():
    ran = pipeline(("a.b", "ingest"), ("a.derived", "ingest"), None, ("a.c", "ingest"))
    broken = UnreadableFileError(table="a.b", file="f", detail="short")
    assert whole_subjects(ran, {"__default__": ran}, {"a.b": broken}) == {"a.c"}
    assert unreached_subjects(ran, {"a.b": broken}) == {"a.derived"}


def test_what_needs_a_table_of_which_an_extract_was_refused_runs_and_recovers():
    ran = pipeline(("a.b", "ingest"), ("a.derived", "ingest"), None, ("a.c", "ingest"))
    refused = RefusedExtractsError(table="a.b", errors=[SnapshotEmptyError(table="a.b", extract="x.csv")])
    assert whole_subjects(ran, {"__default__": ran}, {"a.b": refused}) == {"a.derived", "a.c"}
    assert unreached_subjects(ran, {"a.b": refused}) == set()


def test_a_message_names_what_failed_and_the_commands():
    told = AlertState(kind="failure", subject="shop.item", raised=True, code="SNAPSHOT_EMPTY", message="m")
    message = Message(
        run_id="r1", env="local", alerts=[Alert(state=told, commands=["kedro lakehouse runs"])] * 4
    )
    assert message.subject.startswith("[lakehouse local] shop.item failing [SNAPSHOT_EMPTY]; ")
    assert message.subject.endswith(" and 1 more")
    assert "Run r1, environment local." in message.text
    assert "    kedro lakehouse runs\n" in message.text
    assert message.as_json()["alerts"][0]["commands"] == ["kedro lakehouse runs"]
