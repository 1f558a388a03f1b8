"""Declarations of enrichment: what is refused names its key; what is declared is known to others."""

import pytest
import yaml

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import ChangesSourceConfig
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pipelines import ingestion, scd2

pytestmark = pytest.mark.unit

SOURCES = {"shop": {"type": "changes", "path": "data", "file_format": "csv"}}
MODELS = {"changes": ChangesSourceConfig}
LOOKUP = {"table": "ref.country", "on": {"country": "name"}, "columns": ["code", "region"]}
BY_TIME = LOOKUP | {"as_of": "event"}
COUNTRY = {"source": "shop", "keys": ["name"], "order_by": ["ts"], "history": True}
ORDERS = {"source": "shop", "keys": ["id"], "order_by": ["ts"], "enrich": [LOOKUP]}


def declared(**tables):
    known = {"ref.country": COUNTRY, "shop.orders": ORDERS}
    given = {name.replace("__", "."): table for name, table in tables.items()}
    return load_declarations(SOURCES, known | given, MODELS)


def test_a_list_of_columns_keeps_their_names():
    one = declared(
        shop__orders=ORDERS | {"enrich": [LOOKUP | {"columns": {"code": "country_code"}}, BY_TIME]}
    )
    first, second = one.tables[TableName("shop", "orders")].enrich
    assert (first.columns, first.as_of) == ({"code": "country_code"}, "arrival")
    assert (second.columns, second.as_of) == ({"code": "code", "region": "region"}, "event")


def test_yaml_reads_on_as_true_and_we_do_not():
    text = "{table: ref.country, on: {country: name}, columns: [code]}"
    assert True in yaml.safe_load(text)
    one = declared(shop__orders=ORDERS | {"enrich": [yaml.safe_load(text)]})
    assert one.tables[TableName("shop", "orders")].enrich[0].on == {"country": "name"}


@pytest.mark.parametrize(
    ("orders", "key", "words"),
    [
        ({"enrich": [LOOKUP | {"columns": []}]}, "enrich[0].columns", "at least 1"),
        ({"enrich": [LOOKUP | {"on": {}}]}, "enrich[0].on", "at least 1"),
        ({"enrich": [LOOKUP | {"as_of": "now"}]}, "enrich[0].as_of", "'now' is not allowed"),
        ({"enrich": [LOOKUP | {"columns": ["_batch"]}]}, "enrich[0].columns._batch", "reserved"),
        (
            {"enrich": [LOOKUP | {"columns": {"code": "x", "region": "X"}}]},
            "enrich[0].columns",
            "'x' is given twice",
        ),
        ({"enrich": [LOOKUP, LOOKUP]}, "enrich", "two lookups give the column 'code'"),
        ({"enrich": [LOOKUP | {"columns": {"code": "country"}}]}, "enrich", "'country' is looked up by"),
        ({"keys": ["id", "code"]}, "keys", "'code' is a column of 'enrich'"),
        ({"order_by": ["code"]}, "order_by", "'code' is a column of 'enrich'"),
        ({"effective_time": "code"}, "effective_time", "'code' is a column of 'enrich'"),
        ({"types": {"region": "int"}}, "types", "'region' is a column of 'enrich'"),
        ({"ignore_null": True}, "ignore_null", "'code' is a column of 'enrich'"),
        ({"ignore_null": ["country"]}, "ignore_null", "'country' is a column of 'enrich'"),
        ({"enrich": [BY_TIME], "reenrich": True}, "reenrich", "there is none"),
        ({"enrich": [], "reenrich": True}, "reenrich", "there is none"),
        ({"keys": [], "write": "append", "reenrich": True}, "write", "with keys"),
        ({"reenrich": True, "changes_retention": "90 days"}, "changes_retention", "kept for a time only"),
        ({"enrich": [LOOKUP | {"table": "ref.contry"}]}, "enrich[0].table", "Did you mean 'ref.country'?"),
        ({"enrich": [LOOKUP | {"table": "shop.orders", "on": {"c": "id"}}]}, "enrich", "made from itself"),
        ({"enrich": [LOOKUP | {"on": {"country": "code"}}]}, "enrich[0].on", "no column for name"),
    ],
)
def test_what_does_not_fit_names_its_key(orders, key, words):
    with pytest.raises(ConfigurationError) as caught:
        declared(shop__orders=ORDERS | orders)
    assert caught.value.key == f"shop.orders.{key}"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("country", "lookup", "key", "words"),
    [
        ({"keys": [], "write": "append", "history": False}, LOOKUP, "table", "has no keys"),
        ({"current": False}, LOOKUP, "table", "keeps no current table"),
        ({"history": False}, BY_TIME, "as_of", "keeps no history"),
        ({"history": {"track": {"exclude": ["region"]}}}, BY_TIME, "columns", "does not track 'region'"),
        ({"history": {"track": {"include": ["region"]}}}, BY_TIME, "columns", "does not track 'code'"),
    ],
)
def test_a_reference_that_cannot_be_looked_up_in_is_refused(country, lookup, key, words):
    with pytest.raises(ConfigurationError) as caught:
        declared(ref__country=COUNTRY | country, shop__orders=ORDERS | {"enrich": [lookup]})
    assert caught.value.key == f"shop.orders.enrich[0].{key}"
    assert words in str(caught.value)


def test_a_derived_table_joins_by_its_query():
    derive = {"inputs": {"o": "shop.orders"}, "sql": "select id from o"}
    with pytest.raises(ConfigurationError) as caught:
        declared(shop__made={"derive": derive, "keys": ["id"], "enrich": [LOOKUP]})
    assert caught.value.key == "shop.made.enrich"


def test_a_circle_over_a_reference_and_a_query_is_refused():
    derive = {"inputs": {"o": "shop.orders"}, "sql": "select name, code, region from o"}
    with pytest.raises(ConfigurationError) as caught:
        declared(ref__country={"derive": derive, "keys": ["name"]})
    assert "made from itself" in str(caught.value)


def test_who_is_made_from_a_table_is_known():
    derive = {"inputs": {"o": "shop.orders"}, "sql": "select id from o"}
    one = declared(shop__made={"derive": derive, "keys": ["id"]})
    assert one.made_from(TableName("ref", "country")) == ["shop.made", "shop.orders"]
    assert one.made_from(TableName("shop", "made")) == []


@pytest.mark.parametrize(("lookup", "role"), [(LOOKUP, "published"), (BY_TIME, "published_history")])
def test_a_table_is_ingested_after_its_references(lookup, role):
    one = declared(shop__orders=ORDERS | {"enrich": [lookup]})
    nodes = {node.namespace: node for node in ingestion.create_pipeline(one).nodes}
    assert nodes["shop.orders"].inputs == ["shop.orders.landing", f"ref.country.{role}"]
    outputs = [name for node in scd2.create_pipeline(one).nodes for name in node.outputs]
    assert ("ref.country.published_history" in outputs) == (role == "published_history")
