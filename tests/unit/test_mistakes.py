"""Whatever a user mistypes, breaks or forbids ends in one message: place and remedy, no traceback, no JVM."""

import os
import re
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner
from kedro.framework.project import pipelines
from kedro.framework.startup import bootstrap_project

from kedro_lakehouse.cli import cli
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import _Active
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

WIDTH, MOST_LINES, NOBODY = 120, 6, 65534
LOOK = "lakehouse tables"
PYDANTICS = (
    "Input should",
    "valid tuple",
    "valid string",
    "valid dictionary",
    "pattern '",
    "validation error",
)
FILES = {
    "pyproject.toml": """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
""",
    "conf/base/catalog.yml": '"{namespace}.{table}.{role}": {type: MemoryDataset}\n',
    "conf/base/globals.yml": "lakehouse: ROOT/lake\nlanding: ROOT/landing\n",
    "conf/base/spark.yml": """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:${globals:lakehouse}/catalog.db
spark.sql.catalog.lake.warehouse: ${globals:lakehouse}/warehouse
""",
    "conf/base/sources.yml": "shop:\n  type: dms\n  path: ${globals:landing}/shop\n",
    "conf/base/tables.yml": """
shop.item:
  source: shop
  keys: [id]
  history: true
shop.line:
  source: shop
  keys: [id]
""",
    "conf/base/parameters.yml": "seed: 1\n",
    "conf/local/.gitkeep": "",
    "conf/aws/globals.yml": "lakehouse: ROOT/aws\n",
    "src/.gitkeep": "",
}
STARTER = Path(__file__).parents[2] / "src/kedro_lakehouse/starter/conf/base"
TABLES, SOURCES, GLOBALS = (f"conf/base/{name}.yml" for name in ("tables", "sources", "globals"))


@pytest.fixture
def root(monkeypatch):
    """A project that works, in a folder that other users may enter."""
    root = Path(tempfile.mkdtemp(prefix="mistakes"))
    root.chmod(0o755)
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("ROOT", str(root)), encoding="utf-8")
    monkeypatch.chdir(root)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("kedro_lakehouse.session.java.require_java", lambda: None)
    yield root
    shutil.rmtree(root)


def call(words):
    pipelines.configure("kedro_lakehouse.pipeline_registry")
    group = lakehouse
    if words.startswith("run"):
        bootstrap_project(Path.cwd())  # as Kedro does before it hands over to the project's own command
        group = cli
    return CliRunner().invoke(
        group, re.findall(r"(?:[^\s\"]|\"[^\"]*\")+", words.replace("lakehouse ", "", 1))
    )


def message(words):
    """The one message with which a command ends."""
    result = call(words)
    assert isinstance(result.exception, SystemExit), (result.output, result.exc_info)
    assert result.exit_code != 0
    text = result.stderr.strip()
    for one in ("Traceback", *PYDANTICS):
        assert one not in text
    said = text.partition("Error: ")[2] or text
    lines = [part for line in said.splitlines() for part in textwrap.wrap(line, WIDTH)]
    assert 1 <= len(lines) <= MOST_LINES, text
    return said


def test_without_a_mistake_the_project_is_read(root):
    assert call("lakehouse tables").exit_code == 0
    assert [path.name for path in root.iterdir() if path.name in {"lake", "data"}] == []


def test_a_mistake_in_grants_is_told_with_its_line(root):
    file = root / "conf/base/grants.yml"
    file.write_text("analyst:\n  - {database: shop}\n  - {table: shop.itm}\n", encoding="utf-8")
    said = message("lakehouse grants show")
    assert "conf/base/grants.yml, line 3" in said
    assert "Did you mean 'shop.item'?" in said
    file.write_text("analyst: [{table: shop.item, rows: 'id in (select 1)'}]\n", encoding="utf-8")
    assert "analyst[0].rows" in message('lakehouse sql "select 1" --as analyst')
    file.write_text("principals: {analyst: '${oc.env:NO_SUCH_ARN}'}\nanalyst: []\n", encoding="utf-8")
    assert "NO_SUCH_ARN" in message("lakehouse grants show")


