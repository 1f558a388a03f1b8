"""Declarations of lifetimes: of rows in a table, and of files in S3."""

import datetime as dt

import pytest

from kedro_lakehouse.config.lifetimes import RetentionConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.maintenance import load_maintenance
from kedro_lakehouse.config.sources import ChangesSourceConfig
from kedro_lakehouse.errors import ConfigurationError

pytestmark = pytest.mark.unit

SOURCE = {"type": "changes", "path": "in", "pattern": "*.csv", "file_format": "csv", "op_column": "op"}
TABLE = {"source": "shop", "keys": ["id"], "order_by": ["n"]}
AGING = {"after": "730 days", "column": "sold_at"}


def load(tables, **source):
    return load_declarations({"shop": SOURCE | source}, tables, {"changes": ChangesSourceConfig})


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        ({"retention": {"after": "730 days"}}, "retention.column", ["missing"]),
        ({"retention": AGING | {"after": "36 hours"}}, "retention.after", ["days"]),
        ({"retention": AGING | {"to": "glacier"}}, "retention.to", ["archive", "delete"]),
        ({"retention": AGING | {"too": "x"}}, "retention.too", ["Did you mean 'to'"]),
        ({"retention": AGING | {"column": "_order"}}, "retention.column", ["reserved"]),
        ({"retention": AGING, "types": {"sold_at": "string"}}, "retention.column", ["declared as string"]),
        ({"retention": AGING, "columns": {"exclude": ["sold_at"]}}, "retention.column", ["leaves out"]),
        ({"retention": AGING, "columns": {"include": ["v"]}}, "retention.column", ["leaves out"]),
        ({"retention": AGING, "current": False, "history": True}, "retention", ["current table"]),
        ({"retention": AGING, "keys": [], "write": "replace"}, "retention", ["one by one"]),
    ],
)
def test_a_wrong_lifetime_is_named_with_its_remedy(keys, key, words):
    with pytest.raises(ConfigurationError) as refused:
        load({"shop.sale": TABLE | keys})
    assert (refused.value.file, refused.value.key) == ("tables.yml", f"shop.sale.{key}")
    for word in words:
        assert word in str(refused.value)


def test_no_table_is_made_from_one_whose_rows_leave_it():
    spent = {"derive": {"inputs": {"s": "shop.sale"}, "sql": "select id, n from s"}, "keys": ["id"]}
    with pytest.raises(ConfigurationError, match=r"old rows leave 'shop\.sale'") as refused:
        load({"shop.sale": TABLE | {"retention": AGING}, "shop.spent": spent})
    assert refused.value.key == "shop.spent.derive.inputs"
    with pytest.raises(ConfigurationError, match="those of its query"):
        load({"shop.sale": TABLE, "shop.spent": spent | {"retention": AGING}})


@pytest.mark.parametrize(
    ("name", "what"), [("shop.sale_all", "its archive"), ("shop.sale_archive", "archive")]
)
def test_the_names_of_the_archive_are_taken(name, what):
    with pytest.raises(ConfigurationError, match=what) as refused:
        load({"shop.sale": TABLE | {"retention": AGING}, name: TABLE})
    assert refused.value.key == name


def test_rows_are_old_from_the_start_of_a_day_on():
    retention = RetentionConfig.model_validate(AGING | {"after": "10 days"})
    start = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    assert retention.limit(dt.datetime(2026, 3, 11, 23, 59, tzinfo=dt.UTC)) == start
    east = dt.timezone(dt.timedelta(hours=5))
    assert retention.limit(dt.datetime(2026, 3, 12, 4, 59, tzinfo=east)) == start


@pytest.mark.parametrize(
    ("lifetime", "key"),
    [
        ({"cold_after": "90 days", "delete_after": "30 days"}, "lifetime.delete_after"),
        ({"delete_after": "30 days"}, "lifetime.delete_after"),  # it is cold after 90 days by default
        ({"cold_after": "90 minutes"}, "lifetime.cold_after"),
        ({"cold_class": "FREEZER"}, "lifetime.cold_class"),
    ],
)
def test_a_wrong_lifetime_of_files_is_named(lifetime, key):
    with pytest.raises(ConfigurationError) as refused:
        load({}, lifetime=lifetime)
    assert (refused.value.file, refused.value.key) == ("sources.yml", f"shop.{key}")


def test_what_lies_beside_the_tables_has_lifetimes_of_its_own():
    found = load_maintenance({"lifetimes": {"logs": {"delete_after": "400 days"}}}, ["shop.sale"]).lifetimes
    assert found.logs.delete_after == dt.timedelta(days=400)
    assert found.leases.delete_after == dt.timedelta(days=1)
    assert found.reports.delete_after is None
    with pytest.raises(ConfigurationError) as refused:
        load_maintenance({"lifetimes": {"warehouse": {"delete_after": "400 days"}}}, [])
    assert refused.value.key == "lifetimes.warehouse"
