"""``kedro lakehouse``: what each command prints, and what it refuses; no JVM, a small lake of two sources."""

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.ops.store import BATCHES, RUNS, OpsStore
from kedro_lakehouse.project import _Active
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

SEEN = [dt.datetime(2026, 1, n, 12, 30, tzinfo=dt.UTC) for n in (1, 2, 3)]
ORDERS = [{"seq": Decimal(10**34 + n)} for n in range(3)]
ITEMS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "Unit Price": pa.array([Decimal("1.10"), Decimal("22.00"), None], pa.decimal128(30, 2)),
        "label": ["a\x1b[31mred", "[b]", None],
        "seen": pa.array(SEEN, pa.timestamp("us", tz="UTC")),
        "_order": pa.array(ORDERS, pa.struct({"seq": pa.decimal128(38, 0)})),
    }
)
SPARK = """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:{root}/lake/catalog.db
spark.sql.catalog.lake.warehouse: {root}/lake/warehouse
"""
FILES = {
    "pyproject.toml": """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
""",
    "conf/base/spark.yml": SPARK,
    "conf/base/globals.yml": "lakehouse: {root}/lake\n",
    "conf/base/sources.yml": "shop: {{type: dms, path: {root}/landing}}\n",
    "conf/base/tables.yml": """
shop.item: {{source: shop, keys: [id], history: true}}
shop.line: {{source: shop, keys: [id]}}
shop.nothing: {{source: shop, keys: [id], history: true}}
""",
    "conf/void/spark.yml": "spark.sql.catalog.lake.uri: jdbc:sqlite:file:{root}/void/catalog.db\n",
    "conf/local/.gitkeep": "",
    "src/.gitkeep": "",
}


def bookmark(batch: int, stage: str) -> dict[str, str]:
    report = CommitReport(
        table="shop.item",
        stage=stage,
        batch=batch,
        batches=1,
        content_hash="x",
        run_id="r",
        committed_at=f"2026-11-21T00:0{batch}:00.123+00:00",
    )
    return {BOOKMARK: report.to_property()}