NAMES = {
    "run --namespaces=shp": ["--namespaces", "'shp'", "Did you mean 'shop'?"],
    "run --namespaces=shop.itm": ["Did you mean 'shop.item'?"],
    "run --namespaces=shop,shopp.line": ["'shopp.line'", "Did you mean 'shop.line'?"],
    "run --pipelines=ingestoin": ["--pipelines", "Did you mean 'ingestion'?"],
    "run --pipelines=ingestion,scd": ["'scd'", "Did you mean 'scd2'?"],
    "run --env=awz": ["no such environment (conf/awz does not exist)", "Did you mean 'aws'?"],
    "run --env=AWS": ["conf/AWS does not exist", "Did you mean 'aws'?"],
    "run --nodes=shop.item.ingst": ["--nodes", "Did you mean 'shop.item.ingest'?"],
    "run --tags=ingest": ["--tags", "Did you mean 'ingestion'?"],
    "run --from-nodes=shop.item.mrge": ["--from-nodes", "Did you mean 'shop.item.merge'?"],
    "run --to-nodes=shop.lime.merge": ["--to-nodes", "Did you mean 'shop.line.merge'?"],
    "run --from-inputs=shop.item.landng": ["--from-inputs", "Did you mean 'shop.item.landing'?"],
    "run --to-outputs=shop.item.curent": ["--to-outputs", "Did you mean 'shop.item.current'?"],
    "run --runner=IsolatingRunner": ["--runner", "IsolatingThreadRunner"],
    "run --runner=nowhere.Runner": ["--runner", "'nowhere.Runner'"],
    "run --tags=scd2 --nodes=shop.item.ingest": ["no node that fits all of", "Leave some"],
    "run --pipelines=convert": ["convert.yml", "has no node", "docs/how-to/convert.md"],
    "run --pipelines=column_index": ["parameters_column_index.yml", "models: [minilm]"],
    "lakehouse tabels": ["'tabels'", "Did you mean 'tables'?"],
    "lakehouse tables --env=awz": ["no such environment (conf/awz does not exist)", "Did you mean 'aws'?"],
    "lakehouse changes shop.itm --batch 1": ["'shop.itm'", "Did you mean 'shop.item'?"],
    "lakehouse snapshots item": ["'item'", "kedro lakehouse tables"],
    "lakehouse quarantine shop.lin": ["Did you mean 'shop.line'?"],
    "lakehouse rebuild Shop.item --yes": ["'Shop.item'"],
    "lakehouse rollback shop.itme --to-batch 1": ["Did you mean 'shop.item'?"],
    "lakehouse grants shwo": ["'shwo'", "'show'"],
    "lakehouse grants plan": ["no Lake Formation", "--env aws"],
    "lakehouse tables --as analyst": ["kedro lakehouse sql --as analyst"],
    "lakehouse tables --jsn": ["--jsn"],
}


@pytest.mark.parametrize("words", NAMES)
def test_mistyped_names(root, words):
    said = message(words)
    for part in NAMES[words]:
        assert part in said


def test_an_option_that_kedro_refuses_is_told_in_its_words(root):
    said = message("run --load-versions=x")
    assert "'dataset_name:YYYY-MM-DDThh.mm.ss.sssZ', found x instead" in said
    assert "NoneType" not in said


def test_mistakes_of_the_file_of_options(root):
    (root / "bad.yml").write_text("run:\n  tags: [\n")
    said = message("run --config=bad.yml")
    assert "bad.yml, line 3: 'YAML': a value or a closing bracket is missing. Write it." in said


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("shop.item.landing: {type: kedro_lakehouse.datasets.Nope}\n", "'Nope' not found"),
        ("shop.item.landing: {typ: MemoryDataset}\n", "'type' is missing"),
        ("shop.item.landing: {type: MemoryDataset, nosuch: 1}\n", "nosuch"),
    ],
)
def test_mistakes_of_the_catalog(root, entry, said):
    with (root / "conf/base/catalog.yml").open("a") as file:
        file.write(entry)
    found = message("run")
    assert "conf/base/catalog.yml, line 2: 'shop.item.landing'" in found
    assert said in found


