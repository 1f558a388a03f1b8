"""``kedro lakehouse add``: what it proposes, writes and refuses; no JVM."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from harness.project import ROOT

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import Project

pytestmark = pytest.mark.unit

PROJECT = """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
"""
SPARK = """
spark.sql.catalog.lake.type: jdbc
spark.sql.catalog.lake.uri: jdbc:sqlite:file:{root}/lake/catalog.db
spark.sql.catalog.lake.warehouse: {root}/lake/warehouse
"""
TABLES = "# Mine.\nshop.old: {source: shop, keys: [id]}  # kept\n"
SOURCES = "shop: {type: dms, path: '${globals:landing}/shop'}\n"
ORDERS = "order_id,customer,amount,updated_at\n1,a,2.5,2026-01-01 00:00:00\n2,b,NA,2026-01-02 00:00:00\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = tmp_path / "project"
    for name in ("src", "conf/base", "conf/local", "conf/other", "data/01_raw"):
        (root / name).mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "conf/base/globals.yml").write_text("landing: ${project_path:data/01_raw}\n")
    (root / "conf/base/spark.yml").write_text(SPARK.format(root=root))
    (root / "conf/base/tables.yml").write_text(TABLES)
    (root / "conf/base/sources.yml").write_text(SOURCES)
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return root


def land(root, path, content):
    file = root / "data/01_raw" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content, encoding="utf-8")
    return str(file.relative_to(root))


def add(*words):
    return CliRunner().invoke(lakehouse, ["add", *words])


def added(*words):
    """What the command says that it proposes."""
    told = add(*words, "--show", "--json")
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def written(root, name, env="base"):
    return yaml.safe_load((root / f"conf/{env}/{name}.yml").read_text(encoding="utf-8"))


def test_the_blocks_are_added_below_what_is_there_and_load(root):
    file = land(root, "shop/order/2026-01-01.csv", ORDERS)
    told = add(str(Path(file).parent), "--yes")
    assert told.exit_code == 0, told.output
    assert (root / "conf/base/tables.yml").read_text().startswith(TABLES)
    assert (root / "conf/base/sources.yml").read_text().startswith(SOURCES)
    assert written(root, "sources")["shop_order"] == {
        "type": "extract", "path": "${globals:landing}/shop", "file_format": "csv", "pattern": "*.csv",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
        "csv": {"delimiter": ",", "quote": '"', "header": True, "null_value": "NA"},
    }  # fmt: skip
    assert written(root, "tables")["shop.order"] == {
        "source": "shop_order", "entity": "order", "keys": ["order_id"],
        "types": {"order_id": "bigint", "amount": "double", "updated_at": "timestamp_ntz"},
    }  # fmt: skip
    assert "shop.order" in map(str, Project.load(str(root / "conf"), None).declarations.tables)
    assert "# Key: order_id (unique and without null in 2 rows, named like an id" in told.stdout
    assert str(root) not in (root / "conf/base/tables.yml").read_text()


def test_nothing_is_written_without_a_yes(root):
    file = land(root, "shop/item.csv", "id,name\n1,a\n2,b\n")
    before = {path: path.read_bytes() for path in (root / "conf").rglob("*.yml")}
    assert "shop.item:" in add(file, "--show").stdout
    asked = add(file)
    assert asked.exit_code == 2
    assert "add --yes" in asked.output
    assert {path: path.read_bytes() for path in (root / "conf").rglob("*.yml")} == before


def test_a_declared_table_is_refused(root):
    file = land(root, "shop/old.csv", "id\n1\n2\n")
    told = add(file, "--yes")
    assert told.exit_code == 1
    assert "declared already" in told.output
    assert (root / "conf/base/tables.yml").read_text() == TABLES
    assert added(file, "--name", "shop.new")["tables"].keys() == {"shop.new"}


def test_an_environment_gets_them_where_it_is_named(root):
    file = land(root, "shop/item.csv", "id,name\n1,a\n2,b\n")
    assert add(file, "--yes", "--env", "other").exit_code == 0
    assert set(written(root, "tables", "other")) == {"shop.item"}
    assert written(root, "tables") == yaml.safe_load(TABLES)


def test_blocks_that_the_project_cannot_load_are_taken_back(root):
    (root / "conf/base/tables.yml").write_text("shop.a: {source: shop, keys: [id], history: true}\n")
    before = (root / "conf/base/tables.yml").read_bytes()
    file = land(root, "shop/a_history.csv", "id,name\n1,a\n2,b\n")
    told = add(file, "--yes")
    assert told.exit_code == 1, told.output
    assert (root / "conf/base/tables.yml").read_bytes() == before
    assert written(root, "sources") == yaml.safe_load(SOURCES)


@pytest.mark.parametrize(
    "text", ["", "{}\n", "# Only this.\n", "# This.\n{}\n", "shop.old: {source: shop, keys: [id]}"]
)
def test_files_without_blocks_take_them(root, text):
    (root / "conf/base/tables.yml").write_text(text)
    assert add(land(root, "shop/item.csv", "id,name\n1,a\n2,b\n"), "--yes").exit_code == 0
    assert "shop.item" in written(root, "tables")
    assert all(
        line in (root / "conf/base/tables.yml").read_text() for line in text.splitlines() if line != "{}"
    )


def test_a_file_in_braces_is_left_as_it_is(root):
    text = "{shop.old: {source: shop, keys: [id]}}\n"
    (root / "conf/base/tables.yml").write_text(text)
    told = add(land(root, "shop/item.csv", "id,name\n1,a\n2,b\n"), "--yes")
    assert told.exit_code == 1
    assert "in braces" in told.output
    assert (root / "conf/base/tables.yml").read_text() == text


def test_line_ends_stay_those_of_the_file(root):
    (root / "conf/base/tables.yml").write_bytes(TABLES.replace("\n", "\r\n").encode())
    assert add(land(root, "shop/item.csv", "id,name\n1,a\n2,b\n"), "--yes").exit_code == 0
    content = (root / "conf/base/tables.yml").read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > 3


def test_tables_of_a_folder_share_a_source_where_it_is_the_same(root):
    for name in ("order", "customer"):
        land(root, f"crm/{name}/1.csv", f"{name}_id,v\n1,x\n2,y\n")
        land(root, f"crm/{name}/2.csv", f"{name}_id,v\n3,x\n4,y\n")
    found = added("data/01_raw/crm")
    assert set(found["sources"]) == {"crm"}
    assert {name: block["source"] for name, block in found["tables"].items()} == {
        "crm.order": "crm", "crm.customer": "crm",
    }  # fmt: skip


def test_a_source_that_is_declared_already_is_used_again(root):
    first = land(root, "crm/order/1.csv", "order_id,v\n1,x\n2,y\n")
    land(root, "crm/item/1.csv", "item_id,v\n1,x\n2,y\n")
    assert add(str(Path(first).parent), "--yes").exit_code == 0
    found = added("data/01_raw/crm/item")
    assert found["sources"] == {}
    assert found["tables"]["crm.item"]["source"] == "crm_order"


def test_an_array_of_json_and_a_column_without_name_have_their_options(root):
    array = added(land(root, "a/x.json", '[{"id": 1, "v": 1.50}, {"id": 2, "v": "odd"}]'))
    ((_, source),) = array["sources"].items()
    assert (source["json_layout"], array["tables"]["a.x"]["types"]) == ("array", {"id": "bigint"})
    frame = added(land(root, "r/mtcars.csv", '"","mpg"\n"Mazda",21.0\n"Datsun",22.8\n"Hornet",21.4\n'))
    ((_, source),) = frame["sources"].items()
    assert (source["csv"]["unnamed"], frame["tables"]["r.mtcars"]["keys"]) == ("row_name", ["row_name"])
    counted = added(land(root, "r/iris.csv", '"","width"\n"1",2.5\n"2",2.5\n"3",4.5\n'))
    assert counted["tables"]["r.iris"]["write"] == "replace"


def test_text_in_another_encoding_and_lines_with_blanks_are_read(root):
    latin = added(land(root, "a/x.csv", "straße,id\nü,1\nö,2\n".encode("latin-1")))
    ((_, source),) = latin["sources"].items()
    assert source["csv"]["encoding"] == "ISO-8859-1"
    packed = gzip.compress(b"59 2 32.1\n48 1 21.6\n72 2 30.5\n")
    blanks = added(land(root, "a/y.csv.gz", packed))
    ((_, source),) = blanks["sources"].items()
    assert (source["csv"]["delimiter"], source["csv"]["header"]) == (" ", False)
    assert source["csv"]["columns"] == ["column1", "column2", "column3"]


def test_a_first_line_that_names_no_columns_is_passed_over(root):
    lines = "3,2,setosa,virginica\n" + "5.1,3.5,1.4,0.2,0\n" * 3
    found = added(land(root, "a/x.csv", lines))
    ((_, source),) = found["sources"].items()
    assert source["csv"]["columns"] == [f"column{n}" for n in range(1, 6)]
    assert source["csv"]["header"] is True
    frame = added(land(root, "a/y.csv", "mpg,cyl\nMazda,21.0,6\nDatsun,22.8,4\nHornet,21.4,6\n"))
    ((_, source),) = frame["sources"].items()
    assert source["csv"]["columns"] == ["row_name", "mpg", "cyl"]
    ended = added(land(root, "a/z.csv", "id,name\n1,Ann,\n2,Bob,\n"))
    ((_, source),) = ended["sources"].items()
    assert source["csv"]["columns"] == ["id", "name", "column3"]
    assert frame["tables"]["a.y"]["keys"] == ["row_name"]


def test_a_broken_line_does_not_hide_the_delimiter(root):
    lines = "Symbol,Name,Sector\n" + "".join(f's{n},"Name, {n}",x\n' for n in range(30)) + "s31,Name,x,odd\n"
    found = added(land(root, "a/x.csv", lines))
    ((_, source),) = found["sources"].items()
    assert (source["csv"]["delimiter"], found["tables"]["a.x"]["keys"]) == (",", ["Symbol"])


def test_files_that_repeat_their_keys_are_extracts_of_one_table(root):
    for day in (1, 2, 3):
        land(
            root,
            f"price/2026-01-0{day}.csv",
            "".join(["sku,price\n", *(f"s{n},{n + day}\n" for n in range(9))]),
        )
    found = added("data/01_raw/price")
    ((_, source),) = found["sources"].items()
    assert (source["type"], source["extract_time"]) == ("extract", {"from": "name", "pattern": "%Y-%m-%d"})
    ((_, table),) = found["tables"].items()
    assert table["keys"] == ["sku"]


@pytest.mark.parametrize(
    ("name", "files", "pattern"),
    [
        ("sales_2026_10.csv", "sales_*.csv", "%Y_%m"),
        ("sales_2026-10.csv", "sales_*.csv", "%Y-%m"),
        ("sales 05.10.2026.csv", "sales *.csv", "%d.%m.%Y"),
        ("sales_2026_10_05.csv", "sales_*.csv", "%Y_%m_%d"),
    ],
)
def test_a_file_named_after_a_time_leaves_room_for_the_next(root, name, files, pattern):
    ((_, source),) = added(land(root, f"shop/{name}", ORDERS))["sources"].items()
    assert (source["pattern"], source["extract_time"]) == (files, {"from": "name", "pattern": pattern})


def test_extracts_whose_columns_were_renamed_are_one_table(root):
    rows = "".join(f"s{n},x{n},y\n" for n in range(9))
    land(root, "sp/list/2026-01-01_f8d9c4a0_c.csv", f"Symbol,Name,Sector\n{rows}")
    land(root, "sp/list/2026-02-01_6517cdbb_c.csv", f"Symbol,Security,GICS Sector\n{rows}")
    land(root, "sp/list/2026-03-01_41745e94_c.csv", f"Symbol,Security,GICS Sector\n{rows}")
    found = added("data/01_raw/sp")
    assert {name: block["keys"] for name, block in found["tables"].items()} == {"sp.list": ["Symbol"]}
    ((_, source),) = found["sources"].items()
    assert (source["type"], source["pattern"]) == ("extract", "*.csv")


def test_full_loads_beside_changes_of_a_dms_task_have_its_source(root):
    frame = pa.table({"id": [1, 2], "change_seq": ["1", "2"], "last_update_time": ["a", "b"]})
    for name, file, rows in (
        ("a", "LOAD1.parquet", frame), ("a", "x.parquet", frame.add_column(0, "Op", pa.array(["I", "U"]))),
        ("b", "LOAD1.parquet", frame),
    ):  # fmt: skip
        (root / f"data/01_raw/dms/{name}").mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, root / f"data/01_raw/dms/{name}/{file}")
    found = added("data/01_raw/dms")
    assert {name: source["type"] for name, source in found["sources"].items()} == {"dms": "dms"}
    assert {block["source"] for block in found["tables"].values()} == {"dms"}


def test_files_in_dated_folders_are_one_table(root):
    land(root, "shop/event/2026/01/05/a.jsonl", '{"event_id": 1, "at": "2026-01-05T00:00:00Z"}\n')
    land(root, "shop/event/2026/01/06/a.jsonl", '{"event_id": 2, "at": "2026-01-06T00:00:00Z"}\n')
    found = added("data/01_raw/shop/event")
    assert found["tables"].keys() == {"shop.event"}
    assert found["tables"]["shop.event"]["types"]["at"] == "timestamp"


def test_changes_with_a_later_row_of_a_key_are_merged(root):
    rows = "id,v,updated_at\n{}"
    land(root, "c/a.csv", rows.format("".join(f"{n},x,2026-01-01 00:00:00\n" for n in range(20))))
    land(
        root,
        "c/b.csv",
        rows.format("3,y,2026-01-02 00:00:00\n30,y,2026-01-02 00:00:00\n31,y,2026-01-02 00:00:00\n"),
    )
    found = added("data/01_raw/c")
    ((_, source),) = found["sources"].items()
    ((_, table),) = found["tables"].items()
    assert (source["type"], table["keys"], table["order_by"]) == ("changes", ["id"], ["updated_at"])


def test_a_dataset_of_the_catalog_is_looked_at_under_its_name(root):
    land(root, "x/y.parquet", "")
    pq.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), root / "data/01_raw/x/y.parquet")
    entry = {"type": "pandas.ParquetDataset", "filepath": "data/01_raw/x/y.parquet"}
    (root / "conf/base/catalog.yml").write_text(yaml.safe_dump({"crm.Orders": entry, "other": entry}))
    assert added("crm.Orders")["tables"].keys() == {"crm.orders"}
    assert added("other")["tables"]["x.other"]["keys"] == ["id"]
    unknown = add("crm.Order")
    assert unknown.exit_code == 1
    assert "Did you mean 'crm.Orders'?" in unknown.output


@pytest.fixture
def sqlite_source(root, monkeypatch):
    """The example's source of a third party, installed; a file of SQLite with two tables."""
    installed = root / "plugins/lakehouse_sqlite-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehouse-sqlite\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(
        "[kedro_lakehouse.sources]\nsqlite = lakehouse_sqlite:SqliteSource\n"
    )
    for folder in (root / "plugins", ROOT / "examples/sqlite-source/src"):
        monkeypatch.syspath_prepend(str(folder))
    with sqlite3.connect(root / "crm.db") as base:
        base.execute("create table customer (id integer primary key, name text)")
        base.execute("create table log (at text)")
    base.close()

    def declare(mode):
        source = {
            "type": "sqlite",
            "path": "${globals:landing}/crm",
            "database": str(root / "crm.db"),
            "mode": mode,
        }
        (root / "conf/base/sources.yml").write_text(
            yaml.safe_dump({"shop": yaml.safe_load(SOURCES)["shop"], "crm": source})
        )

    return declare


