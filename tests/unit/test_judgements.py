"""What is recorded of judgements, decisions and freshness; no JVM, a small lake of its own."""

import datetime as dt

import pyarrow as pa
import pytest

from kedro_lakehouse.commits.blocking import open_refusals
from kedro_lakehouse.commits.published import ValidationPlan, validate
from kedro_lakehouse.config.expectations import ExpectationConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.datasets import (
    FreshnessDataset,
    LastCommitAgeDataset,
    PublishedDataset,
    QualityDataset,
)
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.exclude import blocked_batches
from kedro_lakehouse.ops.decisions import WITHDRAW, ExcludedEvent
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.ops.store import QUALITY_RESULTS
from kedro_lakehouse.pipelines.quality import validate_freshness
from kedro_lakehouse.project import Project, _Active, activate
from kedro_lakehouse.quality.results import of_rows

pytestmark = pytest.mark.unit

NAME = TableName.parse("shop.item")
UNIQUE = {"type": "expect_column_values_to_be_unique", "column": "email"}
FRESH = {"type": "expect_table_to_be_fresh", "max_age": "1 days"}
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(_Active, "project", None)
    prefix = "spark.sql.catalog.lake."
    conf = {
        f"{prefix}type": "jdbc", f"{prefix}uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
        f"{prefix}warehouse": f"{tmp_path}/warehouse",
    }  # fmt: skip
    tables = {"shop.item": {"source": "shop", "keys": ["id"], "expectations": [UNIQUE, FRESH]}}
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    return activate(Project(env="local", declarations=declared, spark_conf=conf, lakehouse=str(tmp_path)))


def commit(project, batch, at):
    """Publish the current table, as far as its metadata tells."""
    report = CommitReport(
        table="shop.item", stage="current", batch=batch, batches=1, content_hash="x", run_id="r",
        committed_at=at.isoformat(),
    )  # fmt: skip
    catalog = project.catalog
    catalog.ensure_namespace("shop")
    table = catalog.find(NAME) or catalog.catalog.create_table(
        NAME.identifier, schema=pa.schema([("id", pa.int64())])
    )
    with table.transaction() as transaction:
        transaction.set_properties({BOOKMARK: report.to_property()})


def judge(project, snapshots, unexpected=0):
    result = of_rows(ExpectationConfig.model_validate(UNIQUE), 10, unexpected)
    titles = frozenset({result.expectation.title})
    plan = ValidationPlan(snapshots=snapshots, batch=1, titles=titles, answer=lambda: [result])
    validate(project, "shop.item", plan)
    return titles


def refuse(project, batch, at, **facts):
    row = {
        "suite": "shop.item", "table": "shop.item", "stage": "current", "batch": batch, "severity": "block",
        "expectation": "e", "success": False, "unexpected": 2, "judged_at": at,
    }  # fmt: skip
    project.ops.append(QUALITY_RESULTS, [row | facts])


def again(project):
    """The same lake as the next run finds it."""
    return activate(
        Project(env="local", declarations=project.declarations, spark_conf=project.spark_conf,
                lakehouse=project.lakehouse)
    )  # fmt: skip


def test_a_snapshot_is_judged_once_unless_its_expectations_change(project):
    titles = judge(project, "1")
    for run in (project, again(project)):
        assert run.validations.is_validated("shop.item", "1", titles)
        assert not run.validations.is_validated("shop.item", "2", titles)
        assert not run.validations.is_validated("shop.item", "1", titles | {"another"})
        assert not run.validations.is_validated("shop.other", "1", titles)


def test_the_last_judgement_counts_and_refusals_do_not(project):
    titles = judge(project, "1")
    judge(project, "2", unexpected=3)
    refuse(project, 3, NOW + dt.timedelta(hours=1), snapshots="9")
    assert again(project).validations.is_validated("shop.item", "2", titles)
    rows = QualityDataset(table="shop.item").load()
    assert [(r["success"], r["unexpected"], r["snapshots"]) for r in rows] == [
        (True, 0, "1"), (False, 3, "2"), (False, 2, "9"),
    ]  # fmt: skip


def test_a_refusal_is_open_until_the_table_is_committed(project):
    refuse(project, 1, NOW)
    assert blocked_batches(project.bind(NAME)) == [1]  # the first batch of a table that holds nothing yet
    commit(project, 2, NOW + dt.timedelta(minutes=1))
    assert open_refusals(project.bind(NAME)) == []
    refuse(project, 3, NOW + dt.timedelta(minutes=2))
    assert [r["batch"] for r in open_refusals(project.bind(NAME))] == [3]


def withdraw(project, batch, at, *events):
    facts = {"decision": "d", "action": WITHDRAW, "table": "shop.item", "batch": batch, "expectation": "e"}
    rows = [{"file": w.file, "row": w.row, "digest": w.digest, "decided_at": at} for w in events]
    project.decisions.record([facts | row for row in rows])


def test_withdrawn_events_are_known_at_once_and_no_longer_block(project):
    events = [ExcludedEvent("a.csv", 1, -7), ExcludedEvent("b.csv", None, None)]
    assert project.decisions.excluded(NAME) == []
    refuse(project, 2, NOW)
    withdraw(project, 2, NOW + dt.timedelta(minutes=1), *events)
    assert (
        set(project.decisions.excluded(NAME)) == set(again(project).decisions.excluded(NAME)) == set(events)
    )
    assert project.decisions.excluded(TableName.parse("shop.other")) == []
    assert blocked_batches(project.bind(NAME)) == []


def test_freshness_is_told_where_it_changes(project):
    fresh = (ExpectationConfig.model_validate(FRESH),)
    assert LastCommitAgeDataset(table="shop.item").load() is None
    assert validate_freshness(PublishedDataset(table="shop.item").load(), expectations=fresh) == []
    dataset, states = FreshnessDataset(table="shop.item"), []
    for age in (dt.timedelta(hours=1), dt.timedelta(days=2), dt.timedelta(days=3), dt.timedelta()):
        commit(project, 1, dt.datetime.now(dt.UTC) - age)
        dataset.save(validate_freshness(PublishedDataset(table="shop.item").load(), expectations=fresh))
        states.append([r["state"] for r in sorted(project.ops.read("alerts"), key=lambda r: r["told_at"])])
    assert states == [[], ["stale"], ["stale"], ["stale", "fresh"]]
