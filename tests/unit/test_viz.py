"""What kedro-viz is given of a table: previews, pictures, figures; no JVM, one small table."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
import yaml

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.datasets import ChangesDataset, TableDataset
from kedro_lakehouse.datasets.viz import write_viz_stats
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.pipelines.rules import rules
from kedro_lakehouse.project import Project, _Active

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")
ROWS = pa.table(
    {
        "id": pa.array([2**60], pa.int64()),
        "Email": ["a@example.com"],
        "city": ["Oslo"],
        "price": pa.array([Decimal("1.10")], pa.decimal128(30, 2)),
        "share": [float("nan")],
        "seen": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC")),
        "_order": pa.array([{"seq": 1}], pa.struct({"seq": pa.int64()})),
    }
)
COMMIT = CommitReport(
    table="shop.item", stage="current", batch=7, batches=1, content_hash="", run_id="r",
    committed_at="2026-01-02T03:04:05.678+00:00",
)  # fmt: skip


def project_of(tmp_path, **keys):
    lake = "spark.sql.catalog.lake"
    conf = {
        f"{lake}.type": "jdbc",
        f"{lake}.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
        f"{lake}.warehouse": f"{tmp_path}/warehouse",
    }
    tables = {"shop.item": {"source": "shop", "keys": ["id"]} | keys}
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    return Project(env="base", declarations=declared, spark_conf=conf, lakehouse=str(tmp_path))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A published table of one row; its e-mail and city are personal, the city is public."""
    made = project_of(tmp_path, personal=["email", "city"], public=["CITY"], history=True)
    made.catalog.ensure_namespace("shop")
    table = made.catalog.catalog.create_table(
        ITEM.identifier, schema=ROWS.schema, properties={BOOKMARK: COMMIT.to_property()}
    )
    table.append(ROWS)
    monkeypatch.setattr(_Active, "project", made)
    return made


def test_a_preview_holds_what_json_holds_and_no_personal_value(project):
    shown = TableDataset(table="shop.item", kind="current").preview()
    assert shown["columns"] == ["id", "Email", "city", "price", "share", "seen"]
    assert shown["data"] == [
        [str(2**60), "(personal)", "Oslo", "1.10", "nan", "2026-01-01T00:00:00+00:00"]
    ]  # fmt: skip


def test_a_table_that_is_not_there_has_an_empty_preview(project):
    for dataset in (TableDataset(table="shop.item", kind="history"), ChangesDataset(table="shop.item")):
        assert dataset.preview() == {"index": [], "columns": [], "data": []}


def test_the_rules_name_rows_batch_and_time_of_the_last_commit(project):
    table = project.table(ITEM)
    assert rules(ITEM, table, "current").content.startswith(
        "shop.item: 1 rows, batch 7, 2026-01-02 03:04:05 UTC\n\n"
    )
    assert rules(ITEM, table, "history").content.startswith("shop.item_history: nothing yet\n\n")


@pytest.mark.parametrize(
    "keys",
    [
        {"order_by": ["ts"], "on_tie": "fail"},
        {"ignore_null": True},
        {"history": {"track": {"exclude": ["seen"]}}},
        {"max_invalid_fraction": 0.01, "checks": {"fits": "true"}},
        {"keys": [], "write": "append"},
        {"keys": ['"]; click x "javascript:alert(1)"', "<img src=x>", "a\nb"]},
    ],
)
def test_the_rules_are_the_declaration(tmp_path, monkeypatch, keys):
    project = project_of(tmp_path, **keys)
    monkeypatch.setattr(_Active, "project", project)
    declared = yaml.safe_load(rules(ITEM, project.table(ITEM), "changes").content.partition("\n\n")[2])
    assert project_of(tmp_path, **declared).table(ITEM) == project.table(ITEM)
    assert keys.keys() <= declared.keys()


def test_figures_are_added_to_those_of_kedro_viz(project, tmp_path):
    write_viz_stats(project, tmp_path)
    assert not (tmp_path / ".viz").exists()
    file = tmp_path / ".viz/stats.json"
    file.parent.mkdir()
    file.write_text('{"mine": {"rows": 3}}')
    write_viz_stats(project, tmp_path)
    found = json.loads(file.read_text())
    assert found.pop("mine") == {"rows": 3}
    assert list(found) == ["shop.item.current"]
    assert (found["shop.item.current"]["rows"], found["shop.item.current"]["columns"]) == (1, 7)
    assert found["shop.item.current"]["file_size"] > 0