def test_an_entity_of_a_database_has_the_key_that_its_catalog_names(root, sqlite_source):
    sqlite_source("full")
    assert added("crm.customer")["tables"]["crm.customer"] == {
        "source": "crm",
        "entity": "customer",
        "keys": ["id"],
    }
    assert added("crm.log")["tables"]["crm.log"]["write"] == "replace"
    told = add("crm.customer", "--yes")
    assert told.exit_code == 0, told.output
    assert set(written(root, "tables")) == {"shop.old", "crm.customer"}
    assert "it has no 'nothing'" in add("crm.nothing").output
    (root / "conf/base/tables.yml").write_text(TABLES)
    sqlite_source("snapshot")
    assert added("crm.log")["tables"]["crm.log"]["write"] == "append"


def test_what_is_no_data_is_refused_with_the_reason(root):
    told = add(land(root, "a/broken.parquet", "no parquet"))
    assert told.exit_code == 1
    assert "it is no readable parquet" in told.output
    assert "SOURCE_NOT_FOUND" in add("data/01_raw").output or add("data/01_raw").exit_code == 1


def test_a_name_is_for_one_table(root):
    land(root, "b/x.csv", "id\n1\n2\n")
    land(root, "b/y.csv", "name,v\na,1\nb,2\n")
    assert "--name is for one table" in add("data/01_raw/b", "--name", "b.c").output
    assert "INVALID_NAME" in add("data/01_raw/b/x.csv", "--name", "nothing").output


def test_it_shows_nothing_to_a_role(root):
    assert add("data/01_raw", "--as", "analyst").exit_code == 2
