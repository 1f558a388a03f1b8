"""The events of a run: each start with its end, children with their parents; a server that fails."""

import json
import logging
import subprocess
import sys

import pyarrow as pa
import pytest
from harness.project import ROOT
from harness.servers import http_server
from kedro.pipeline import Node

from kedro_lakehouse.errors import SnapshotEmptyError, UnsupportedError
from kedro_lakehouse.lineage.emitter import Emitter, transport_of
from kedro_lakehouse.lineage.hooks import LineageHooks
from kedro_lakehouse.lineage.run import LineageRun
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.project import activate

pytestmark = pytest.mark.contract


def batches(landing):
    """As ingestion: outputs come in parts."""
    yield landing, landing


def one(*given):
    return given[0]


INGEST = Node(
    batches, "shop.item.landing", ["shop.item.quarantine", "shop.item.changes"], name="ingest",
    namespace="shop.item",
)  # fmt: skip
MERGE = Node(
    one, ["shop.item.pending_current", "shop.item.changes"], "shop.item.current", name="merge",
    namespace="shop.item",
)  # fmt: skip
LINE = Node(one, "shop.line.landing", "shop.line.changes", name="ingest", namespace="shop.line")
ERROR = SnapshotEmptyError(table="shop.item", extract="x.csv")


def report(stage, batch, **counts):
    return CommitReport(
        table="shop.item", stage=stage, batch=batch, batches=1, content_hash="x", run_id="r",
        committed_at="2026-11-21T00:00:00+00:00", counts=counts,
    )  # fmt: skip


@pytest.fixture
def project(open_project, tmp_path):
    """A project that tells its lineage to a file, with one table that is there."""
    made = open_project({"lineage": {"file": str(tmp_path / "lineage.jsonl"), "namespace": "tests"}})
    made.catalog.ensure_namespace("shop")
    made.catalog.catalog.create_table("shop.item_changes", schema=pa.schema([("id", pa.int64())]))
    made.source_columns[TableName("shop", "item")] = ("Op", "id")
    return made


def run_of(project):
    emitter = Emitter(transport_of(project.monitoring.lineage, project.credentials))
    return LineageRun(project, emitter, "tests", "__default__")


def save(run, project, node, dataset, *made):
    run.save_started(node, dataset)
    project.reports.extend(made)
    run.saved(node, dataset)


def events(project):
    with open(project.monitoring.lineage.file, encoding="utf-8") as lines:  # noqa: PTH123
        return [json.loads(line) for line in lines]


def short(found):
    return [(e["eventType"], e["job"]["name"].removeprefix("__default__.")) for e in found]


def test_a_node_of_batches_ends_when_another_takes_what_it_made(project):
    run = run_of(project)
    run.node_started(INGEST)
    for batch in (1, 2):
        save(run, project, INGEST, "shop.item.quarantine")
        save(
            run,
            project,
            INGEST,
            "shop.item.changes",
            report("ingestion", batch, applied=3, quarantined=batch - 1),
        )
    run.node_started(MERGE)
    run.node_started(MERGE)
    save(run, project, MERGE, "shop.item.current", report("current", 2, inserted=2, updated=1, deleted=5))
    run.finish(None)
    found = events(project)
    changes, aside, current = (
        "shop.item.ingest.changes",
        "shop.item.ingest.quarantine",
        "shop.item.merge.current",
    )
    assert short(found) == [
        ("START", "__default__"), ("START", "shop.item.ingest"),
        ("START", changes), ("COMPLETE", changes),
        ("START", changes), ("COMPLETE", changes), ("START", aside), ("COMPLETE", aside),
        ("COMPLETE", "shop.item.ingest"), ("START", "shop.item.merge"),
        ("START", current), ("COMPLETE", current), ("COMPLETE", "shop.item.merge"),
        ("COMPLETE", "__default__"),
    ]  # fmt: skip
    rows = [
        e["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"]
        for e in found
        if e["eventType"] == "COMPLETE" and e["job"]["name"].endswith((changes, aside, current))
    ]
    assert rows == [3, 3, 1, 3]


def test_every_run_has_one_start_one_end_and_its_parent(project):
    run = run_of(project)
    run.node_started(LINE)
    save(run, project, LINE, "shop.line.changes")
    run.node_started(INGEST)
    save(run, project, INGEST, "shop.item.changes", report("ingestion", 1, applied=1))
    run.finish(None)
    found = events(project)
    by_run = {}
    for event in found:
        by_run.setdefault(event["run"]["runId"], []).append(event)
    assert all([e["eventType"] for e in of_run] == ["START", "COMPLETE"] for of_run in by_run.values())
    assert all(of_run[0]["eventTime"] <= of_run[1]["eventTime"] for of_run in by_run.values())
    kinds = {e["job"]["name"]: e["job"]["facets"]["jobType"] for e in found}
    assert {k["jobType"] for k in kinds.values()} == {"PIPELINE", "NODE", "COMMIT"}
    assert {(k["processingType"], k["integration"]) for k in kinds.values()} == {("BATCH", "KEDRO")}
    for event in found[1:-1]:
        parent = event["run"]["facets"]["parent"]
        assert parent["run"]["runId"] in by_run
        assert parent["root"]["run"]["runId"] == found[0]["run"]["runId"]
    assert "parent" not in found[0]["run"]["facets"]
    assert {"key": "run_id", "value": project.run_id, "source": "KEDRO"} in found[0]["run"]["facets"]["tags"][
        "tags"
    ]


