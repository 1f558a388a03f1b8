"""The JSON Schemas of the YAML files: what is shipped passes, what a schema can know to be wrong does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.json_schema import FILES, PARTIAL
from kedro_lakehouse.project import file_schemas

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src/kedro_lakehouse/schema_files"
BUNDLED = [
    file
    for place in ("conf", "examples/*/conf", "src/kedro_lakehouse/starter/conf")
    for file in sorted(ROOT.glob(f"{place}/*/*.yml"))
    if file.stem in FILES
]


class TextDates(yaml.SafeLoader):
    """Reads YAML as editors do: a date is a text."""


TextDates.yaml_implicit_resolvers = {
    first: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def mistakes(name, text):
    schema = json.loads((SHIPPED / name).read_text(encoding="utf-8"))
    return [
        one.message
        for one in jsonschema.Draft7Validator(schema).iter_errors(yaml.load(text, TextDates))  # noqa: S506
    ]


def named_schema(file):
    """The schema that a file's first line names, as an editor resolves it."""
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema="), file
    return first.partition("$schema=")[2]


def test_every_schema_is_one_of_draft_7():
    for file in sorted(SHIPPED.glob("*.json")):
        jsonschema.Draft7Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))
    assert {file.name for file in SHIPPED.glob("*.json")} == {
        f"{name}{ending}" for name in FILES for ending in (".json", PARTIAL)
    }


@pytest.mark.parametrize("file", BUNDLED, ids=lambda file: str(file.relative_to(ROOT)))
def test_bundled_files_name_their_schema_and_pass(file):
    named = named_schema(file)
    in_starter = "starter" in file.parts
    assert in_starter or (file.parent / named).resolve().parent == SHIPPED
    name = Path(named).name
    assert name == f"{file.stem}{'.json' if file.parent.name == 'base' else PARTIAL}"
    assert mistakes(name, file.read_text(encoding="utf-8")) == []


def test_what_kedro_fills_in_and_a_writers_own_entries_pass():
    text = """
_common: &common {anything: [1, {x: y}]}
shop:
  type: extract
  path: ${globals:landing}/shop
  extract_time: {from: modified}
  max_files: ${globals:files}
other:
  type: "dms"
  path: x
  shared: "${globals:shared}"
  csv: {header: null}
"""
    assert mistakes("sources.json", text) == []
    text = """
_keys: &keys [id]
shop.order: {source: shop, keys: *keys, history: "${globals:history}", changes_retention: 90 days}
shop.line: {source: "${globals:source}", write: append, types: {amount: "decimal(10, 2)", at: TIMESTAMP}}
"""
    assert mistakes("tables.json", text) == []


def test_an_environments_file_may_hold_a_part():
    part = "shop: {path: s3://bucket/shop}\n"
    assert mistakes("sources.env.json", part) == []
    assert mistakes("sources.json", part)
    assert mistakes("tables.env.json", "shop.order: {rename: {a: b}}\n") == []
    assert mistakes("tables.env.json", "shop.order: {renam: {a: b}}\n")


SOURCE = "type: extract, path: x, extract_time: {from: modified}"
TABLE = "source: s, keys: [id]"
WRONG = {
    "an unknown key": ("tables", f"a.b: {{{TABLE}, histroy: true}}"),
    "no type": ("sources", "s: {path: x}"),
    "an unknown type": ("sources", "s: {type: dsm, path: x}"),
    "a key of another type": ("sources", f"s: {{{SOURCE}, sequence_column: x}}"),
    "no path": ("sources", "s: {type: dms}"),
    "an unknown format": ("sources", f"s: {{{SOURCE}, file_format: xml}}"),
    "a time without its pattern": ("sources", "s: {type: extract, path: x, extract_time: {from: name}}"),
    "a size without unit": ("sources", f"s: {{{SOURCE}, max_bytes: 2 gigs}}"),
    "a pattern that leaves the folder": ("sources", f"s: {{{SOURCE}, pattern: ../x}}"),
    "a header that is no truth value": ("sources", f"s: {{{SOURCE}, csv: {{header: maybe}}}}"),
    "no keys": ("tables", "a.b: {source: s}"),
    "keys with append": ("tables", "a.b: {source: s, write: append, keys: [id]}"),
    "a key that is no list": ("tables", "a.b: {source: s, keys: id}"),
    "no source": ("tables", "a.b: {keys: [id]}"),
    "two origins": ("tables", f"a.b: {{{TABLE}, derive: {{inputs: {{i: a.c}}, sql: select 1}}}}"),
    "a name without namespace": ("tables", f"order: {{{TABLE}}}"),
    "an unknown type of a column": ("tables", f"a.b: {{{TABLE}, types: {{x: integr}}}}"),
    "an unknown transform": ("tables", f"a.b: {{{TABLE}, partition_by: ['weeks(at)']}}"),
    "a fraction above one": ("tables", f"a.b: {{{TABLE}, max_delete_fraction: 30}}"),
    "a duration without unit": ("tables", f"a.b: {{{TABLE}, changes_retention: 90 dayz}}"),
    "an unknown choice": ("tables", f"a.b: {{{TABLE}, on_tie: newest}}"),
    "a choice of both": ("tables", f"a.b: {{{TABLE}, columns: {{include: [a], exclude: [b]}}}}"),
    "an unknown expectation": ("tables", f"a.b: {{{TABLE}, expectations: [{{type: expect_nothing}}]}}"),
    "an expectation without its column": (
        "tables",
        f"a.b: {{{TABLE}, expectations: [{{type: expect_column_values_to_be_unique}}]}}",
    ),
    "a key of another expectation": (
        "expectations",
        "s: {expectations: [{type: expect_table_to_be_fresh, table: a.b, max_age: 1 day, mostly: 1}]}",
    ),
    "a threshold of one file": ("maintenance", "compact: {small_files: 1}"),
    "an unknown notifier": ("monitoring", "notifiers: {n: {type: pigeon}}"),
    "a grant on two things": ("grants", "analyst: [{table: a.b, tag: x}]"),
    "an unknown mask": ("grants", "masks: {personal: blur}"),
    "a place that is two": ("discovery", "places: [{path: a, catalog: {type: glue}}]"),
    "a port beyond all": ("service", "service: {port: 70000}"),
    "a registry without address": ("registries", "r: {type: confluent}"),
    "a list in the place of a mapping": ("convert", "a.b: [x]"),
    "an unknown measure": ("parameters_column_index", "column_index: {modls: []}"),
}