def test_the_environment_of_the_variable_is_named_too(root, monkeypatch):
    monkeypatch.setenv("KEDRO_ENV", "lokal")
    assert message("run") == message("lakehouse tables")
    assert "Did you mean 'local'?" in message("run")


YAML = {
    "tab": (TABLES, "shop.x:\n\tsource: shop\n", ["tables.yml, line 10", "a tab"]),
    "no colon": (TABLES, "shop.x\n  source: shop\n", ["tables.yml, line 9"]),
    "open quote": (TABLES, 'shop.x: {source: "shop}\n', ["tables.yml, line 9", "quote is never closed"]),
    "open bracket": (TABLES, "shop.x: {source: shop, keys: [id}\n", ["tables.yml, line 9", "bracket"]),
    "indent": (TABLES, "shop.x:\n  source: shop\n   keys: [id]\n", ["tables.yml, line 11"]),
    "dedent": (TABLES, "shop.x:\n    source: shop\n  keys: [id]\n", ["tables.yml, line 11", "indented"]),
    "a table twice": (TABLES, "shop.item: {source: shop, keys: [id]}\n", ["line 9", "'shop.item'", "line 2"]),
    "a key twice": (TABLES, "shop.x: {source: shop, keys: [a], keys: [b]}\n", ["line 9", "'shop.x.keys'"]),
    "star": (TABLES, "shop.x: {source: *shop, keys: [id]}\n", ["tables.yml, line 9", "alias"]),
    "percent": (TABLES, "shop.x: {source: %shop, keys: [id]}\n", ["tables.yml, line 9", "quotes"]),
    "at sign": (TABLES, "shop.x: {source: @shop, keys: [id]}\n", ["tables.yml, line 9", "quotes"]),
    "second document": (TABLES, "---\nshop.x: {source: shop, keys: [id]}\n", ["tables.yml, line 9"]),
    "a list": (TABLES, "!- shop.item\n- shop.line\n", ["tables.yml, line 1", "a list"]),
    "a number for a table": (TABLES, "shop.x: 7\n", ["tables.yml, line 9", "found a number"]),
    "colon in a text": (TABLES, "shop.x: {source: shop, keys: [id]}\na: b: c\n", ["line 10", "':'"]),
    "another file": (
        "conf/base/tables_b.yml",
        "shop.item: {}\n",
        ["_b.yml, line 1", "tables.yml, line 2"],
    ),
    "global": (SOURCES, "b: {type: dms, path: '${globals:landng}'}\n", ["line 4", "Did you mean 'landing'?"]),
    "variable": (SOURCES, "b: {type: dms, path: '${oc.env:NO_SUCH}'}\n", ["sources.yml, line 4", "NO_SUCH"]),
    "resolver": (
        SOURCES,
        "b: {type: dms, path: '${global:landing}'}\n",
        ["line 4", "mean 'globals'?"],
    ),
    "relative": (SOURCES, "b: {type: dms, path: '${landing}'}\n", ["sources.yml, line 4", "${globals:NAME}"]),
    "open brace": (SOURCES, "b: {type: dms, path: '${globals:landing'}\n", ["sources.yml, line 4"]),
    "global's own": (GLOBALS, "x: [1, 2\ny: 3\n", ["globals.yml, line 3", "bracket"]),
    "parameters": ("conf/base/parameters.yml", "a: [\n", ["parameters.yml, line 3", "bracket"]),
    "monitoring": ("conf/base/monitoring.yml", "\tx: 1\n", ["monitoring.yml, line 1", "a tab"]),
    "a number for a name": (TABLES, "3: {source: shop}\n", ["tables.yml, line 9", "no name"]),
    "nothing for a name": (TABLES, "null: {source: shop}\n", ["tables.yml, line 9", "no name"]),
    "a list for a name": (TABLES, "? [a]\n: {source: shop}\n", ["tables.yml, line 9", "no name"]),
    "a list for a path": (GLOBALS, "cache: [x]\n", ["globals.yml, line 3", "expected a path"]),
    "unknown key": (TABLES, "shop.x: {source: shop, kyes: [id]}\n", ["line 9", "Did you mean 'keys'?"]),
    "a text for a list": (TABLES, "shop.x: {source: shop, keys: id}\n", ["line 9", "a list of column names"]),
    "a number": (TABLES, "shop.x: {source: shop, keys: [1]}\n", ["line 9", "expected text", "a number"]),
    "a list of tables": (TABLES, "shop.x: [id]\n", ["line 9", "keys below it", "a list"]),
    "yes": (TABLES, "shop.x: {source: shop, keys: [id], current: maybe}\n", ["line 9", "true or false"]),
    "checks": (
        TABLES,
        "shop.x: {source: shop, keys: [id], checks: [a > 1]}\n",
        ["names with SQL"],
    ),
}


