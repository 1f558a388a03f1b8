"""Outputs of ``kedro lakehouse sql``: what each one shows, what it hides, and what a role sees of it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import click
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from harness.granted import ONE, granted_project

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.cli.sql_output import OUTPUTS, hidden_columns

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.unit

HISTORY = "select * from shop.customer_history order by id"
OWN = ("_surrogate_key", "_tombstone")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return granted_project(tmp_path_factory.mktemp("lake"), ONE)


@pytest.fixture(autouse=True)
def opened(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sql", "options"):
        monkeypatch.setattr(f"kedro_lakehouse.cli.{module}.open_project", lambda: lake)


def sql(*words: str) -> Result:
    return CliRunner().invoke(lakehouse, ["sql", *words])


def rows_of(done: Result, output: str) -> list[dict[str, Any]]:
    """The rows of an answer, with values as text."""
    assert done.exit_code == 0, done.stderr
    if output == "json":
        rows = json.loads(done.stdout)
    elif output == "csv":
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
    elif output == "parquet":
        rows = pq.read_table(io.BytesIO(done.stdout_bytes)).to_pylist()
    elif output == "vertical":
        parts = done.stdout.split("-[ row ")[1:]
        rows = [dict(line.split(None, 1) for line in part.splitlines()[1:]) for part in parts]
    else:
        names, *lines = done.stdout.splitlines()
        rows = [dict(zip(names.split(), line.split(), strict=False)) for line in lines]
    return [{name: str(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_has_the_same_rows_and_hides_the_frameworks_columns(output: str) -> None:
    done = sql(HISTORY, "--output", output)
    rows = rows_of(done, output)
    assert [row["id"] for row in rows] == ["1111", "1112", "2000", "2001"]
    assert {"email", "is_current"} <= set(rows[0])
    assert not set(OWN) & set(rows[0])
    assert f"Hidden: {OWN[0]}, {OWN[1]}; --all-columns shows them" in done.stderr


@pytest.mark.parametrize("output", OUTPUTS)
def test_what_is_asked_for_is_shown(output: str) -> None:
    query = (
        "select id, is_current, _tombstone, * exclude (id, is_current, _tombstone) from shop.customer_history"
    )
    named = sql(f"{query} where _surrogate_key > 0", "--output", output)
    assert set(OWN) <= set(rows_of(named, output)[0])
    whole = sql("select id, is_current, * from shop.customer_history", "--all-columns", "--output", output)
    assert set(OWN) <= set(rows_of(whole, output)[0])
    assert "Hidden" not in named.stderr + whole.stderr


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_shows_a_role_what_it_may_not_see(output: str) -> None:
    for table in ("shop.customer", "shop.customer_history", "shop.dim_customer"):
        done = sql(f"from {table}", "--as", "analyst", "--output", output, "--all-columns")
        assert done.exit_code == 0, done.stderr
        shown = str(rows_of(done, output)) + done.stderr
        assert not [word for word in ONE.canaries if word in shown], (table, shown)
    for query in ("select email from shop.customer", "from shop.secret", "from ops.runs"):
        done = sql(query, "--as", "analyst", "--output", output)
        assert done.exit_code == 1
        assert done.stdout_bytes == b""


def test_a_key_that_begins_with_an_underscore_is_no_framework_column() -> None:
    assert hidden_columns(["_id", "name", "_batch"], "from shop.doc") == ["_batch"]
    assert hidden_columns(["id", "_batch"], "select columns('^_|id') from shop.doc") == []
    assert hidden_columns(["_batch", "_raw"], "from shop.doc_quarantine") == []


def test_csv_and_parquet_are_whole_and_others_are_cut() -> None:
    many = "select range as n from range(250)"
    assert len(rows_of(sql(many, "-o", "csv"), "csv")) == 250
    assert len(rows_of(sql(many, "-o", "json"), "json")) == 100
    cut = sql(many, "-o", "parquet", "--limit", "3")
    assert len(rows_of(cut, "parquet")) == 3
    assert "Only the first 3 rows" in cut.stderr
    assert "Only" not in sql(many, "-o", "csv", "--limit", "250").stderr


def test_a_file_is_written_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    assert sql("select id from shop.customer order by id", "--to", str(target)).exit_code == 0
    assert pq.read_table(target)["id"].to_pylist() == [1111, 1112, 2000, 2001]
    assert target.stat().st_mode & 0o077 == 0
    again = sql("select 1 as one", "--to", str(target))
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
    failed = sql("select cast(name as int) from shop.customer", "--to", str(tmp_path / "failed.csv"))
    assert failed.exit_code == 1
    assert ONE.word not in failed.output
    assert not (tmp_path / "failed.csv").exists()
    named = sql("select 1 as one", "--to", str(tmp_path / "one.txt"))
    assert "--to writes csv or parquet" in named.stderr


def test_errors_are_json_where_the_output_is() -> None:
    for words in (("--output", "json"), ("--output=json",), ("-o", "json"), ("-ojson",), ("--json",)):
        assert json.loads(sql("from shop.custmer", *words).stderr)["error"]["code"] == "QUERY"
    assert "contradict" in sql("select 1", "--json", "-o", "csv").stderr


def test_tables_and_namespaces_are_shown_as_they_are_there() -> None:
    shown = {row["table"]: row for row in json.loads(sql("show tables", "--json").stdout)}
    assert (shown["shop.customer"]["what"], shown["shop.customer"]["rows"]) == ("rows as they are now", 4)
    assert shown["shop.dim_customer"]["what"] == "view of a history"
    assert shown["ops.runs"]["what"] == "the project's own"
    assert "shop.secret_history" not in shown  # declared, and not there yet
    assert rows_of(sql("show namespaces", "-o", "csv"), "csv") == [
        {"namespace": "hr", "tables": "1"},
        {"namespace": "ops", "tables": "1"},
        {"namespace": "shop", "tables": "7"},
    ]
    one = json.loads(sql("SHOW TABLES FROM hr;", "-o", "json").stdout)
    assert [row["table"] for row in one] == ["hr.person"]
    assert rows_of(sql("show tables in nowhere", "-o", "parquet"), "parquet") == []
    assert sql("show tables", "--as-of", "2026-01-01").exit_code == 2


def test_a_role_is_shown_the_tables_that_it_sees_without_numbers_of_rows() -> None:
    shown = json.loads(sql("show tables", "--as", "analyst", "--json").stdout)
    assert [row["table"] for row in shown] == [
        "shop.customer", "shop.customer_history", "shop.dim_customer", "shop.staff",
    ]  # fmt: skip
    assert {tuple(row) for row in shown} == {("table", "what", "format")}
    assert json.loads(sql("show namespaces", "--as", "support", "--json").stdout) == [
        {"namespace": "shop", "tables": 3}
    ]


def test_a_description_says_which_columns_are_keys_and_which_are_the_frameworks() -> None:
    described = json.loads(sql("describe shop.customer_history", "--json").stdout)
    notes = {row["column_name"]: row["note"] for row in described}
    assert (notes["id"], notes["email"], notes["_tombstone"]) == ("key", "", "framework")
    granted = json.loads(sql("describe shop.customer", "--as", "support", "--json").stdout)
    assert [row["column_name"] for row in granted] == ["id", "name"]


def completed(*words: str) -> list[str]:
    """What a shell offers for the last of the words."""
    *before, last = words
    root = click.Group("kedro", commands={"lakehouse": lakehouse})
    found = ShellComplete(root, {}, "kedro", "_KEDRO_COMPLETE").get_completions(["lakehouse", *before], last)
    return [one.value for one in found]


def test_a_shell_completes_names_of_tables() -> None:
    assert completed("snapshots", "shop.s") == ["shop.secret", "shop.staff"]
    assert completed("logs", "--table", "hr") == ["hr.person"]
    assert completed("sql", "select * from shop.dim") == ["select * from shop.dim_customer"]
    assert "from shop.customer_history" in completed("sql", "from shop.cust")
    assert completed("sql", "select ") == []


def test_a_shell_is_offered_nothing_where_the_project_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise ValueError("tables.yml")

    monkeypatch.setattr("kedro_lakehouse.cli.options.open_project", wrong)
    assert completed("snapshots", "shop.s") == []