def test_a_table_is_named_by_its_place_and_by_its_name(project):
    run = run_of(project)
    run.node_started(INGEST)
    save(run, project, INGEST, "shop.item.changes", report("ingestion", 1, applied=1))
    run.finish(None)
    commit = next(e for e in events(project) if e["job"]["name"].endswith(".changes"))
    (landing,), (changes,) = commit["inputs"], commit["outputs"]
    folder = project.bind(TableName("shop", "item")).source_config.path
    assert (landing["namespace"], landing["name"]) == ("file", f"{folder}/item")
    warehouse = project.spark_conf["spark.sql.catalog.lake.warehouse"]
    assert (changes["namespace"], changes["name"]) == ("file", f"{warehouse}/shop/item_changes")
    (link,) = changes["facets"]["symlinks"]["identifiers"]
    assert link == {"namespace": f"file://{warehouse}", "name": "shop.item_changes", "type": "TABLE"}
    assert changes["facets"]["schema"]["fields"][0]["name"] == "id"
    (made_of,) = changes["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert (made_of["name"], made_of["field"]) == (landing["name"], "id")


def test_what_failed_ends_with_its_error_and_the_rest_is_complete(project):
    run = run_of(project)
    run.node_started(LINE)
    save(run, project, LINE, "shop.line.changes")
    run.node_started(INGEST)
    run.save_started(INGEST, "shop.item.changes")
    run.finish(TablesFailedError(tables={"shop.item": ERROR}, retry="kedro run"))
    found = events(project)
    assert short(found)[-4:] == [
        ("START", "shop.item.ingest.changes"),
        ("FAIL", "shop.item.ingest.changes"),
        ("FAIL", "shop.item.ingest"),
        ("FAIL", "__default__"),
    ]
    assert ("COMPLETE", "shop.line.ingest") in short(found)
    assert found[-2]["run"]["facets"]["errorMessage"]["message"] == str(ERROR)


def test_a_server_gets_each_event_with_the_key(open_project):
    with http_server() as posts:
        project = open_project({"lineage": {"url": posts.url, "credentials": "lineage"}})
        run_of(project).finish(None)
    assert posts.paths == ["/api/v1/lineage"] * 2
    assert [body["eventType"] for body in posts.bodies] == ["START", "COMPLETE"]
    assert {h["Authorization"] for h in posts.headers} == {"Bearer CANARY-KEY"}


def test_a_server_that_fails_is_warned_of_once_and_left_alone(open_project, caplog):
    with http_server() as posts:
        posts.status = 403
        project = open_project({"lineage": {"url": posts.url, "credentials": "lineage"}})
        run = run_of(project)
        run.node_started(INGEST)
        with caplog.at_level(logging.DEBUG, logger="kedro_lakehouse"):
            run.finish(None)
    assert len(posts.bodies) == 1
    assert caplog.text.count("Lineage is not sent for the rest of this run") == 1
    assert "CANARY" not in caplog.text


def test_hooks_do_nothing_where_no_lineage_is_declared(open_project):
    activate(open_project({"metrics": {"path": "/nowhere/x.prom"}}))
    hooks = LineageHooks()
    hooks.before_pipeline_run(run_params={})
    hooks.before_dataset_loaded(node=INGEST)
    hooks.before_dataset_saved(dataset_name="shop.item.changes", node=INGEST)
    hooks.after_dataset_saved(dataset_name="shop.item.changes", node=INGEST)
    hooks.after_pipeline_run()


def test_a_missing_client_is_told_with_its_remedy(project, monkeypatch):
    activate(project)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)  # as if it could not be imported
    with pytest.raises(UnsupportedError, match=r"kedro-lakehouse\[lineage\]"):
        LineageHooks().before_pipeline_run(run_params={})


def test_what_is_not_declared_is_not_imported():
    looked = """
import sys
from kedro_lakehouse.hooks import hooks
from kedro_lakehouse.lineage.hooks import hooks as lineage
from kedro_lakehouse.project import found_project
found_project()
lineage.before_pipeline_run(run_params={})
told = ("openlineage", "kedro_lakehouse.notifiers", "kedro_lakehouse.config.monitoring", "boto3", "smtplib",
        "kedro_lakehouse.lineage.run", "kedro_lakehouse.monitoring.metrics",
        "kedro_lakehouse.monitoring.alerts", "kedro_lakehouse.monitoring.notify")
print([name for name in told if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", looked], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_hooks_tell_a_run(project):
    activate(project)
    hooks = LineageHooks()
    hooks.before_pipeline_run(run_params={"pipeline_names": ["ingestion"]})
    hooks.before_dataset_loaded(node=LINE)
    hooks.before_dataset_saved(dataset_name="shop.line.changes", node=LINE)
    hooks.after_dataset_saved(dataset_name="shop.line.changes", node=LINE)
    hooks.after_pipeline_run()
    hooks.after_pipeline_run()
    assert short(events(project)) == [
        ("START", "ingestion"), ("START", "ingestion.shop.line.ingest"),
        ("COMPLETE", "ingestion.shop.line.ingest"), ("COMPLETE", "ingestion"),
    ]  # fmt: skip