@pytest.mark.parametrize("command", ["run", LOOK])
@pytest.mark.parametrize("mistake", YAML)
def test_mistakes_of_yaml(root, mistake, command):
    name, text, parts = YAML[mistake]
    file = root / name
    before = file.read_text(encoding="utf-8") if file.exists() and not text.startswith("!") else ""
    file.write_text(before + text.removeprefix("!"), encoding="utf-8")
    said = message(command)
    for part in ("[CONFIGURATION] conf/base/", "`kedro run`", *parts):
        assert part in said


def test_a_file_of_another_alphabet(root):
    (root / TABLES).write_bytes(b"shop.item: {source: shop, keys: [id]}\n# f\xfcr\n")
    assert "conf/base/tables.yml, line 2: 'YAML': the text is not UTF-8. Save it as UTF-8." in message("run")


SQL = {
    "open bracket": ("checks: {a: '(x > 1'}", ["shop.x.checks.a", "a bracket is never closed: ("]),
    "closed twice": ("checks: {a: 'x > 1)'}", ["shop.x.checks.a", "closes none"]),
    "open quote": ('checks: {a: "x = \'y"}', ["shop.x.checks.a", "quote is never closed"]),
    "half": ("checks: {a: 'x >='}", ["shop.x.checks.a", "not complete"]),
    "the other half": ("checks: {a: '>= 0'}", ["shop.x.checks.a", "not complete"]),
    "two statements": ("checks: {a: 'x > 1; drop table y'}", ["shop.x.checks.a", "';'"]),
    "nothing": ("checks: {a: ''}", ["shop.x.checks.a", "at least one character"]),
    "no text": ("checks: {a: 7}", ["shop.x.checks.a", "expected text"]),
    "no name": ("checks: {'a-b': 'x > 1'}", ["shop.x.checks.a-b", "letters, digits and underscores"]),
    "taken name": ("checks: {null_key: 'x > 1'}", ["built-in quarantine reason"]),
}


@pytest.mark.parametrize("mistake", SQL)
def test_mistakes_in_checks_are_found_before_spark(root, mistake):
    keys, parts = SQL[mistake]
    with (root / TABLES).open("a") as file:
        file.write(f"shop.x: {{source: shop, keys: [id], {keys}}}\n")
    said = message("run")
    for part in ("conf/base/tables.yml, line 9", *parts):
        assert part in said


@pytest.mark.parametrize(
    "condition",
    [
        "amount >= 0", "a = 'it''s' or b like '%(%'", "a > 0 -- (", "a /* ( */ > 0", "`we(ird` > 0", "x > 1.",
        "size(parts[0]) > 1", r"a rlike '\\('", "a <=> b", "exists(xs, x -> x > 0)", "a::int > 1", "not a",
    ],
)  # fmt: skip
def test_what_spark_accepts_is_not_refused(root, condition):
    with (root / TABLES).open("a") as file:
        file.write(
            f"shop.x: {{source: shop, keys: [id], checks: {{a: {condition!r}}}}}\n".replace("\\\\", "\\")
        )
    assert call("lakehouse tables").exit_code == 0