def quarantined(count: int) -> pa.Table:
    rows = [
        {
            "_batch": 1 + n % 2,
            "_position": {"file": f"f{n}.csv", "row": n},
            "_reasons": ["malformed", "null_key"] if n else ["null_key"],
            "_op": "upsert",
            "_raw": f"CANARY{n}",
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(root=root))
    conf = dict(line.split(": ", 1) for line in SPARK.format(root=root).split("\n") if line)
    lake = MetadataCatalog(conf)

    def make(name, rows, properties):
        table = lake.catalog.create_table(f"shop.{name}", schema=rows.schema, properties=properties)
        table.append(rows)
        return table

    lake.ensure_namespace("shop")
    make("item", ITEMS.slice(0, 2), bookmark(2, "current")).append(ITEMS.slice(2))
    make("item_changes", ITEMS, bookmark(2, "ingestion"))
    make("item_history", ITEMS, bookmark(2, "history"))
    make("item_quarantine", quarantined(3), {})
    make("line_changes", ITEMS.select(["id"]), bookmark(3, "ingestion"))
    make("line", ITEMS.select(["id", "label"]), bookmark(1, "current"))
    started = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    runs = [
        {
            "run_id": f"run{n}",
            "pipeline": "__default__",
            "env": "local",
            "status": "failed" if n == 1 else "succeeded",
            "started_at": started + dt.timedelta(hours=n),
            "ended_at": started + dt.timedelta(hours=n, seconds=90),
            "tables": ["shop.item"],
            "failed": [{"table": "shop.line", "code": "SNAPSHOT_EMPTY", "message": "m"}] if n == 1 else [],
        }
        for n in (2, 1, 3)
    ]
    OpsStore(lake).append(RUNS, runs)
    return root


@pytest.fixture
def call(root, monkeypatch):
    """Run a command as a user in the project's folder does."""
    monkeypatch.chdir(root)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *words: CliRunner().invoke(lakehouse, words)


def rows_of(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_tables_tells_rows_lag_and_quarantine_of_each_declared_table(call):
    found = {row["table"]: row for row in rows_of(call("tables", "--json"))}
    wanted = {
        "shop.item": ("fresh", 3, 3, 2, 2, 2, 0, 3),
        "shop.line": ("failing", 3, None, 3, 1, None, 2, 0),
        "shop.nothing": ("empty", 0, 0, 0, 0, 0, 0, 0),
    }
    keys = (
        "state", "rows", "history_rows", "batch", "current_batch", "history_batch", "lag", "quarantined",
    )  # fmt: skip
    assert {name: tuple(row[k] for k in keys) for name, row in found.items()} == wanted
    assert found["shop.item"]["last_commit"] == "2026-11-21T00:02:00.123000+00:00"
    assert found["shop.nothing"]["last_commit"] is None
    assert (found["shop.line"]["words"], found["shop.line"]["reason"]) == (
        "failing since 2026-11-21 01:00", "m"
    )  # fmt: skip


def test_tables_prints_one_aligned_line_a_table(call):
    lines = call("tables").stdout.splitlines()
    assert lines[0].split("  ")[0] == "table"
    assert [line.split()[0] for line in lines[1:4]] == ["shop.item", "shop.line", "shop.nothing"]
    assert "3 (current 1)" in lines[2]
    assert lines[4:] == ["shop.line is failing since 2026-11-21 01:00: m"]


def test_narrow_terminal_cuts_nothing(call, monkeypatch):
    wide = call("snapshots", "shop.item").stdout
    monkeypatch.setattr("kedro_lakehouse.cli.show._PIPED_WIDTH", 50)
    narrow = call("snapshots", "shop.item").stdout
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert sorted("".join(narrow.split())) == sorted("".join(wide.split()))


@pytest.mark.parametrize("words", [("--env", "void", "tables"), ("tables", "-e", "void")])
def test_env_is_taken_before_and_after_the_command(call, words):
    assert {row["state"] for row in rows_of(call(*words, "--json"))} == {"empty"}


def test_kedro_env_is_the_default_environment(call, monkeypatch):
    monkeypatch.setenv("KEDRO_ENV", "void")
    assert {row["state"] for row in rows_of(call("tables", "--json"))} == {"empty"}


@pytest.mark.parametrize("command", ["tables", "sql", "quarantine", "runs"])
def test_folder_outside_a_project_is_a_clean_error(call, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call(command, *(["select 1"] if command == "sql" else []))
    assert result.exit_code == 1
    assert "no Kedro project" in result.stderr


@pytest.mark.parametrize("words", [("tables",), ("sql", "from shop.line"), ("quarantine",), ("runs",)])
def test_lake_whose_files_are_gone_is_a_clean_error(call, words, root):
    moved = (root / "lake/warehouse").rename(root / "lake/elsewhere")
    try:
        result = call(*words)
    finally:
        moved.rename(root / "lake/warehouse")
    assert result.exit_code == 1
    assert "names a file that is not there" in result.stderr
    assert "Traceback" not in result.output


def test_unknown_environment_is_told_with_the_nearest(call):
    result = call("tables", "--env", "locl")
    assert result.exit_code == 1
    assert "Did you mean 'local'?" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [("shop.item", "malformed", 2), ("shop.item", "null_key", 1)]),
        (("--batch", "1"), [("shop.item", "null_key", 1), ("shop.item", "malformed", 1)]),
        (("--batch", "9"), []),
    ],
)
def test_quarantine_counts_by_table_and_first_reason(call, words, expected):
    assert [tuple(row.values()) for row in rows_of(call("quarantine", "--json", *words))] == expected


