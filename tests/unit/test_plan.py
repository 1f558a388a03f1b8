"""`kedro lakehouse plan` before anything has run: what waits, what will fail, and what it is told like."""

import json
import sys

import pyarrow as pa
import pytest
from click.testing import CliRunner
from harness.kinesis import KinesisDouble
from harness.project import write_parquet, write_text

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.ingestion.landing import has_news, waiting_for
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project, _Active
from kedro_lakehouse.sources import kinesis

pytestmark = pytest.mark.unit

FILES = {
    "pyproject.toml": """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
""",
    "conf/base/globals.yml": "lakehouse: ROOT/lake\nlanding: ROOT/landing\n",
    "conf/base/spark.yml": """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:${globals:lakehouse}/catalog.db
spark.sql.catalog.lake.warehouse: ${globals:lakehouse}/warehouse
""",
    "conf/base/sources.yml": """
shop: {type: dms, path: "${globals:landing}/shop", max_files: 2}
erp:
  type: extract
  path: ${globals:landing}/erp
  file_format: csv
  extract_time: {from: name, pattern: "%Y%m%d"}
db:
  type: sql
  dialect: postgresql
  connection: {host: localhost, database: shop}
  path: ${globals:landing}/db
clicks: {type: kinesis, region: eu-west-1, decoder: dms-json}
""",
    "conf/base/tables.yml": """
shop.item: {source: shop, keys: [id]}
shop.line: {source: shop, keys: [nr]}
shop.note: {source: shop, keys: [id], enrich: [{table: shop.item, on: {id: id}, columns: {name: item}}]}
shop.hint: {source: shop, keys: [id], enrich: [{table: shop.line, on: {id: nr}, columns: {name: line}}]}
shop.sum: {derive: {inputs: {i: shop.item}, sql: SELECT * FROM i}, keys: [id]}
erp.price: {source: erp, keys: [id]}
erp.lost: {source: erp, keys: [id]}
db.customer: {source: db, keys: [id]}
web.click: {source: clicks, entity: clicks, keys: [id]}
""",
    "conf/local/.gitkeep": "",
    "src/.gitkeep": "",
}
ROW = {"Op": pa.string(), "id": pa.int64(), "name": pa.string()}


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name, text in FILES.items():
        write_text(tmp_path / name, text.replace("ROOT", str(tmp_path)))
    for table in ("item", "line", "note", "hint"):
        for n in range(3):
            row = {"Op": "I", "id": n, "name": "secret"}
            write_parquet(tmp_path / f"landing/shop/{table}/2026010{n}.parquet", [row], ROW)
    write_text(tmp_path / "landing/erp/price/20260101.csv", "id,price\n")
    write_text(tmp_path / "landing/erp/price/20260102.csv", 'id,price\n1,"a\nb"\n')
    feed = KinesisDouble()
    feed.put([b"a", b"b", b"c"])
    monkeypatch.setattr(kinesis, "client", lambda *_, **__: feed)
    monkeypatch.setattr(kinesis, "_now", lambda: int(feed.now.timestamp() * 1000))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("kedro_lakehouse.environment.get_session", lambda *_: pytest.fail("Spark started"))
    return tmp_path


def plan(*words):
    done = CliRunner().invoke(lakehouse, ["plan", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def tables(root):
    found = {one["table"]: one for one in json.loads(plan("--output", "json"))["tables"]}
    assert not (root / "lake").exists()
    return found


def test_files_come_in_batches_as_the_limits_cut_them(tables):
    one = tables["shop.item"]
    assert [(b["number"], len(b["files"])) for b in one["batches"]] == [(1, 2), (2, 1)]
    assert (one["becomes"], one["rows"], one["new_columns"]) == ("batches", 3, {})
    assert one["dependents"] == ["shop.note", "shop.sum"]


def test_what_follows_from_other_tables_is_foreseen(tables):
    assert (tables["shop.sum"]["becomes"], tables["shop.sum"]["because"]) == ("computed", ["shop.item"])
    assert (tables["shop.note"]["becomes"], tables["shop.note"]["waits_for"]) == ("batches", [])
    assert (tables["shop.hint"]["becomes"], tables["shop.hint"]["waits_for"]) == ("waits", ["shop.line"])
    assert tables["shop.hint"]["batches"] == []


def test_the_error_of_the_run_is_told_before_it(tables):
    assert (tables["shop.line"]["becomes"], tables["shop.line"]["error"]["code"]) == (
        "fails",
        "MISSING_COLUMN",
    )
    assert tables["erp.lost"]["error"]["code"] == "SOURCE_NOT_FOUND"


def test_an_empty_extract_is_refused_and_lines_are_an_upper_bound_of_rows(tables):
    one = tables["erp.price"]
    assert [(r["file"], r["code"]) for r in one["refused"]] == [("20260101.csv", "SNAPSHOT_EMPTY")]
    assert [b["files"] for b in one["batches"]] == [["20260102.csv"]]
    assert one["rows"] == 2


def test_a_pull_is_due_and_nobody_is_asked(tables):
    assert tables["db.customer"]["becomes"] == "pull"
    assert tables["db.customer"]["pull"] == {"due": True, "due_at": None, "last": None}


def test_a_stream_waits_as_the_loop_and_the_console_say(tables, root):
    table = Project.load(str(root / "conf"), None).bind(TableName("web", "click"))
    waiting = waiting_for(table)
    assert has_news(table)
    one = tables["web.click"]
    assert (one["becomes"], one["bytes"], one["records"]) == ("batches", waiting.bytes, waiting.records)


def test_people_read_a_table_and_a_line_for_each_thing_worth_saying(root):
    told = plan("--namespaces", "shop,erp.price")
    assert "shop.item  batch 1 to 2" in told
    assert "shop.sum   batch 1, computed" in told
    assert "shop.hint  waits" in told
    assert "shop.hint: needs shop.line, which holds nothing yet" in told
    assert "erp.price: 20260101.csv would be refused, for it is empty [SNAPSHOT_EMPTY]" in told
    assert told.splitlines()[-1].startswith("The next run changes 4 of 6 tables, by ")
    assert "secret" not in told
    assert "db.customer" not in told


def test_a_misspelled_namespace_is_refused(root):
    done = CliRunner().invoke(lakehouse, ["plan", "--namespaces", "shop.itm"])
    assert done.exit_code == 1
    assert "Did you mean 'shop.item'?" in done.output
