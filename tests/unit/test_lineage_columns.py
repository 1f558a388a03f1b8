"""From which columns a column comes: by declarations, and by plans that Spark has analysed."""

import json
from pathlib import Path

import pytest

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.formats.view import plan_view
from kedro_lakehouse.lineage.columns import changes_lineage, target_lineage, view_lineage
from kedro_lakehouse.lineage.places import Place, place_of
from kedro_lakehouse.lineage.plans import UntracedPlanError, plan_lineage
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")
# Analysed by Spark 4.1: queries over the inputs `master` and `address`; cut to what lineage looks at.
PLANS = json.loads((Path(__file__).parents[1] / "data/plans/analysed.json").read_text(encoding="utf-8"))


def table(**keys):
    declared = {"shop.item": {"source": "shop", "keys": ["id"]} | keys}
    return load_declarations(
        {"shop": {"type": "dms", "path": "x"}}, declared, {"dms": DmsSourceConfig}
    ).tables[ITEM]


def told(lineage):
    columns = {
        name: sorted(f"{c.source}.{c.column} {c.how}" for c in made) for name, made in lineage.columns.items()
    }
    return columns, sorted(f"{c.source}.{c.column} {c.how}" for c in lineage.rows)


def of_changes(declared, stored, landed, *, order=(), time=None):
    return told(changes_lineage(declared, stored, landed, order=order, time=time, source="in"))[0]


def test_a_plain_column_is_the_sources_own():
    assert of_changes(table(), ["id", "_op", "_batch"], ["Op", "id"]) == {"id": ["in.id IDENTITY"]}


def test_renamed_and_typed_columns_are_followed():
    declared = table(rename={"full_name": "name", "nick": "name"}, types={"price": "decimal(10,2)"})
    found = of_changes(declared, ["id", "name", "price"], ["id", "full_name", "nick", "price", "dropped"])
    assert found == {
        "id": ["in.id IDENTITY"],
        "name": ["in.full_name IDENTITY", "in.nick IDENTITY"],
        "price": ["in.price TRANSFORMATION"],
    }


def test_a_rename_that_no_landed_file_had_is_no_lineage():
    declared = table(rename={"old": "name", "older": "name"})
    assert of_changes(declared, ["name"], ["name", "old"])["name"] == ["in.name IDENTITY", "in.old IDENTITY"]


def test_order_and_time_come_from_the_columns_that_tell_them():
    declared = table(
        order_by=["at"], effective_time="valid", rename={"row_at": "at"}, types={"at": "timestamp"}
    )
    found = of_changes(declared, ["id", "at", "valid"], ["id", "row_at", "valid"], order=["at"], time="valid")
    assert (found["_order"], found["_time"]) == (["in.row_at TRANSFORMATION"], ["in.valid IDENTITY"])


def test_a_sources_own_control_columns_tell_order_and_time():
    found = of_changes(table(), ["id"], ["id", "seq", "ts"], order=["seq"], time="ts")
    assert (found["_order"], found["_time"]) == (["in.seq TRANSFORMATION"], ["in.ts TRANSFORMATION"])


def test_an_order_that_no_column_tells_has_no_lineage():
    assert of_changes(table(), ["id"], ["id"]) == {"id": ["in.id IDENTITY"]}


def test_a_current_table_has_the_changes_columns_chosen_by_key_and_order():
    columns, rows = told(target_lineage(table(), ["id", "name", "_order"], source="c"))
    assert columns == {"id": ["c.id IDENTITY"], "name": ["c.name IDENTITY"], "_order": ["c._order IDENTITY"]}
    assert rows == ["c._op FILTER", "c._order SORT", "c.id GROUP_BY"]


def test_rows_of_a_table_without_keys_are_not_chosen():
    assert told(target_lineage(table(write="append", keys=[]), ["id"], source="c")) == (
        {"id": ["c.id IDENTITY"]},
        [],
    )


def test_a_historys_interval_comes_from_the_time_and_its_surrogate_key_is_a_hash():
    stored = ["id", "_order_from", "effective_from", "effective_to", "is_current", "_surrogate_key"]
    lineage = target_lineage(table(history=True), stored, source="c")
    assert told(lineage)[0] == {
        "id": ["c.id IDENTITY"],
        "_order_from": ["c._order IDENTITY"],
        "effective_from": ["c._time IDENTITY"],
        "effective_to": ["c._time TRANSFORMATION"],
        "is_current": ["c._op TRANSFORMATION"],
        "_surrogate_key": ["c._order TRANSFORMATION", "c.id TRANSFORMATION"],
    }
    assert all(c.masked for c in lineage.columns["_surrogate_key"])


def test_a_view_shows_the_historys_columns_under_its_names():
    view = {"name": "dim", "surrogate_key": "sk", "columns": {"name": "label"}, "effective_from": "since",
            "effective_to": "until", "is_current": "open", "end": "inclusive", "grain": "date"}  # fmt: skip
    declared = table(history={"view": view})
    kinds = {"id": "bigint", "name": "string", "effective_from": "timestamp", "effective_to": "timestamp",
             "is_current": "boolean", "_surrogate_key": "bigint"}  # fmt: skip
    assert told(view_lineage(plan_view(ITEM, declared, kinds), source="h")) == (
        {
            "sk": ["h._surrogate_key IDENTITY"],
            "id": ["h.id IDENTITY"],
            "label": ["h.name IDENTITY"],
            "since": ["h.effective_from TRANSFORMATION"],
            "until": ["h.effective_to TRANSFORMATION"],
            "open": ["h.is_current IDENTITY"],
        },
        ["h.effective_from FILTER", "h.effective_to FILTER"],
    )


