"""``kedro lakehouse init``: what it writes, and what it leaves alone."""

import json
import sys

import pytest
import yaml
from click.testing import CliRunner

from kedro_lakehouse.cli.lakehouse import lakehouse

pytestmark = pytest.mark.unit

WRITTEN = {
    "conf/base/catalog_lakehouse.yml",
    "conf/base/globals.yml",
    "conf/base/sources.yml",
    "conf/base/spark.yml",
    "conf/base/tables.yml",
    "conf/log4j2.properties",
}
PROJECT = """
[tool.kedro]
package_name = "kedro_lakehouse"
project_name = "shop"
kedro_init_version = "1.7.0"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def init(*words):
    return CliRunner().invoke(lakehouse, ["init", *words])


def files(folder):
    there = {f.relative_to(folder) for f in folder.rglob("*") if f.is_file()}
    return {str(f) for f in there if f.parts[0] not in ("schemas", "pyproject.toml")}


def test_it_writes_the_starting_files_and_says_what_is_left_to_do(folder):
    told = init()
    assert told.exit_code == 0, told.output
    assert files(folder) == WRITTEN
    assert all(name in told.stdout for name in WRITTEN)
    assert "register_with_own()" in told.stdout
    assert [yaml.safe_load((folder / f"conf/base/{n}.yml").read_text()) for n in ("sources", "tables")] == [
        None
    ] * 2


def test_it_overwrites_nothing_and_then_writes_nothing(folder):
    (folder / "conf/base").mkdir(parents=True)
    (folder / "conf/base/globals.yml").write_text("mine: 1\n")
    refused = init()
    assert refused.exit_code == 1
    assert "globals.yml" in refused.output
    assert "init --keep" in refused.output
    assert files(folder) == {"conf/base/globals.yml"}


def test_with_keep_it_writes_the_others_and_names_the_lacking_keys(folder):
    (folder / "conf/base").mkdir(parents=True)
    (folder / "conf/base/globals.yml").write_text("landing: here\n")
    told = init("--keep")
    assert told.exit_code == 0, told.output
    assert files(folder) == WRITTEN
    assert (folder / "conf/base/globals.yml").read_text() == "landing: here\n"
    lacking = "cache, commit_deadline, conf, driver_memory, lakehouse, small_batch, table_format"
    assert f"globals.yml lacks what the package's own has: {lacking}." in told.stdout


def test_the_first_lines_name_schemas_that_were_written(folder):
    init()
    named = [
        line.partition("$schema=")[2]
        for file in (folder / "conf/base").glob("*.yml")
        for line in file.read_text().splitlines()[:1]
        if "$schema=" in line
    ]
    assert len(named) == 2
    assert all((folder / "conf/base" / name).is_file() for name in named)


def test_with_data_it_declares_its_tables(folder):
    (folder / "data/shop/order").mkdir(parents=True)
    (folder / "data/shop/order/a.csv").write_text("order_id,amount\n1,2.5\n2,3\n")
    told = init("--data", "data/shop")
    assert told.exit_code == 0, told.output
    assert yaml.safe_load((folder / "conf/base/tables.yml").read_text())["shop.order"]["keys"] == ["order_id"]
    assert "shop.order:" in told.stdout


def test_json_tells_what_was_written_and_kept(folder):
    assert set(json.loads(init("--json").stdout)["written"]) == WRITTEN
    again = json.loads(init("--json", "--keep").stdout)
    assert (again["written"], set(again["kept"])) == ([], WRITTEN)


def test_outside_a_kedro_project_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = init()
    assert told.exit_code == 1
    assert "no Kedro project" in told.output