@pytest.mark.parametrize(("file", "text"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_that_a_schema_can_know_is_refused(file, text):
    assert mistakes(f"{file}.json", text)


@pytest.mark.parametrize(("file", "text"), WRONG.values(), ids=WRONG.keys())
def test_it_is_a_mistake_for_the_package_too(file, text):
    """No schema is stricter than the code that reads the file."""
    from kedro_lakehouse.errors import ConfigurationError

    with pytest.raises(ConfigurationError):
        _loaded(file, yaml.safe_load(text))


def _loaded(file, raw):
    from kedro_lakehouse.config import convert, discovery, grants, loading, maintenance, monitoring, service
    from kedro_lakehouse.config.registries import registry_config
    from kedro_lakehouse.plugins import NOTIFIERS, REGISTRIES, SOURCES, ConfigModels

    def tables(sources, tables, suites=None):
        return loading.load_declarations(sources, tables, ConfigModels(SOURCES), suites)

    source = {"s": {"type": "dms", "path": "x"}}
    readers = {
        "sources": lambda: tables(raw, {}),
        "tables": lambda: tables(source, raw | {"a.c": {"source": "s", "keys": ["id"]}}),
        "expectations": lambda: tables(source, {"a.b": {"source": "s", "keys": ["id"]}}, raw),
        "maintenance": lambda: maintenance.load_maintenance(raw, []),
        "monitoring": lambda: monitoring.load_monitoring(raw, [], ConfigModels(NOTIFIERS)),
        "grants": lambda: grants.load_grants(raw, {}),
        "discovery": lambda: discovery.load_discovery(raw),
        "service": lambda: service.load_service(raw, []),
        "registries": lambda: registry_config(raw, "r", ConfigModels(REGISTRIES)),
        "convert": lambda: convert.load_conversions(raw, [], lambda *_: None),
        "parameters_column_index": lambda: loading.load_column_index(raw),
    }
    return readers[file]()


@only_in_soak
def test_an_editors_validator_says_the_same(tmp_path):
    """check-jsonschema, as `uvx` fetches it: every bundled file passes, every mistake is refused."""

    def validator(schema, file):
        uv = Path(sys.executable).with_name("uv")
        command = [
            str(uv),
            "tool",
            "run",
            "-q",
            "check-jsonschema",
            "--schemafile",
            str(SHIPPED / schema),
            str(file),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for file in BUNDLED:
        told = validator(Path(named_schema(file)).name, file)
        assert told.returncode == 0, (file, told.stdout)
    for file, text in WRONG.values():
        (tmp_path / "wrong.yml").write_text(text, encoding="utf-8")
        assert validator(f"{file}.json", tmp_path / "wrong.yml").returncode == 1, text


def test_the_command_writes_them_with_the_installed_plug_ins(tmp_path):
    told = CliRunner().invoke(lakehouse, ["schema-files", "--to", str(tmp_path / "made"), "--json"])
    assert told.exit_code == 0, told.output
    written = json.loads(told.stdout)["written"]
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == written
    made = json.loads((tmp_path / "made/sources.json").read_text(encoding="utf-8"))
    assert made == file_schemas()["sources"]
    assert {"dms", "extract"} <= set(made["additionalProperties"]["anyOf"][0]["properties"]["type"]["enum"])


def test_keys_say_what_they_mean():
    keys = json.loads((SHIPPED / "tables.json").read_text(encoding="utf-8"))["definitions"]["TableConfig"]
    assert keys["properties"]["write"]["description"].startswith("How a batch is applied")
    assert all(one.get("description") for name, one in keys["properties"].items() if name != "pull")
