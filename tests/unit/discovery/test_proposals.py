"""Where files lie and what is proposed for them; each text is YAML, each block a declaration."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from kedro_lakehouse.config.discovery import PlaceConfig, load_discovery
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset
from kedro_lakehouse.discovery.hudi import avro_type
from kedro_lakehouse.discovery.look import find_datasets, look_over
from kedro_lakehouse.discovery.propose import propose, proposed_files
from kedro_lakehouse.errors import ConfigurationError, SourceNotFoundError
from kedro_lakehouse.plugins import SOURCES, ConfigModels

pytestmark = pytest.mark.unit

FILES = FoundDataset(
    name="found.item", kind="csv", location="/data/item", pattern="*.csv", identity="", mark="", files=2,
    columns=(
        FoundColumn(name="id", type="bigint"), FoundColumn(name="updated_at", type="timestamp"),
        FoundColumn(name="mail", type="string", personal="its name says so: mail"),
    ),
    rows=3, keys=(("id",),), read=3, options={"header": True, "delimiter": ";", "quote": '"'},
)  # fmt: skip


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def found_in(root):
    return {one.name.removeprefix("found."): one for one in find_datasets(str(root))}


def test_files_of_one_folder_with_much_the_same_columns_are_one_dataset(tmp_path):
    write(tmp_path, "a/1.csv", "id,name\n1,x\n")
    write(tmp_path, "a/2.csv", "id,name,more\n2,y,z\n")
    write(tmp_path, "b/people.csv", "person,age\n1,30\n")
    write(tmp_path, "b/cities.csv", "city,zip\nBonn,053\n")
    write(tmp_path, "c/year=2025/x.csv", "id\n1\n")
    write(tmp_path, "c/year=2026/x.csv", "id\n2\n")
    write(tmp_path, "_hidden/x.csv", "id\n1\n")
    write(tmp_path, "alone.csv", "id\n1\n")
    found = found_in(tmp_path)
    assert {name: (one.files, one.rows) for name, one in found.items()} == {
        "a": (2, 2), "b_people": (1, 1), "b_cities": (1, 1), "c": (2, 2), "alone": (1, 1),
    }  # fmt: skip
    assert [c.name for c in found["a"].columns] == ["id", "name", "more"]
    assert [(c.name, c.type, c.partition) for c in found["c"].columns][1] == ("year", "bigint", True)
    assert {c.name: c.type for c in found["b_cities"].columns}["zip"] == "string"


def test_what_a_source_would_read_beside_its_own_files_is_not_proposed(tmp_path):
    write(tmp_path, "all/1.csv", "id\n1\n")
    write(tmp_path, "all/2.csv", "id\n2\n")
    write(tmp_path, "all/deeper/x.csv", "name\nx\n")
    found = found_in(tmp_path)
    assert propose(found["all_deeper"]).tables
    assert not propose(found["all"]).tables
    assert "would read them too" in propose(found["all"]).comments[-1]


def test_columns_of_json_keep_their_order_and_nested_ones_are_text(tmp_path):
    write(
        tmp_path,
        "a/x.jsonl",
        '{"id": 1, "at": "2026-01-01T00:00:00Z", "n": 2, "tags": ["x"]}\n{"id": 2, "late": 1}\n',
    )
    (found,) = found_in(tmp_path).values()
    told = [(c.name, c.type) for c in found.columns]
    assert told == [
        ("id", "bigint"), ("at", "timestamp"), ("n", "bigint"), ("tags", "array<string>"), ("late", "bigint"),
    ]  # fmt: skip
    types = propose(found).tables["found.a"]["types"]
    assert types == {"id": "bigint", "at": "timestamp", "n": "bigint", "late": "bigint"}


def test_places_may_overlap_and_the_lakehouse_is_left_out(tmp_path):
    write(tmp_path, "a/x.csv", "id\n1\n")
    write(tmp_path, "lakehouse/warehouse/x.csv", "id\n1\n")
    places = [PlaceConfig(path=str(tmp_path)), PlaceConfig(path=str(tmp_path / "a"), namespace="other")]
    found = look_over(places, apart=str(tmp_path / "lakehouse"))
    assert [one.name for one in found] == ["found.a"]


def test_what_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    write(tmp_path, "a/x.csv", "id,name\n1,x\n2,y\n")
    write(tmp_path, "b/x.jsonl", '{"id": 1}\n')
    place = PlaceConfig(path=str(tmp_path))
    first = look_over([place])
    monkeypatch.setattr("kedro_lakehouse.discovery.file_datasets.look_at_files", lambda *_: 1 / 0)
    assert look_over([place], {(one.location, one.pattern): one for one in first}) == first
    with pytest.raises(ZeroDivisionError):
        look_over([place])


def test_one_file_is_looked_at_alone(tmp_path):
    write(tmp_path, "one.csv", "id\n1\n")
    write(tmp_path, "two.csv", "id\n1\n")
    (found,) = find_datasets(str(tmp_path / "one.csv"))
    assert (found.name, found.pattern) == ("found.one", "one.csv")


def test_files_that_are_not_what_their_names_say_are_left_alone(tmp_path):
    write(tmp_path, "array.json", '[{"id": 1}, 2]')
    write(tmp_path, "half.json", '[{"id": 1}')
    write(tmp_path, "broken.parquet", "no parquet")
    write(tmp_path, "twice.csv", "id,id\n1,2\n")
    (tmp_path / "packed.csv").write_bytes(b"PK\x03\x04\x00\xff")
    (tmp_path / "empty.csv").touch()
    write(tmp_path, "good.csv", "id,v\n1,2\n")
    assert set(found_in(tmp_path)) == {"good"}


def test_a_place_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SourceNotFoundError):
        find_datasets(str(tmp_path / "nowhere"))


def test_every_proposal_is_yaml_and_every_block_loads(tmp_path):
    odd = replace(
        FILES, name="found.odd", columns=(*FILES.columns, FoundColumn(name="a: #b\n", type="string"))
    )
    reserved = replace(
        FILES, name="found.own", columns=(*FILES.columns, FoundColumn(name="_batch", type="bigint"))
    )
    unfit = replace(FILES, name="found.a__b")
    lake = replace(FILES, name="found.lake", kind="iceberg", pattern="")
    sources, tables, catalog = proposed_files([FILES, odd, reserved, unfit, lake])
    load_declarations(yaml.safe_load(sources), yaml.safe_load(tables), ConfigModels(SOURCES))
    assert set(yaml.safe_load(tables)) == {"found.item", "found.odd", "found.own"}
    assert yaml.safe_load(catalog) == {}
    for text in proposed_files([]):
        assert yaml.safe_load(text) == {}


def test_rows_of_several_files_are_merged_where_a_column_says_which_is_later():
    table = propose(FILES).tables["found.item"]
    assert (table["keys"], table["order_by"], table["personal"]) == (["id"], ["updated_at"], ["mail"])
    without = propose(replace(FILES, columns=FILES.columns[::2])).tables["found.item"]
    assert ("keys" in without, without["write"]) == (False, "append")
    single = propose(replace(FILES, files=1))
    assert single.sources["found_item"]["type"] == "extract"
    assert single.tables["found.item"]["keys"] == ["id"]
    dms = propose(
        replace(FILES, kind="parquet", columns=(*FILES.columns, FoundColumn(name="Op", type="string")))
    )
    assert dms.sources["found_item"]["type"] == "dms"


def test_files_at_the_root_of_a_bucket_have_no_proposal():
    proposal = propose(replace(FILES, location="s3://bucket"))
    assert not proposal.tables
    assert "root of its bucket" in proposal.comments[-1]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (["null", "long"], "bigint"),
        (
            {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2},
            "decimal(10,2)",
        ),
        ({"type": "map", "values": ["null", "string"]}, "map<string,string>"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, "struct<a:int>"),
        ({"type": {"type": "int", "logicalType": "date"}}, "date"),
    ],
)
def test_types_of_avro_are_told_as_sparks(schema, kind):
    assert avro_type(schema) == kind


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ({}, "places[0].path"),
        ({"path": "a", "catalog": {"type": "glue"}}, "places[0].path"),
        ({"path": "a", "databases": ["x"]}, "places[0].databases"),
        ({"path": "a", "crawler": {"database": "x"}}, "places[0].crawler"),
        ({"path": "a", "table_prefix": "Delta"}, "places[0].table_prefix"),
        ({"path": "a", "formats": ["orc"]}, "places[0].formats[0]"),
        (
            {"path": "s3://b/c", "table_prefix": {"csv": "c_"}, "crawler": {"database": "x"}},
            "places[0].table_prefix",
        ),
    ],
)
def test_a_mistake_in_discovery_yml_is_named(place, key):
    with pytest.raises(ConfigurationError) as told:
        load_discovery({"places": [place]})
    assert (told.value.file, told.value.key) == ("discovery.yml", key)