DERIVED = {
    "open bracket": ("{i: shop.item}", "select count( from i", ["derive.sql", "bracket"]),
    "open quote": ("{i: shop.item}", "select `id from i", ["derive.sql", "quote"]),
    "unknown input": ("{i: shop.itm}", "select * from i", ["derive.inputs", "Did you mean 'shop.item'?"]),
    "itself": ("{i: shop.y}", "select * from i", ["derive.inputs", "made from itself"]),
    "no input": ("{}", "select 1", ["derive.inputs", "at least 1 item"]),
}


@pytest.mark.parametrize("mistake", DERIVED)
def test_mistakes_in_derived_tables_are_found_before_spark(root, mistake):
    inputs, sql, parts = DERIVED[mistake]
    with (root / TABLES).open("a") as file:
        file.write(f"shop.y:\n  keys: [id]\n  derive:\n    inputs: {inputs}\n    sql: {sql!r}\n")
    said = message("run")
    for part in ("conf/base/tables.yml, line 1", *parts):
        assert part in said


QUERIES = {
    "selec 1": ["syntax error"],
    "": ["nothing"],
    "select 1; select 2": ["not one query"],
    "drop table shop.item": ["not one query"],
    "select * from shop.itm": ["'shop.itm'"],
    "select * from itm": ["'itm'"],
    "select * from shop.item": ["holds nothing yet", "`kedro run`"],
    "select (1": ["syntax error"],
    "select 'a": ["string literal"],
    "select nosuch(1)": ["nosuch"],
    "select cast('x' as int)": ["ConversionException", "try_cast"],
    "copy shop.item to 'x.csv'": ["not one query"],
    "select * from 'x.csv'": ["x.csv"],
}


@pytest.mark.parametrize("query", QUERIES)
def test_mistakes_in_queries(root, query):
    result = CliRunner().invoke(lakehouse, ["sql", query])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert len(textwrap.wrap(result.stderr, WIDTH)) <= MOST_LINES
    for part in QUERIES[query]:
        assert part.lower() in result.stderr.lower()
    assert not (root / "lake").exists()