@pytest.mark.parametrize(
    ("words", "files", "canary"),
    [
        ((), ["f0.csv", "f2.csv", "f1.csv"], False),
        (("--batch", "2"), ["f1.csv"], False),
        (("--limit", "1"), ["f0.csv"], False),
        (("--raw",), ["f0.csv", "f2.csv", "f1.csv"], True),
    ],
)
def test_quarantine_lists_events_and_shows_raw_records_only_when_asked(call, words, files, canary):
    rows = rows_of(call("quarantine", "shop.item", "--json", *words))
    assert [row["file"] for row in rows] == files
    for output in (call("quarantine", "shop.item", *words).output, json.dumps(rows)):
        assert ("CANARY" in output) is canary


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("shop.itm",), 1, "Did you mean 'shop.item'?"),
        (("shop",), 1, "<namespace>.<table>"),
        (("--raw",), 2, "--raw needs a TABLE"),
        (("--replay",), 2, "--replay needs a TABLE"),
        (("shop.item", "--replay", "--raw"), 2, "--replay takes neither"),
    ],
)
def test_quarantine_refuses_what_is_no_declared_table(call, words, code, told):
    result = call("quarantine", *words)
    assert result.exit_code == code
    assert told in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("changes", "shop.itm", "--batch", "1"), 1, "Did you mean 'shop.item'?"),
        (("changes", "shop.item", "--batch", "3"), 1, "[BATCH_NOT_FOUND] Table shop.item has no batch 3"),
        (("changes", "shop.nothing", "--batch", "1"), 1, "it has none yet"),
        (
            ("quarantine", "shop.item", "--batch", "99"),
            1,
            "[BATCH_NOT_FOUND] Table shop.item has no batch 99",
        ),
        (("changes", "shop.item"), 2, "--batch"),
        (("rebuild", "shop.itm", "--yes"), 1, "Did you mean 'shop.item'?"),
        (("rebuild", "shop.nothing", "--yes"), 1, "Nothing of shop.nothing is recorded yet"),
        (("rebuild", "shop.item", "--from-landing"), 2, "add --yes"),
        (("drop", "shop.itm", "--yes"), 1, "Did you mean 'shop.item'?"),
        (("drop", "shop.item"), 2, "add --yes"),
        (("logs", "--cloudwatch"), 2, "--cloudwatch needs an ID"),
        (("logs", "--table", "shop.itm"), 1, "Did you mean 'shop.item'?"),
        (("logs",), 1, "No log of the last run is kept"),
        (("sql", "from shop.item", "--engine", "spark", "--as-of", "2026-01-01"), 2, "takes no --as-of"),
    ],
)
def test_commands_refuse_before_they_start_anything(call, words, code, told):
    result = call(*words)
    assert result.exit_code == code
    assert told in result.stderr


def test_runs_come_newest_first_with_what_failed(call):
    rows = rows_of(call("runs", "--json"))
    assert [row["run_id"] for row in rows] == ["run3", "run2", "run1"]
    assert rows[0]["seconds"] == 90
    result = call("runs", "--limit", "2")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["run", "run3", "run2"]
    assert "first 2 rows" in result.stderr
    assert "shop.line (SNAPSHOT_EMPTY)" in call("runs").stdout


def test_a_run_is_shown_with_its_commits_its_failures_and_the_states_now(call):
    (run,) = [rows_of(call("runs", "run1", "--json"))]
    assert [(one["table"], one["words"]) for one in run["states"]] == [
        ("shop.item", "fresh"), ("shop.line", "failing since 2026-11-21 01:00")
    ]  # fmt: skip
    lines = call("runs", "run1").stdout.splitlines()
    assert lines[0].startswith(
        "Run run1: __default__, environment local, 2026-11-21 01:00:00, failed after 90 s"
    )
    assert lines[1] == "shop.line failed: m"
    assert lines[-2:] == [
        "Now: shop.item is fresh.", "Now: shop.line is failing since 2026-11-21 01:00. m"
    ]  # fmt: skip


@pytest.fixture
def killed(root):
    """A run that published two commits and was killed before it could write its record."""
    lake = MetadataCatalog(dict(line.split(": ", 1) for line in SPARK.format(root=root).split("\n") if line))
    at = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    commits = [
        {"table": "shop.item", "stage": stage, "batch": 2, "run_id": "killed1", "committed_at": at}
        for stage in ("current", "ingestion")
    ]
    OpsStore(lake).append(BATCHES, commits)
    yield
    lake.catalog.load_table("ops.batches").delete("run_id = 'killed1'")


