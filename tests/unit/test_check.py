"""`kedro lakehouse check`: every mistake at once, each with file and line, and nothing else is reported."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import _Active

pytestmark = pytest.mark.unit

PYPROJECT = """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
"""
SPARK = """
spark.sql.extensions: org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:${globals:lakehouse}/catalog.db
spark.sql.catalog.lake.warehouse: ${globals:lakehouse}/warehouse
"""
RIGHT = {
    "sources": """
shop:
  type: dms
  path: ${globals:landing}/shop
""",
    "tables": """
shop.item:
  source: shop
  keys: [id]
  columns: {include: [id, name, amount]}
  checks: {positive: "amount >= 0 and length(name) > 2 and exists(array(1), x -> x > amount)"}
shop.sales:
  derive:
    inputs: {i: shop.item}
    sql: |
      WITH big AS (SELECT * FROM i WHERE amount > 10)
      SELECT b.id, upper(b.name) AS name, amount * 2 AS twice
      FROM big b
      WHERE EXISTS (SELECT 1 FROM i WHERE i.id = b.id)
      ORDER BY twice
  keys: [id]
""",
}
WRONG = {
    "sources": """
shop:
  type: dms
  path: ${globals:landing}/shop
crm:
  type: dmss                                             #! Did you mean 'dms'?
  path: ${globals:landing}/crm
web:
  type: changes
  path: ${globals:landng}/web                            #! Did you mean 'landing'?
rest:
  type: extract
  path: ${globals:landing}/nowhere                       #! there is no folder
  extract_time: {from: modified}
db:
  type: sql
  dialect: postgresql
  connection: {host: localhost, database: shop}
  path: ${globals:landing}/db
  credentials: databse                                   #! Did you mean 'database'?
""",
    "tables": """
shop.item:
  source: shop
  keys: [id]
  columns: {include: [id, name, amount]}
  checks:
    positive: "amont >= 0"                               #! Did you mean 'amount'?
    named: "lenght(name) > 0"                            #! Did you mean 'length'?
    within: "amount between 1 and"                       #! cannot be parsed at 'and'
    open: "amount in (1, 2"                              #! a bracket is never closed
  expectations:
    - {type: expect_column_values_to_not_be_null, column: nam}   #! Did you mean 'name'?
shop.typed:
  source: shop
  keys: [id]
  types:
    amount: decimal(50,2)                                #! is not a type of Spark
shop.line:
  source: shopp                                          #! Did you mean 'shop'?
  keys: [id]
  kyes: [id]                                             #! Did you mean 'keys'?
shop.lost:
  source: shop
  entity: elsewhere                                      #! SOURCE_NOT_FOUND
  keys: [id]
shop.old:
  source: shop
  keys: [id]
  format: delte                                          #! Did you mean 'delta'?
shop.delta:
  source: shop
  keys: [id]
  format: delta                                          #! UNSUPPORTED
shop.prices:
  source: rest
  keys: [id]
shop.pulled:
  source: db
  keys: [id]
  partition_by: ["day(ts, 3)"]                           #! neither a column nor a transform
Shop.Item:                                               #! the table's name
  source: shop
  keys: [id]
shop.sales:
  derive:
    inputs: {i: shop.item, o: shop.ordr}                 #! no current table 'shop.ordr'
    sql: |
      SELECT i.id,
             i.nme AS name,                              --! Did you mean 'name'?
             i.amount
      FROM i JOIN o ON o.id = i.id
      JOIN itms ON itms.id = i.id                        --! there is no input 'itms'
  keys: [id]
shop.totals:
  derive:
    inputs: {i: shop.item}
    sql: SELECT name, sum(amount) AS amount FROM i GROUP BY name
  keys: [nam]                                            #! the query gives no column 'nam'
""",
    "expectations": """
suite:
  expectations:
    - type: expect_table_row_count_to_equal_other_table
      table: shop.item
      other_table: shop.itm                              #! Did you mean 'shop.item'?
    - {type: expect_column_values_to_not_be_null, table: shop.item, column: idd}  #! Did you mean 'id'?
""",
    "monitoring": """
stale_after: {default: 3 dys}                            #! a number with a unit
""",
    "grants": """
analyst:
  - {table: shop.item, columns: {include: [idd]}}        #! Did you mean 'id'?
  - {database: shp}                                      #! Did you mean 'shop'?
""",
    "discovery": """
