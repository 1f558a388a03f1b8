"""What is declared of a table's files: properties, maintenance.yml and convert.yml are exact."""

import datetime as dt
from functools import partial

import pytest

from kedro_lakehouse.config.convert import load_conversions
from kedro_lakehouse.config.loading import Formats, load_declarations
from kedro_lakehouse.config.maintenance import load_maintenance
from kedro_lakehouse.config.sources import ExtractSourceConfig
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.formats.iceberg.properties import property_problem as iceberg_property_problem
from kedro_lakehouse.names import OWN_FORMAT, TableName
from kedro_lakehouse.project import property_problem

pytestmark = pytest.mark.unit

FORMATS = Formats(["delta", "iceberg"], property_problem=property_problem)
SOURCES = {"s": {"type": "extract", "path": "p", "extract_time": {"from": "modified"}}}


def declared(properties):
    table = {"source": "s", "keys": ["id"], "properties": properties}
    return load_declarations(SOURCES, {"a.b": table}, {"extract": ExtractSourceConfig}, formats=FORMATS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.target-file-size-bytes", "536870912"),
        ("write.delete.mode", "copy-on-write"),
        ("format-version", "3"),
        ("write.parquet.bloom-filter-enabled.column.id", "true"),
        ("write.metadata.metrics.column.a.b", "full"),
        ("custom.owner", "sales"),
    ],
)
def test_known_properties_are_taken(name, value):
    assert iceberg_property_problem(name, value) is None
    assert declared({name: value}).tables[TableName("a", "b")].properties == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("write_target_data_file_size_bytes", "1", "Did you mean 'write.target-file-size-bytes'?"),
        ("write.delete.mod", "copy-on-write", "Did you mean 'write.delete.mode'?"),
        ("write.delete.mode", "merge_on_read", "Did you mean 'merge-on-read'?"),
        ("format-version", "1", "'1' is not allowed."),
        ("write.parquet.bloom-filter-enabled.column", "true", "the column is missing"),
        ("owner", "sales", "Iceberg has no such table property"),
    ],
)
def test_other_properties_are_refused_with_a_suggestion(name, value, told):
    with pytest.raises(ConfigurationError) as caught:
        declared({name: value})
    assert caught.value.key == f"a.b.properties.{name}"
    assert told in caught.value.problem


def test_properties_of_a_format_without_a_rule_are_taken():
    table = {"source": "s", "keys": ["id"], "format": "delta", "properties": {"delta.x": "1"}}
    load_declarations(SOURCES, {"a.b": table}, {"extract": ExtractSourceConfig}, formats=FORMATS)


def test_a_table_differs_from_the_thresholds_of_all_where_it_says_so():
    raw = {
        "compact": {"small_files": 8, "deleted_fraction": 0.5},
        "expire": {"older_than": "3 days"},
        "tables": {"a.b": {"compact": {"small_files": 2}, "enabled": False}},
    }
    found = load_maintenance(raw, ["a.b", "a.c"])
    one, other = found.of(TableName("a", "b")), found.of(TableName("a", "c"))
    assert (one.compact.small_files, one.compact.deleted_fraction, one.enabled) == (2, 0.5, False)
    assert (other.compact.small_files, other.enabled) == (8, True)
    assert one.expire.older_than == other.expire.older_than == dt.timedelta(days=3)
    assert load_maintenance({}, []).orphans.older_than == dt.timedelta(days=3)


@pytest.mark.parametrize(
    ("raw", "key", "told"),
    [
        ({"compat": {}}, "compat", "Did you mean 'compact'?"),
        ({"orphans": {"older_than": "2 hours"}}, "orphans.older_than", "below 1 day"),
        ({"expire": {"older_than": "1 minute"}}, "expire.older_than", "below 1 hour"),
        ({"tables": {"a.x": {}}}, "tables.a.x", "Did you mean 'a.b'?"),
        ({"tables": {"a.b": {"orphans": {"older_than": "1 h"}}}}, "tables.a.b.orphans.older_than", "below"),
        ({"compact": {"small_files": 1}}, "compact.small_files", "at least 2"),
    ],
)
def test_what_maintenance_cannot_mean_is_refused(raw, key, told):
    with pytest.raises(ConfigurationError) as caught:
        load_maintenance(raw, ["a.b"])
    assert (caught.value.file, caught.value.key) == ("maintenance.yml", key)
    assert told in caught.value.problem


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"a.b_changes": {"path": "p"}}, "a.b_changes"),
        ({"a.x": {"path": "p", "file_format": "csv", "mode": "in_place"}}, "a.x.mode"),
        ({"a.x": {"path": "p", "mode": "in_place", "sort_by": ["c"]}}, "a.x.sort_by"),
        (
            {"a.x": {"path": "p", "mode": "in_place", "properties": {"format-version": "3"}}},
            "a.x.properties.format-version",
        ),
        ({"a.x": {"path": "p", "properties": {"write_target": "3"}}}, "a.x.properties.write_target"),
        ({"a": {"path": "p"}}, "a"),
        ({"a.x": {"file_format": "csv"}}, "a.x.path"),
    ],
)
def test_what_cannot_be_converted_is_refused(raw, key):
    with pytest.raises(ConfigurationError) as caught:
        load_conversions(raw, [TableName("a", "b")], partial(property_problem, OWN_FORMAT))
    assert (caught.value.file, caught.value.key) == ("convert.yml", key)