def test_a_run_without_a_record_is_listed_and_shown_by_its_commits(call, killed):
    first, *others = rows_of(call("runs", "--json"))
    assert (first["run_id"], first["status"], first["tables"]) == ("killed1", "no record", ["shop.item"])
    assert [row["run_id"] for row in others] == ["run3", "run2", "run1"]
    assert call("runs").stdout.splitlines()[1].split()[:3] == ["killed1", "no", "record"]
    lines = call("runs", "kill").stdout.splitlines()
    assert lines[0].startswith("Run killed1: no record of its end: it was killed, or is still at work.")
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["shop.item", "current", "2"],
        ["shop.item", "ingestion", "2"],
    ]


@pytest.mark.parametrize("name", ["run", "nobody"])
def test_a_run_must_be_named_so_that_it_is_found(call, name):
    result = call("runs", name)
    assert result.exit_code == 1
    assert "RUN_NOT_FOUND" in result.stderr
    assert "run3" in result.stderr


@pytest.mark.parametrize(
    ("command", "told"),
    [("runs", "No run changed a table"), ("quarantine", "No event is quarantined"), ("tables", "empty")],
)
def test_new_project_is_told_in_words(call, command, told):
    result = call(command, "--env", "void")
    assert result.exit_code == 0
    assert told in result.stdout


def test_plugins_name_group_and_module(call):
    rows = rows_of(call("plugins", "--json"))
    wanted = {
        "group": "kedro_lakehouse.sources",
        "name": "dms",
        "module": "kedro_lakehouse.sources.dms:DmsSource",
    }
    assert wanted in rows
    assert "sources.dms:DmsSource" in call("plugins").stdout


def test_sql_prints_json_without_loss(call):
    query = "select * exclude (label) from shop.item where id <> 2 order by id"
    rows = rows_of(call("sql", query, "--all-columns", "--json"))
    assert rows == [
        {
            "id": 1,
            "Unit Price": "1.10",
            "seen": "2026-01-01T12:30:00+00:00",
            "_order": {"seq": "10000000000000000000000000000000000"},
        },
        {
            "id": 3,
            "Unit Price": None,
            "seen": "2026-01-03T12:30:00+00:00",
            "_order": {"seq": "10000000000000000000000000000000002"},
        },
    ]


def test_sql_prints_values_that_the_terminal_does_not_obey(call):
    lines = call("sql", "select id, label, seen from shop.item order by id").stdout.splitlines()
    assert lines == [
        "id  label         seen",
        r" 1  a\x1b[31mred  2026-01-01 12:30:00Z",
        " 2  [b]           2026-01-02 12:30:00Z",
        " 3  NULL          2026-01-03 12:30:00Z",
    ]


def test_sql_keeps_columns_of_one_name_apart_in_json(call):
    query = "select a.id, b.id from shop.item a join shop.line b on a.id = b.id where a.id = 2"
    assert rows_of(call("sql", query, "--json")) == [{"id": 2, "id_1": 2}]


@pytest.mark.parametrize(("limit", "shown", "cut"), [("2", 2, True), ("3", 3, False), ("0", 3, False)])
def test_sql_says_when_rows_were_cut(call, limit, shown, cut):
    result = call("sql", "select id from shop.item", "--limit", limit, "--json")
    assert len(rows_of(result)) == shown
    assert ("Only the first" in result.stderr) is cut


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("select * from shop.nothing",), 1, "holds nothing yet"),
        (("select * from shop.itm",), 1, "Did you mean 'shop.item'?"),
        (("select * from shop.item", "--as-of", "2020-01-01"), 1, "has no state published by 2020-01-01"),
        (("select * from shop.item", "--as-of", "soon"), 2, "give a time such as"),
    ],
)
def test_sql_tells_what_it_cannot_answer(call, words, code, told):
    result = call("sql", *words)
    assert result.exit_code == code
    assert told in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("changes", "shop.itm", "--batch", "1"), 1, "CONFIGURATION"),
        (("sql", "select * from shop.itm"), 1, "QUERY"),
        (("logs", "manual__2020"), 1, "LOG_NOT_FOUND"),
        (("changes", "shop.item"), 2, "USAGE"),
        (("drop", "shop.item"), 2, "USAGE"),
    ],
)
def test_errors_are_json_where_json_is_asked_for(call, words, status, code):
    result = call(*words, "--json")
    assert (result.exit_code, result.stdout) == (status, "")
    error = json.loads(result.stderr)["error"]
    assert error["code"] == code
    assert error["message"]
    assert "`kedro " in error["remedy"]