EXPECTED = {
    "join": (
        {
            "customer_id": ["master.customer_id IDENTITY"],
            "first_name": ["master.first_name IDENTITY"],
            "last_name": ["master.last_name IDENTITY"],
            "city": ["address.city IDENTITY"],
            "country": ["address.country IDENTITY"],
        },
        ["address.customer_id JOIN", "master.customer_id JOIN"],
    ),
    "agg": (
        {
            "customer_id": ["master.customer_id IDENTITY"],
            "name": ["master.first_name TRANSFORMATION"],
            "total": ["address.amount AGGREGATION"],
        },
        [
            "address.amount SORT", "address.city FILTER", "address.country FILTER",
            "address.customer_id JOIN", "master.customer_id GROUP_BY", "master.customer_id JOIN",
            "master.first_name GROUP_BY",
        ],
    ),
    "cte": (
        {
            "id": ["master.customer_id IDENTITY"],
            "name": ["master.first_name TRANSFORMATION", "master.last_name TRANSFORMATION"],
        },
        ["master.customer_id JOIN"],
    ),
    "union": (
        {
            "customer_id": ["address.customer_id IDENTITY", "master.customer_id IDENTITY"],
            "label": ["address.city IDENTITY", "master.first_name IDENTITY"],
        },
        [],
    ),
    "sub": (
        {"customer_id": ["master.customer_id IDENTITY"], "top": ["address.amount AGGREGATION"]},
        ["address.city FILTER", "address.customer_id FILTER", "master.customer_id FILTER"],
    ),
    "lateral": (
        {"customer_id": ["master.customer_id IDENTITY"], "word": ["master.first_name TRANSFORMATION"]},
        [],
    ),
    "distinct": (
        {"customer_id": ["master.customer_id IDENTITY"], "first_name": ["master.first_name IDENTITY"]},
        [],
    ),
    "selfjoin": (
        {
            "customer_id": ["master.customer_id IDENTITY"],
            "other": ["master.first_name IDENTITY"],
            "s": ["master.last_name TRANSFORMATION"],
        },
        ["master.customer_id JOIN"],
    ),
    "window": (
        {
            "customer_id": ["address.customer_id IDENTITY"],
            "rn": ["address.amount TRANSFORMATION", "address.city TRANSFORMATION"],
            "prev": ["address.amount TRANSFORMATION", "address.city TRANSFORMATION"],
        },
        ["address.amount WINDOW", "address.city WINDOW"],
    ),
    "rollup": (
        {
            "city": ["address.city IDENTITY"],
            "country": ["address.country IDENTITY"],
            "total": ["address.amount AGGREGATION"],
        },
        ["address.city GROUP_BY", "address.country GROUP_BY"],
    ),
    "except": (
        {"customer_id": ["master.customer_id IDENTITY"], "first_name": ["master.first_name IDENTITY"]},
        ["address.city FILTER", "address.customer_id FILTER"],
    ),
    "using": (
        {
            "customer_id": ["address.customer_id TRANSFORMATION", "master.customer_id TRANSFORMATION"],
            "first_name": ["master.first_name IDENTITY"],
            "last_name": ["master.last_name IDENTITY"],
            "row_audit_ts": ["master.row_audit_ts IDENTITY"],
            "city": ["address.city IDENTITY"],
            "country": ["address.country IDENTITY"],
            "amount": ["address.amount IDENTITY"],
        },
        ["address.customer_id JOIN", "master.customer_id JOIN"],
    ),
    # a WITH of the query's own hides the input of its name
    "shadow": ({"first_name": ["master.last_name IDENTITY"]}, []),
    "exists": (
        {"first_name": ["master.first_name IDENTITY"]},
        ["address.customer_id FILTER", "master.customer_id FILTER"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("query", EXPECTED)
def test_a_querys_columns_are_followed_through_its_plan(query):
    assert told(plan_lineage(PLANS[query], ["master", "address"])) == EXPECTED[query]


def test_a_plan_that_cannot_be_followed_has_no_lineage_rather_than_a_wrong_one():
    with pytest.raises(UntracedPlanError, match="LateralJoin"):
        plan_lineage(PLANS["lateral_join"], ["master", "address"])


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("/landing/shop", Place("file", "/landing/shop")),
        ("file:///lake/a%20b", Place("file", "/lake/a b")),
        ("file:/lake/x", Place("file", "/lake/x")),
        ("s3://bucket/lake/x", Place("s3://bucket", "lake/x")),
        ("s3a://bucket/lake/x", Place("s3://bucket", "lake/x")),
        ("hdfs://host:8020/lake", Place("hdfs://host:8020", "/lake")),
    ],
)
def test_datasets_are_named_by_where_they_lie(uri, place):
    assert place_of(uri) == place