FORMATS = {
    "file_format": (SOURCES, "b: {type: dms, path: x, file_format: parqet}", ["Did you mean 'parquet'?"]),
    "source type": (SOURCES, "b: {type: dsm, path: x}", ["no source type 'dsm'", "Did you mean 'dms'?"]),
    "no type": (SOURCES, "b: {path: x}", ["b.type", "missing"]),
    "delimiter": (SOURCES, "b: {type: dms, path: x, csv: {delimitr: ';'}}", ["Did you mean 'delimiter'?"]),
    "quote": (SOURCES, "b: {type: dms, path: x, csv: {quote: '[]'}}", ["at most 1 character"]),
    "size": (SOURCES, "b: {type: dms, path: x, max_bytes: 2 gigs}", ["512 MiB"]),
    "no number": (SOURCES, "b: {type: dms, path: x, max_files: many}", ["a whole number"]),
    "table format": (TABLES, "shop.x: {source: shop, keys: [id], format: iceborg}", ["mean 'iceberg'?"]),
    "default format": (GLOBALS, "table_format: dleta", ["globals.yml, line 3", "Did you mean 'delta'?"]),
    "column type": (TABLES, "shop.x: {source: shop, keys: [id], types: {a: bigin}}", ["mean 'bigint'?"]),
    "partition": (TABLES, "shop.x: {source: shop, keys: [id], partition_by: [day(a]}", ["days(c)"]),
    "option": (TABLES, "shop.x: {source: shop, keys: [id], on_tie: upsert}", ["'upsert_wins'"]),
    "fraction": (TABLES, "shop.x: {source: shop, keys: [id], max_delete_fraction: 30}", ["at most 1."]),
    "retention": (TABLES, "shop.x: {source: shop, keys: [id], changes_retention: 9 moons}", ["line 9"]),
    "property": (TABLES, "shop.x: {source: shop, keys: [id], properties: {format-version: '9'}}", ["line 9"]),
    "small": (GLOBALS, "small_batch: many", ["globals.yml, line 3", "a number of events"]),
    "deadline": (GLOBALS, "commit_deadline: soon", ["globals.yml, line 3", "a number of seconds"]),
    "expectation": (TABLES, "shop.x: {source: shop, keys: [id], expectations: [{type: x}]}", ["line 9"]),
    "notifier": ("conf/base/monitoring.yml", "notifiers: {a: {type: emial}}", ["Did you mean 'email'?"]),
    "suite": ("conf/base/expectations.yml", "s: {expectations: [{type: x}]}", ["line 1"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", FORMATS)
def test_unknown_formats_and_wrong_options(root, mistake):
    name, text, parts = FORMATS[mistake]
    with (root / name).open("a") as file:
        file.write(text + "\n")
    said = message("run")
    assert said == message("lakehouse tables")
    for part in (f"{name}, line ", *parts):
        assert part in said


def test_a_mistake_is_said_once(root):
    with (root / TABLES).open("a") as file:
        file.write("shop.x:\n  keys: [id]\n  derive: {inputs: {i: shop.y}, sql: select * from i}\n")
        file.write("shop.y:\n  keys: [id]\n  derive: {inputs: {i: shop.x}, sql: select * from i}\n")
    result = call("lakehouse tables")
    assert result.stderr.count("the table is made from itself") == 2  # once for each of the two
    with (root / TABLES).open("a") as file:
        file.write("shop.z: {source: shop, keys: [id], keys: [id]}\n")
    result = call("lakehouse tables")
    assert "the key is in line 15 too" in result.stderr
    assert "not YAML" not in result.stderr


def test_a_table_with_source_and_inputs_is_told_to_lose_its_source(root):
    with (root / TABLES).open("a") as file:
        file.write("shop.x: {source: shop, keys: [id], derive: {inputs: {i: shop.item}, sql: from i}}\n")
    assert "Remove `source`" in message("lakehouse tables")


def test_all_mistakes_are_shown_at_once(root):
    (root / SOURCES).write_text("shop: {type: dms, pth: x}\nother: {type: dsm}\n")
    with (root / TABLES).open("a") as file:
        file.write("shop.x: {source: shp, keys: [id]}\nshop.y: {source: shop, keys: id, on_tie: 1}\n")
    result = call("lakehouse tables")
    lines = result.stderr.splitlines()
    assert [re.search(r", line (\d+): '([\w.]+)'", line).groups() for line in lines[:-1]] == [
        ("1", "shop.pth"), ("2", "other.type"), ("9", "shop.x.source"), ("10", "shop.y.keys"),
        ("10", "shop.y.on_tie"),
    ]  # fmt: skip
    assert lines[-1] == "Correct them, then `kedro run`."


def forbid(path, mode=0):
    path.chmod(mode)


def lake_of(root):
    """A lake with one table, as a run leaves it."""
    import pyarrow as pa

    conf = "spark.sql.catalog.lake."
    lake = MetadataCatalog({
        f"{conf}type": "jdbc", f"{conf}uri": f"jdbc:sqlite:file:{root}/lake/catalog.db",
        f"{conf}warehouse": f"{root}/lake/warehouse",
    })  # fmt: skip
    lake.ensure_namespace("shop")
    lake.catalog.create_table("shop.item", schema=pa.schema({"id": pa.int64()}))
    (root / "lake").chmod(0o777)
    (root / "lake/catalog.db").chmod(0o666)
    return root / "lake"


CHANGES = "shop.item_changes"


def change_log_of(root):
    """A lake whose change log has one column and one order, as a run leaves it; nothing new has landed."""
    import pyarrow as pa

    lake = lake_of(root)
    (root / "landing/shop/item").mkdir(parents=True)
    conf = "spark.sql.catalog.lake."
    catalog = MetadataCatalog(
        {
            f"{conf}type": "jdbc",
            f"{conf}uri": f"jdbc:sqlite:file:{lake}/catalog.db",
            f"{conf}warehouse": f"{lake}/warehouse",
        }
    ).catalog
    order = pa.struct({"seq": pa.int64()})
    made = {"kedro_lakehouse.made_for": '{"keys": ["id"]}'}
    catalog.create_table(
        CHANGES, schema=pa.schema({"id": pa.int64(), "seats": pa.int64(), "_order": order}), properties=made
    )


NOTHING_NEW = {
    "keys": ("keys: [idd]", ["[KEY_SCHEMA_DRIFT]", "keys id; now declared: idd"]),
    "order": ("keys: [id], order_by: [seqq]", ["[MISSING_COLUMN]", "Did you mean 'seq'?"]),
}


@pytest.mark.parametrize("mistake", NOTHING_NEW)
def test_mistakes_are_found_though_nothing_new_has_landed(root, mistake):
    keys, parts = NOTHING_NEW[mistake]
    change_log_of(root)
    bootstrap_project(root)
    shutil.copy(STARTER / "catalog_lakehouse.yml", root / "conf/base/catalog.yml")
    (root / TABLES).write_text(f"shop.item: {{source: shop, {keys}}}\n")
    said = message("run --pipelines=ingestion")
    for part in parts:
        assert part in said


PERMISSIONS = {
    "tables.yml": (lambda at: forbid(at / TABLES), "run", ["tables.yml", "cannot be read", "chmod"]),
    "tables.yml to look": (lambda at: forbid(at / TABLES), LOOK, ["cannot be read"]),
    "globals.yml": (lambda at: forbid(at / GLOBALS), "run", ["globals.yml", "cannot be read"]),
    "the project is read-only": (lambda at: forbid(at, 0o555), "run", ["/lake", "permission denied"]),
    "lakehouse": (lambda at: forbid(lake_of(at)), LOOK, ["/lake", "permission denied"]),
    "lakehouse to run": (lambda at: forbid(lake_of(at)), "run", ["/lake", "permission denied"]),
    "lakehouse is read-only": (lambda at: forbid(lake_of(at), 0o555), "run", ["/lake", "permission denied"]),
    "catalog": (lambda at: forbid(lake_of(at) / "catalog.db"), LOOK, ["catalog.db"]),
    "warehouse": (lambda at: forbid(lake_of(at) / "warehouse"), LOOK, ["warehouse"]),
    "warehouse to ask": (
        lambda at: forbid(lake_of(at) / "warehouse"), "lakehouse snapshots shop.item", ["warehouse"],
    ),
    "logs": (lambda at: (lake_of(at) / "logs").mkdir(mode=0), "lakehouse logs x", ["logs"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PERMISSIONS)
def test_folders_and_files_that_may_not_be_used(root, mistake):
    change, command, parts = PERMISSIONS[mistake]
    call(command)  # as root, once: who may use nothing cannot import all that it needs
    shutil.rmtree(root / "lake", ignore_errors=True)
    change(root)
    started_as = os.geteuid()
    if started_as == 0:
        os.seteuid(NOBODY)  # the system refuses root nothing
    try:
        said = message(command)
    finally:
        os.seteuid(started_as)
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/proc/lake", "is not permitted"),
        ("ROOT/nowhere/lake", "a file stands where a folder is needed"),
    ],
)
def test_a_lakehouse_where_no_folder_can_be_made(root, place, why):
    (root / "nowhere").symlink_to(root / "gone")
    (root / GLOBALS).write_text(f"lakehouse: {place}\nlanding: {root}/landing\n".replace("ROOT", str(root)))
    assert why in message("run")


def emptied(path):
    path.write_bytes(b"")


def in_place_of_a_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    path.write_text("")


def metadata(root):
    return next((lake_of(root) / "warehouse").rglob("*.metadata.json"))


FILES_WRONG = {
    "lakehouse is a file": (lambda at: in_place_of_a_folder(at / "lake"), "run", ["/lake", "a file stands"]),
    "the same to look": (lambda at: in_place_of_a_folder(at / "lake"), LOOK, ["/lake"]),
    "logs is a file": (lambda at: in_place_of_a_folder(lake_of(at) / "logs"), "run", ["logs", "a file"]),
    "catalog is no database": (
        lambda at: (lake_of(at) / "catalog.db").write_text("x" * 5000), LOOK, ["no SQLite"],
    ),
    "the same to run": (
        lambda at: (lake_of(at) / "catalog.db").write_text("x" * 5000), "run", ["no SQLite"],
    ),
    "catalog is a folder": (lambda at: (at / "lake/catalog.db").mkdir(parents=True), LOOK, ["db"]),
    "catalog is cut": (
        lambda at: os.truncate(lake_of(at) / "catalog.db", 6000), LOOK, ["catalog.db", "damaged"],
    ),
    "metadata is gone": (lambda at: metadata(at).unlink(), LOOK, ["not there", "Put it back"]),
    "metadata is empty": (lambda at: emptied(metadata(at)), LOOK, ["metadata.json"]),
    "metadata is cut": (lambda at: os.truncate(metadata(at), 100), LOOK, ["metadata.json"]),
    "no configuration": (lambda at: shutil.rmtree(at / "conf"), "run", ["conf", "no such folder"]),
    "no configuration to look at": (lambda at: shutil.rmtree(at / "conf"), LOOK, ["no such folder"]),
    "no globals.yml": (lambda at: (at / GLOBALS).unlink(), "run", ["sources.yml, line 3", "globals.yml"]),
    "no spark.yml": (lambda at: (at / "conf/base/spark.yml").unlink(), LOOK, ["spark.yml"]),
    "tables.yml is no text": (lambda at: (at / TABLES).write_bytes(b"\x00\xff\x01"), "run", ["tables.yml"]),
    "tables.yml is JSON": (lambda at: (at / TABLES).write_text('{"shop.item": ['), "run", ["tables.yml"]),
    "sources.yml is empty": (lambda at: emptied(at / SOURCES), "run", ["no source 'shop'"]),
    "no sources.yml": (lambda at: (at / SOURCES).unlink(), LOOK, ["no source 'shop'"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", FILES_WRONG)
def test_files_that_are_missing_empty_cut_or_of_another_kind(root, mistake):
    change, command, parts = FILES_WRONG[mistake]
    change(root)
    said = message(command)
    for part in parts:
        assert part in said


LOOKING = [
    "tables", "runs", 'sql "select 1"', 'sql "show tables"', "logs", "plugins", "quarantine",
    "snapshots shop.item", "search --list", "changes shop.item --batch 1", "maintain --dry-run",
]  # fmt: skip


@pytest.mark.parametrize("words", LOOKING)
def test_looking_creates_neither_a_catalog_nor_the_lakehouse(root, words):
    before = {path for path in root.rglob("*") if "__pycache__" not in path.parts}
    result = call(f"lakehouse {words}")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert {path for path in root.rglob("*") if "__pycache__" not in path.parts} == before


def test_a_bug_keeps_its_traceback(root, monkeypatch):
    def fail(*_args, **_options):
        raise ZeroDivisionError

    monkeypatch.setattr("kedro.framework.session.KedroSession.run", fail)
    monkeypatch.setattr("kedro_lakehouse.cli.tables.open_project", fail)
    for words in ("run", "lakehouse tables"):
        assert isinstance(call(words).exception, ZeroDivisionError)


def test_a_namespace_that_is_the_beginning_of_tables_names_is_known(root, monkeypatch):
    ran = []
    monkeypatch.setattr(
        "kedro.runner.AbstractRunner.run", lambda _, pipeline, *__, **___: ran.append(pipeline) or {}
    )
    assert call("run --namespaces=shop").exit_code == 0
    assert {node.namespace for node in ran[0].nodes} == {"shop.item", "shop.line"}