def test_drop_says_what_goes_before_it_asks(call):
    tables = ("item_changes", "item_quarantine", "item", "item_history")
    told = "".join(f"  shop.{table}: 3 rows\n" for table in tables)
    assert call("drop", "shop.item").stderr.startswith(told)


def test_dropping_what_holds_nothing_says_so(call):
    assert call("drop", "shop.nothing").stdout == "Nothing is stored of shop.nothing.\n"


def test_dropped_table_is_gone_and_the_others_stay(call, root):
    lake = MetadataCatalog(dict(line.split(": ", 1) for line in SPARK.format(root=root).split("\n") if line))
    lake.catalog.create_table("shop.spare", schema=ITEMS.schema).append(ITEMS)
    declared = root / "conf/base/tables.yml"
    before = declared.read_text()
    declared.write_text(before + "shop.spare: {source: shop, keys: [id]}\n")
    try:
        result = call("drop", "shop.spare", "--yes")
        told = result.stdout
        assert result.exit_code == 0, result.output
        assert "shop.spare: 3 rows" in told
        assert "The next `kedro run` ingests its landed files anew" in told
        assert not lake.catalog.table_exists("shop.spare")
        assert not (root / "lake/warehouse/shop/spare").exists()
        (run,) = [row for row in rows_of(call("runs", "--json")) if row["pipeline"] == "drop shop.spare"]
        assert run["tables"] == ["shop.spare"]
        assert "dropped shop.spare" in call("logs").stdout
    finally:
        declared.write_text(before)
        lake.catalog.load_table("ops.runs").delete("pipeline = 'drop shop.spare'")


def test_no_command_that_only_looks_starts_a_jvm(call):
    from pyspark import SparkContext

    before = SparkContext._gateway  # the Spark tests of the same process may have left one
    for words in (
        ("tables",), ("runs",), ("quarantine",), ("plugins",), ("sql", "from shop.item"),
        ("drop", "shop.nothing"), ("logs", "x", "--cloudwatch"),
    ):  # fmt: skip
        assert call(*words).exit_code == 0, words
    assert SparkContext._gateway is before


def test_command_line_loads_nothing_heavy_before_a_command_runs():
    heavy = {"duckdb", "pyarrow", "pyiceberg", "pyspark"}
    code = f"import sys, kedro_lakehouse.cli; sys.exit(' '.join({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def _health_page():
    from harness.console import linked_pages

    from kedro_lakehouse.console import health
    from kedro_lakehouse.console.lake import opened_project

    opened_project.clear()
    health.show(linked_pages())


def test_health_of_the_console_has_few_columns_with_titles_in_words(call):
    app = AppTest.from_function(_health_page).run(timeout=60)
    assert not app.exception
    standing, *others = app.dataframe
    assert len(standing.value.columns) <= 7  # what 1280 pixels hold
    assert list(standing.value["table"]) == ["shop.line", "shop.item", "shop.nothing"]
    assert list(standing.value["words"]) == ["failing since 2026-11-21 01:00", "fresh", "empty"]
    for grid in (standing, *others):
        titles = json.loads(grid.proto.columns)
        told = [titles[name].get("label", "") for name in grid.value.columns]
        assert [title for title in told if not title[:1].isupper() or "_" in title] == []
        assert grid.proto.placeholder == ""


@pytest.mark.parametrize("words", [("--loop", "10 s"), ("--jars", "ours")])
def test_the_service_takes_no_options_of_runs(call, words):
    done = call("deploy", "--target", "service", *words)
    assert done.exit_code == 2
    assert "takes neither --loop nor --jars" in done.output
