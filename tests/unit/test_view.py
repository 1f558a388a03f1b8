"""The view of a history: what it shows, what is refused, and that a query finds it without Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import ConfigurationError, MissingColumnError
from kedro_lakehouse.formats.view import plan_view
from kedro_lakehouse.names import TableName
from kedro_lakehouse.query.answer import run_query
from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

NAME = TableName("crm", "customer")
COLUMNS = {
    "customer_id": "bigint", "city": "string", "_order_from": "struct<seq:string>",
    "effective_from": "timestamp", "effective_to": "timestamp", "is_current": "boolean",
    "_tombstone": "boolean", "_surrogate_key": "bigint",
}  # fmt: skip
DIMENSION = {
    "name": "dim_customer", "surrogate_key": "customer_sk", "effective_from": "rec_eff_dt",
    "effective_to": "rec_exp_dt", "end": "inclusive", "grain": "date",
}  # fmt: skip


def declared(view: dict[str, Any], **others: dict[str, Any]) -> Any:
    tables = {"crm.customer": {"source": "crm", "keys": ["customer_id"], "history": {"view": view}}}
    for name, table in others.items():
        tables[f"crm.{name}"] = {"source": "crm", "keys": ["id"]} | table
    found = load_declarations({"crm": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    return found.tables[NAME]


def day(number: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2022, 7, number, hour, tzinfo=dt.UTC)


@pytest.mark.parametrize("name", ["customer", "customer_history", "order", "order_changes"])
def test_a_view_may_not_bear_the_name_of_a_table(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"history\.view\.name.*the name is that of"):
        declared({"name": name}, order={})


def test_two_views_may_not_bear_one_name() -> None:
    with pytest.raises(ConfigurationError, match=r"the view of 'crm\.customer'"):
        declared({"name": "dim"}, order={"history": {"view": {"name": "dim"}}})


def test_a_view_lies_in_the_namespace_of_its_table() -> None:
    assert declared({"name": "crm.dim"}).history.view.name == "crm.dim"
    with pytest.raises(ConfigurationError, match="not in 'sales'"):
        declared({"name": "sales.dim"})


def test_two_columns_of_a_view_may_not_have_one_name() -> None:
    table = declared(DIMENSION | {"columns": {"city": "Rec_Eff_Dt"}})
    with pytest.raises(ConfigurationError, match="rec_eff_dt"):
        plan_view(NAME, table, COLUMNS)


def test_a_column_that_the_history_lacks_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="ctiy"):
        plan_view(NAME, declared(DIMENSION | {"columns": {"ctiy": "city"}}), COLUMNS)


@pytest.mark.parametrize(
    "more", [{}, {"open_end": "none", "end": "inclusive"}, {"open_end": "none", "grain": "date"}]
)
def test_intervals_of_log_positions_allow_no_dates(more: dict[str, Any]) -> None:
    by_position = COLUMNS | {"effective_from": "decimal(38,0)", "effective_to": "decimal(38,0)"}
    with pytest.raises(ConfigurationError, match="neither a date nor a time"):
        plan_view(NAME, declared({"name": "dim"} | more), by_position)
    plain = plan_view(NAME, declared({"name": "dim", "open_end": "none"}), by_position)
    assert "9999" not in plain.select("h", str)


def history(catalog: MetadataCatalog) -> None:
    kinds = pa.schema(
        [
            ("customer_id", pa.int64()), ("city", pa.string()),
            ("_order_from", pa.struct([("seq", pa.string())])),
            ("effective_from", pa.timestamp("us", tz="UTC")), ("effective_to", pa.timestamp("us", tz="UTC")),
            ("is_current", pa.bool_()), ("_tombstone", pa.bool_()), ("_surrogate_key", pa.int64()),
        ]
    )  # fmt: skip
    versions = [
        # Two versions start on one day: the later one stands for it.
        (1, "Lyon", day(1), day(3, 8), False, False), (1, "Porto", day(3, 8), day(3, 17), False, False),
        (1, "Oslo", day(3, 17), None, True, False),
        # Deleted, and the history says so.
        (2, "Kyoto", day(2), day(5, 1), False, False), (2, None, day(5, 1), None, False, True),
        # Came and went on one day.
        (3, "Quito", day(4, 1), day(4, 2), False, False),
    ]  # fmt: skip
    rows = [
        {
            "customer_id": key, "city": city, "_order_from": {"seq": str(n)}, "effective_from": start,
            "effective_to": end, "is_current": current, "_tombstone": dead, "_surrogate_key": 100 + n,
        }
        for n, (key, city, start, end, current, dead) in enumerate(versions)
    ]  # fmt: skip
    catalog.ensure_namespace("crm")
    stored = catalog.catalog.create_table("crm.customer_history", schema=kinds)
    stored.append(pa.Table.from_pylist(rows, schema=kinds))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> MetadataCatalog:
    root, prefix = tmp_path_factory.mktemp("lake"), "spark.sql.catalog.lake."
    catalog = MetadataCatalog(
        {
            f"{prefix}type": "jdbc", f"{prefix}uri": f"jdbc:sqlite:file:{root}/catalog.db",
            f"{prefix}warehouse": str(root / "warehouse"),
        }
    )  # fmt: skip
    history(catalog)
    return catalog


def ask(lake: MetadataCatalog, query: str, view: dict[str, Any], **options: Any) -> list[Any]:
    name = f"crm.{view['name']}"
    return list(run_query(lake, query, views={name: (NAME, declared(view))}, **options).rows)


def test_a_dimension_by_days_shows_the_last_version_of_each_day(lake: MetadataCatalog) -> None:
    answer = run_query(
        lake, "select * from crm.dim_customer order by customer_id, rec_eff_dt",
        views={"crm.dim_customer": (NAME, declared(DIMENSION))},
    )  # fmt: skip
    assert answer.columns == ["customer_sk", "customer_id", "city", "rec_eff_dt", "rec_exp_dt"]
    assert list(answer.rows) == [
        (100, 1, "Lyon", dt.date(2022, 7, 1), dt.date(2022, 7, 2)),
        (102, 1, "Oslo", dt.date(2022, 7, 3), dt.date(9999, 12, 31)),
        (103, 2, "Kyoto", dt.date(2022, 7, 2), dt.date(2022, 7, 4)),
    ]


def test_an_inclusive_end_is_the_last_microsecond(lake: MetadataCatalog) -> None:
    view = {
        "name": "v",
        "end": "inclusive",
        "open_end": "none",
        "is_current": "live",
        "columns": {"city": "town"},
    }
    found = ask(lake, "select customer_id, town, effective_to, live from crm.v where customer_id = 1", view)
    last = dt.timedelta(microseconds=1)
    assert sorted(found, key=lambda r: str(r[1])) == [
        (1, "Lyon", day(3, 8) - last, False), (1, "Oslo", None, True), (1, "Porto", day(3, 17) - last, False),
    ]  # fmt: skip


def test_a_query_of_few_columns_of_a_view_answers_alike(lake: MetadataCatalog) -> None:
    assert ask(lake, "select count(*) from crm.dim_customer", DIMENSION) == [(3,)]
    assert ask(lake, "select max(rec_exp_dt) from crm.DIM_CUSTOMER", DIMENSION) == [(dt.date(9999, 12, 31),)]
    joined = (
        "select h.city from crm.dim_customer d "
        "join crm.customer_history h on h._surrogate_key = d.customer_sk"
    )
    assert {row[0] for row in ask(lake, joined, DIMENSION)} == {"Lyon", "Oslo", "Kyoto"}


def test_a_view_is_as_its_history_was_published(lake: MetadataCatalog) -> None:
    with pytest.raises(QueryError, match="no state published"):
        ask(lake, "from crm.dim_customer", DIMENSION, as_of=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))


def test_a_view_without_a_history_holds_nothing_yet(lake: MetadataCatalog) -> None:
    table = declared({"name": "dim_order"})
    with pytest.raises(QueryError, match="holds nothing yet"):
        run_query(lake, "from crm.dim_order", views={"crm.dim_order": (TableName("crm", "none"), table)})
