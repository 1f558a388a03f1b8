"""Commands on tables that Spark made: queries by Spark, and a table that is dropped and made anew."""

from __future__ import annotations

import datetime as dt
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import TemporaryProject, environment, write_parquet

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
TABLES = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": {"view": {"name": "dim_item"}}},
    "shop.other": {"source": "shop", "keys": ["id"]},
}
AT = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    project = TemporaryProject.make(tmp_path_factory.mktemp("commands") / "project", SOURCES, TABLES)
    for table in TABLES:
        rows = [{"id": n, "name": f"n{n}", "ts": AT, "seq": None} for n in (1, 2)] + [
            {"id": None, "name": "no key", "ts": AT, "seq": None}
        ]
        write_parquet(project.landing / table.replace(".", "/") / "LOAD00000001.parquet", rows, ROW)
    for name, table in TABLES.items():
        TABLES[name] = table | {"max_invalid_fraction": 0.5}
    project.declare(SOURCES, TABLES)
    project.run()
    return project


def test_spark_answers_from_tables_and_views(call: Callable[..., Any]) -> None:
    query = "select d.id, d.name, i.name as now from shop.dim_item d join lake.shop.item i on i.id = d.id"
    found = call("sql", f"{query} order by 1", "--engine", "spark", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == [{"id": n, "name": f"n{n}", "now": f"n{n}"} for n in (1, 2)]
    at = call("sql", "select committed_at from ops.batches limit 1", "--engine", "spark", "--json")
    assert json.loads(at.stdout)[0]["committed_at"].endswith("+00:00")
    cut = call("sql", "select id from shop.item", "--engine", "spark", "--limit", "1")
    assert "Only the first 1 rows" in cut.stderr


@pytest.mark.parametrize(
    "query",
    [
        "delete from shop.item",
        "insert into shop.item select * from shop.item",
        "with x as (select * from shop.item) insert into shop.item select * from x",
        "from shop.item insert into shop.item select *",
        "create table shop.more as select 1 as id",
        "drop table shop.item",
        "set spark.sql.shuffle.partitions = 1",
        "select `reflect`('java.lang.System', 'getenv')",
        "select * from (select transform(name) using 'cat' as (x string) from shop.item)",
        "select * from parquet.`/tmp`",
    ],
)
def test_spark_only_reads(call: Callable[..., Any], query: str) -> None:
    refused = call("sql", query, "--engine", "spark", "--json")
    assert refused.exit_code == 1, refused.output
    assert json.loads(refused.stderr)["error"]["code"] == "UNSUPPORTED"
    assert len(json.loads(call("sql", "from shop.item", "--json").stdout)) == 2


def test_a_dropped_table_is_gone_and_made_anew_by_the_next_run(
    project: TemporaryProject, call: Callable[..., Any]
) -> None:
    def stored_rows() -> dict[str, list[str]]:
        stored = ("shop.item", "shop.item_history", "shop.other")
        return {table: sorted(map(repr, project.rows(table))) for table in stored}

    before = stored_rows()
    dropped = call("drop", "shop.item", "--yes", "--json")
    assert dropped.exit_code == 0, dropped.output
    told = json.loads(dropped.stdout)
    assert told["dropped"] == {
        "shop.item_changes": 2, "shop.item_quarantine": 1, "shop.item": 2, "shop.item_history": 2,
    }  # fmt: skip
    assert (told["view"], told["ops"]) == ("shop.dim_item", {"batches": 3, "batch_ledger": 1})
    assert "ingests its landed files anew" in told["next"][0]

    catalog = project._project.catalog
    assert [t[1] for t in catalog.tables("shop")] == ["other", "other_changes", "other_quarantine"]
    assert not catalog.view_exists(TableName("shop", "dim_item"))
    left = [p for p in (project.path / "lakehouse/warehouse/shop").iterdir() if p.name.startswith("item")]
    assert left == []
    for table in ("batches", "batch_ledger"):
        rows = [row for row in project.ops(table) if table == "batches" or row["files"]]
        assert {row["table"] for row in rows} == {"shop.other"}
    marks = [r["epoch"] for r in project.ops("batch_ledger") if r["table"] == "shop.item"]
    assert marks == [1]  # of the drop: what was planned before it cannot come back
    assert "drop shop.item" in {row["pipeline"] for row in project.ops("runs")}
    assert json.loads(call("drop", "shop.item", "--yes", "--json").stdout)["dropped"] == {}

    project.run()
    assert {row["batch"] for row in project.ops("batches") if row["table"] == "shop.item"} == {1}
    assert stored_rows() == before
    assert catalog.view_exists(TableName("shop", "dim_item"))


@pytest.mark.parametrize("output", ["csv", "parquet"])
def test_spark_writes_what_it_answers_without_the_frameworks_columns(
    call: Callable[..., Any], tmp_path: Path, output: str
) -> None:
    target = tmp_path / f"out.{output}"
    query = "select *, map('a', 1) as m from shop.item_history order by id"
    if output == "csv":
        query = "select * from shop.item_history order by id"
    done = call("sql", query, "--engine", "spark", "--to", str(target), "--limit", "1")
    assert done.exit_code == 0, done.output
    assert "Hidden: _order_from" in done.stderr
    assert "Only the first 1 rows" in done.stderr
    if output == "parquet":
        (row,) = pq.read_table(target).to_pylist()
        assert (row["id"], row["m"]) == (1, [("a", 1)])
        assert not [name for name in row if name.startswith("_")]
    else:
        header, line = target.read_text(encoding="utf-8").splitlines()
        assert header.startswith('"id","name"')
        assert line.startswith('1,"n1"')


def test_spark_names_the_table_that_may_be_meant(refusal: Callable[..., Any]) -> None:
    assert "Did you mean 'shop.item'?" in refusal("sql", "from shop.itme", "--engine", "spark")["message"]


def test_as_many_keys_of_a_batch_are_shown_as_asked_for(call: Callable[..., Any]) -> None:
    told = call("changes", "shop.other", "--batch", "1", "--limit", "1")
    assert told.exit_code == 0, told.output
    assert "2 inserted" in told.stdout
    assert len(told.stdout.splitlines()) == 3
    assert "Only the first 1 rows are shown; --limit 0 prints all." in told.stderr
    whole = json.loads(call("changes", "shop.other", "--batch", "1", "--limit", "0", "--json").stdout)
    assert len(whole["keys"]) == 2


def test_a_run_that_changed_something_keeps_a_page_where_it_is_asked_for(project: TemporaryProject) -> None:
    def pages() -> list[Path]:
        return sorted(project.path.glob("data/08_reporting/run_report.html/*/run_report.html"))

    project.run()
    assert pages() == []  # nothing is made unless it is asked for
    project.write("monitoring", {"report": "ops.run_report"})
    row = {"Op": "I", "id": 7, "name": "n7", "ts": AT, "seq": "1"}
    write_parquet(
        project.landing / "shop/other/20260101-000001000.parquet", [row], {"Op": pa.string(), **ROW}
    )
    project.run()
    (page,) = pages()
    assert "1 inserted" in page.read_text(encoding="utf-8")
    project.run()
    assert pages() == [page]  # a run without news has none


def test_a_run_on_a_terminal_shows_how_far_it_is_and_no_line_of_a_commit(project: TemporaryProject) -> None:
    row = {"Op": "I", "id": 8, "name": "n8", "ts": AT, "seq": "2"}
    schema = {"Op": pa.string(), **ROW}
    write_parquet(project.landing / "shop/other/20260101-000002000.parquet", [row], schema)
    ours, theirs = pty.openpty()
    words = [str(Path(sys.executable).with_name("kedro")), "run"]
    given = environment() | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        words, cwd=project.path, env=given, stdin=theirs, stdout=theirs, stderr=theirs
    ) as run:
        os.close(theirs)
        told = b""
        with suppress(OSError):  # nobody writes to it any longer
            while part := os.read(ours, 65536):
                told += part
    os.close(ours)
    text = told.decode()
    assert run.returncode == 0, text
    assert "of 2 tables" in text
    assert "1 of 1 file" in text
    assert "about" in text  # what is left, by the batches of the runs before
    assert "batch 3" not in text
    assert "shop.other" in text.rpartition("Run ")[2]  # the summary stays
    (log,) = [
        p for p in (project.path / "lakehouse/logs").glob("*.jsonl") if "batch 3" in p.read_text("utf-8")
    ]
    assert "shop.other current batch 3: 1 inserted" in log.read_text("utf-8")