places:
  - {path: [data                                         #! a bracket
""",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project that loads Iceberg alone; its landing folder has the folders of two tables."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for folder in ("src", "conf/base", "conf/local", *(f"landing/shop/{one}" for one in FOLDERS)):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path, {"globals": f"lakehouse: {tmp_path}/lake\nlanding: {tmp_path}/landing\n", "spark": SPARK})
    (tmp_path / "conf/local/credentials.yml").write_text("database: {user: u, password: hush-hush}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("kedro_lakehouse.environment.get_session", lambda *_: pytest.fail("Spark started"))
    return tmp_path


FOLDERS = ("item", "typed", "line", "old", "delta")


def write(root, files):
    for name, text in files.items():
        (root / f"conf/base/{name}.yml").write_text(text, encoding="utf-8")


def check(*words):
    return CliRunner().invoke(lakehouse, ["check", *words])


def planted(files):
    """The file and line of each planted mistake, with words of what is said of it."""
    return {
        (f"conf/base/{name}.yml", number): line.partition("! ")[2]
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if "#! " in line or "--! " in line
    }


def test_a_project_without_mistakes_ends_well(root):
    write(root, RIGHT)
    done = check()
    assert done.exit_code == 0, done.output
    assert "No mistake in 2 tables, 1 source and 2 texts of SQL" in done.stdout
    assert not (root / "lake").exists()


def test_all_planted_mistakes_are_told_at_once_with_file_and_line(root):
    write(root, WRONG)
    done, wanted = check("--output", "json"), planted(WRONG)
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)["mistakes"]
    assert len(wanted) >= 20
    assert {(one["file"], one["line"]) for one in found} == wanted.keys(), done.stdout
    for one in found:
        said = f"{one['code']} {one['problem']}"
        assert wanted[one["file"], one["line"]] in said, one
        assert one["remedy"].endswith("."), one
    assert "hush-hush" not in done.output


def test_a_block_that_is_no_yaml_hides_only_itself(root):
    tables = RIGHT["tables"] + "shop.bad:\n\tsource: shop\nshop.line:\n  source: shop\n  keyz: [id]\n"
    write(root, RIGHT | {"tables": tables})
    (root / "landing/shop/bad").mkdir()
    done = check()
    assert done.exit_code == 1
    assert "2 mistakes in 1 file" in done.stdout
    assert "line 18: YAML  [CONFIGURATION]\n    a tab stands where YAML wants blanks." in done.stdout
    assert "line 21: shop.line.keyz  [CONFIGURATION]" in done.stdout


def test_what_follows_from_a_mistake_is_not_told(root):
    tables = (
        "a.b: {source: shop, keys: 7}\na.c: {derive: {inputs: {b: a.b}, sql: SELECT * FROM b}, keys: [x]}\n"
    )
    write(root, RIGHT | {"tables": tables})
    found = json.loads(check("--json").stdout)["mistakes"]
    assert [(one["line"], one["key"]) for one in found] == [(1, "a.b.keys")]


def test_places_beyond_this_machine_are_asked_only_where_that_is_wanted(root):
    sources = "shop: {type: dms, path: memory://no/such/place}\n"
    write(root, RIGHT | {"sources": sources})
    assert check().exit_code == 0
    (one,) = json.loads(check("--reach", "--json").stdout)["mistakes"]
    assert (one["code"], one["key"]) == ("SOURCE_NOT_FOUND", "shop.item.entity")


def test_a_line_that_cannot_be_filled_in_is_told_once(root):
    write(root, RIGHT | {"sources": "shop:\n  type: dms\n  path: ${oc.env:NO_SUCH_PLACE}/shop\n"})
    found = json.loads(check("--json").stdout)["mistakes"]
    assert [(one["file"], one["line"]) for one in found] == [("conf/base/sources.yml", 3)]
    assert "NO_SUCH_PLACE is not set" in found[0]["problem"]


def test_an_environment_that_is_not_there_is_told_as_by_every_command(root):
    write(root, RIGHT)
    done = check("--env", "nowhere")
    assert done.exit_code == 1
    assert "conf/nowhere does not exist" in done.output
    for words in (("--output", "json"), ("--output=json",), ("--json",)):
        error = json.loads(check("--env", "nowhere", *words).stderr)["error"]
        assert (error["code"], "conf/nowhere" in error["message"]) == ("CONFIGURATION", True)


def test_columns_are_known_from_landed_files_before_anything_ran(root):
    tables = "shop.raw: {source: shop, keys: [id], rename: {nm: name}, checks: {named: length(nam) > 0}}\n"
    write(root, RIGHT | {"tables": tables})
    (root / "landing/shop/raw").mkdir()
    assert check().exit_code == 0
    columns = {"Op": ["I"], "id": [1], "nm": ["x"]}
    pq.write_table(pa.table(columns), root / "landing/shop/raw/20260101.parquet")
    (one,) = json.loads(check("--json").stdout)["mistakes"]
    assert one["problem"] == "there is no column 'nam'. Did you mean 'name'?"
