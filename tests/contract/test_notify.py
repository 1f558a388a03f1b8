"""Who is told at the end of a run, once a crossing; a notifier that fails is told again, and fails no run."""

import datetime as dt
import logging

import pytest
from harness.servers import http_server, smtp_server

from kedro_lakehouse.errors import ConfigurationError, SnapshotEmptyError
from kedro_lakehouse.monitoring.notify import notify
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import ALERTS

pytestmark = pytest.mark.contract

ALL = {"shop.item", "shop.line"}
FAILED = TablesFailedError(
    tables={"shop.item": SnapshotEmptyError(table="shop.item", extract="x.csv")},
    retry="kedro run --namespaces=shop.item",
)


def quarantined(count):
    return CommitReport(
        table="shop.line", stage="ingestion", batch=7, batches=1, content_hash="x", run_id="r",
        committed_at="2026-11-21T00:00:00+00:00", counts={"quarantined": count},
    )  # fmt: skip


def tell(project, error=None, whole=frozenset(ALL)):
    notify(project, project.monitoring, error, whole)


def test_failure_and_recovery_are_told_once_each(open_project):
    with http_server() as posts:
        declared = {"notifiers": {"hook": {"type": "webhook", "url": posts.url}}}
        for error in (None, FAILED, FAILED, None, None):
            tell(open_project(declared), error)
    told = [[(a["subject"], a["state"], a["code"]) for a in body["alerts"]] for body in posts.bodies]
    assert told == [[("shop.item", "raised", "SNAPSHOT_EMPTY")], [("shop.item", "cleared", "")]]
    first = posts.bodies[0]
    assert first["alerts"][0]["commands"] == [
        "kedro lakehouse runs --limit 5",
        "kedro lakehouse tables",
        "kedro run --namespaces=shop.item",
    ]
    assert first["run_id"] in first["text"]


def test_a_run_that_says_nothing_new_writes_nothing(open_project):
    project = open_project({"notifiers": {"hook": {"type": "webhook", "url": "http://127.0.0.1:9/"}}})
    tell(project)
    assert project.catalog.find(TableName.ops(ALERTS)) is None


def test_a_part_of_a_tables_nodes_is_no_recovery(open_project):
    with http_server() as posts:
        declared = {"notifiers": {"hook": {"type": "webhook", "url": posts.url}}}
        tell(open_project(declared), FAILED)
        tell(open_project(declared), None, {"shop.line"})
    assert len(posts.bodies) == 1


def test_a_notifier_that_fails_is_warned_of_and_told_in_the_next_run(open_project, caplog):
    with http_server() as posts, smtp_server() as box:
        declared = {
            "notifiers": {
                "hook": {"type": "webhook", "url": f"{posts.url}/SECRET-PATH", "credentials": "chat"},
                "team": {
                    "type": "email", "host": box.host, "port": box.port, "security": "none",
                    "from": "l@x.org", "to": ["t@x.org"],
                },
            }
        }  # fmt: skip
        posts.status = 500
        with caplog.at_level(logging.DEBUG, logger="kedro_lakehouse"):
            tell(open_project(declared), FAILED)
        assert "'hook' (webhook) could not be reached, the next run tries again: HTTPError 500" in caplog.text
        assert "CANARY" not in caplog.text
        assert "SECRET-PATH" not in caplog.text
        posts.status = 200
        tell(open_project(declared), FAILED)
        tell(open_project(declared), FAILED)
    assert len(posts.bodies) == 2  # the one that it refused, and the one that it took
    assert len(box.mails) == 1  # the other notifier was told once


def test_missing_credentials_fail_no_run_and_are_named(open_project, caplog):
    with http_server() as posts:
        declared = {"notifiers": {"hook": {"type": "webhook", "url": posts.url, "credentials": "chatt"}}}
        tell(open_project(declared), FAILED)
    assert posts.bodies == []
    assert "Did you mean 'chat'?" in caplog.text


def test_secrets_are_in_no_text_of_the_project(open_project):
    project = open_project({"notifiers": {"hook": {"type": "webhook", "credentials": "chat"}}})
    assert "CANARY" not in repr(project) + str(vars(project)) + str(project.monitoring.model_dump())
    assert project.credentials("chat") == {"token": "CANARY"}
    with pytest.raises(ConfigurationError) as caught:
        project.credentials("nobody")
    assert "CANARY" not in str(caught.value)


def test_stale_tables_are_told_once_and_again_when_fresh(open_project, commit):
    now = dt.datetime.now(dt.UTC)
    with http_server() as posts:
        hook = {"type": "webhook", "url": posts.url}
        declared = {"notifiers": {"hook": hook}, "stale_after": {"default": "2h", "shop.line": "9h"}}
        project = open_project(declared)
        for name in sorted(ALL):
            commit(project, name, "current", now - dt.timedelta(hours=3))
        tell(project)
        tell(open_project(declared))
        tell(open_project(declared | {"stale_after": {"default": "4h"}}))
    told = [[(a["kind"], a["subject"], a["state"]) for a in body["alerts"]] for body in posts.bodies]
    assert told == [[("staleness", "shop.item", "raised")], [("staleness", "shop.item", "cleared")]]


def test_quarantined_events_are_told_with_the_commands_to_their_raw_records(open_project, commit):
    with http_server() as posts:
        project = open_project({"notifiers": {"hook": {"type": "webhook", "url": posts.url}}})
        commit(project, "shop.line", "quarantine", dt.datetime.now(dt.UTC), rows=2)
        project.reports.append(quarantined(2))
        tell(project)
    (alert,) = posts.bodies[0]["alerts"]
    assert (alert["kind"], alert["code"], alert["batch"]) == ("quarantine", "QUARANTINED", 7)
    assert alert["commands"] == [
        "kedro lakehouse runs --limit 5",
        "kedro lakehouse quarantine shop.line --batch 7",
        "kedro lakehouse quarantine shop.line --batch 7 --raw",
    ]


def test_kinds_that_a_notifier_does_not_want_are_not_told(open_project):
    with http_server() as posts:
        hook = {"type": "webhook", "url": posts.url, "kinds": ["failure"]}
        for error, events in ((FAILED, 2), (None, 0), (FAILED, 2)):
            project = open_project({"notifiers": {"hook": hook}})
            project.reports.append(quarantined(events))
            tell(project, error)
    # The recovery between the two failures was noted, though nobody wanted to hear of it.
    assert [[a["kind"] for a in body["alerts"]] for body in posts.bodies] == [["failure"], ["failure"]]
