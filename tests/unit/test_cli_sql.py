"""Queries answer as DuckDB does on the whole tables, read no more than needed, and reach nothing else."""

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from kedro_lakehouse.query.answer import run_query
from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.query.parse import parse_query
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

ITEM = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "Unit Price": pa.array([Decimal("1.10"), Decimal("22.00"), None, Decimal(0)], pa.decimal128(30, 2)),
        "name": ["a", "b", None, "o'Neil"],
        "weight": pa.array([2.0, float("nan"), -1.0, None]),
        "item": ["w", "x", "y", "z"],
        "_order": pa.array(
            [{"seq": Decimal(10**34 + n), "file": f"f{n}"} for n in range(4)],
            pa.struct({"seq": pa.decimal128(38, 0), "file": pa.string()}),
        ),
        "is_current": [True, False, None, True],
    }
)
LINE = pa.table(
    {"id": pa.array([1, 1, 2], pa.int64()), "NAME": ["p", "q", "b"], "amount": pa.array([5, 6, 7])}
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    prefix = "spark.sql.catalog.lake."
    lake = MetadataCatalog(
        {
            f"{prefix}type": "jdbc",
            f"{prefix}uri": f"jdbc:sqlite:file:{root}/catalog.db?journal_mode=WAL",
            f"{prefix}warehouse": str(root / "warehouse"),
        }
    )
    lake.ensure_namespace("shop")
    for name, rows in (("item", ITEM), ("line", LINE)):
        table = lake.catalog.create_table(f"shop.{name}", schema=rows.schema)
        table.append(rows.slice(0, 2))
        table.append(rows.slice(2))
    return lake


@pytest.fixture(scope="module")
def whole_tables():
    """DuckDB with both tables wholly in its hands."""
    with duckdb.connect() as connection:
        connection.execute("attach ':memory:' as lake; use lake; create schema shop")
        for name, rows in (("item", ITEM), ("line", LINE)):
            connection.register(f"t_{name}", rows)
            connection.execute(f"create view shop.{name} as from t_{name}")
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        "select * from shop.item",
        "from lake.shop.item;",
        "select count(*) from SHOP.Item",
        "select id from shop.item where weight > 1",
        "select id from shop.item where weight = 2",
        "select id from shop.item where ID >= 2 and name = 'b'",
        "select id from shop.item where name = 'o''Neil' or id = 1",
        "select id from shop.item where id = '3'",
        "select id from shop.item where name > 'a' and \"unit price\" < 30",
        "select id from shop.item where id > 99999999999999999999",
        "select id from shop.item where is_current and id < 1_0",
        "select name as id from shop.item where id = 2",
        "select b from shop.item as t(a, b) where a = 2.20 or b = 22",
        "select id from shop.item as t(name, id) where name = 2",
        "select _order.seq, _order.file from shop.item where _order.seq > 0",
        "select i._order['file'] from shop.item i",
        "select item from shop.item",
        "select i from shop.item i",
        "select shop.item.id, item.name from shop.item",
        "select columns('^i') from shop.item",
        "select * exclude (name) replace (id + 1 as id) from shop.item",
        "select i.*, amount from shop.item i join shop.line l using (id)",
        "select * from shop.item natural join shop.line",
        "select l.name, sum(amount) s from shop.line l group by all having s > 5 order by 2",
        "select a.id, (select max(amount) from shop.line where id = a.id) from shop.item a where a.id = 2",
        "select a.id from shop.line a, shop.line b where a.id = 2 and b.id = 1",
        "with shop_item as (select * from shop.item where id > 1) select name from shop_item where id < 4",
        "with line as (select 1 as id) select l.name from line join shop.line l using (id)",
        "select id from shop.item where id = 1 union all select id from shop.line where id = 2",
        "select max(id) from shop.item limit 1",
        "select distinct id from shop.line limit 2",
        "select id from shop.line order by amount desc limit 1",
        "select row_number() over (order by amount desc), id from shop.line qualify id = 2",
        "describe shop.item",
        "describe select id + 1 as n from shop.item",
        "select column_name from (describe shop.item) where exists (from shop.line)",
        "select column_name, min, max, count from (summarize shop.line)",
        "values (1), (2)",
        "select 1 where false",
        "-- a comment\nselect id from shop.item /* and one more */",
    ],
)
def test_answer_is_that_of_duckdb_on_the_whole_tables(lake, query, whole_tables):
    expected = whole_tables.execute(query).fetchall()
    assert sorted(map(str, run_query(lake, query).rows)) == sorted(map(str, expected))


@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("select id from shop.item", {"id"}, 4),
        ("select count(*) from shop.item", {"id"}, 4),
        ("select name from shop.item where id = 2", {"id", "name"}, 1),
        ("select name from shop.item where id >= 2 and id < 4", {"id", "name"}, 2),
        ("select _order.seq from shop.item", {"_order"}, 4),
        ("select id from shop.item where weight > 1", {"id", "weight"}, 4),
        ("select id, name from shop.item limit 1", {"id", "name"}, 1),
        ("select id from shop.item order by id limit 1", {"id"}, 4),
    ],
)
def test_only_needed_columns_and_rows_are_read(lake, query, columns, rows, monkeypatch):
    read = []
    to_arrow = run_query.__globals__["TableScan"].read
    monkeypatch.setattr(
        "kedro_lakehouse.query.answer.TableScan.read",
        lambda scan, query: read.append(to_arrow(scan, query)) or read[-1],
    )
    run_query(lake, query)
    assert [(set(table.column_names), table.num_rows) for table in read] == [(columns, rows)]


def test_shown_rows_bound_what_a_plain_query_reads():
    with duckdb.connect() as connection:
        assert parse_query("select * from a.b", connection, limit=101).first == 101
        assert parse_query("select * from a.b limit 5", connection, limit=101).first == 5
        assert parse_query("select * from a.b limit 5 offset 1", connection, limit=101).first is None
        assert parse_query("select * from a.b where x > y", connection, limit=101).first is None
        assert parse_query("select count(*) from a.b", connection, limit=101).first is None


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('{canary}')",
        "select * from '{canary}'",
        "select * from shop.item, glob('/*')",
        "select * from query('from read_text(''{canary}'')')",
        "with x as (select * from read_blob('{canary}')) select * from x",
        "select * from ITEM",
        "from sqlite_scan('{canary}', 't')",
    ],
)
def test_query_reaches_no_file_and_no_variable(lake, query, tmp_path):
    canary = tmp_path / "canary.csv"
    canary.write_text("CANARY")
    with pytest.raises(QueryError) as refusal:
        run_query(lake, query.format(canary=canary))
    assert "CANARY" not in str(refusal.value)


@pytest.mark.parametrize(
    "query",
    [
        "",
        ";",
        "select 1; select 2",
        "delete from shop.item",
        "insert into shop.item values (1)",
        "create table x (a int)",
        "copy (select 1) to '/tmp/x'",
        "attach '/tmp/x'",
        "set enable_external_access = true",
        "pragma version",
        "install httpfs",
        "call range(1)",
        "explain analyze select 1",
        "selec 1",
        "select from",
        "with gone as (delete from shop.item returning *) from gone",
        "select * from shop.item at (version => 1)",
        "select nosuch from shop.item",
        "select * from other.shop.item",
        "select * from a.b.c.d",
        'select * from "sho""p".item',
    ],
)
def test_all_but_one_reading_query_is_refused(lake, query):
    with pytest.raises(QueryError):
        run_query(lake, query)
    assert run_query(lake, "select count(*) from shop.item").rows == [(4,)]


def test_wrong_column_is_told_with_the_columns_of_the_whole_table(lake):
    with pytest.raises(QueryError, match=r'"is_current"'):
        run_query(lake, "select id, is_curent from shop.item")


def test_failing_cast_does_not_tell_the_value(lake):
    with pytest.raises(QueryError) as refusal:
        run_query(lake, "select name::int from shop.item where id = 4")
    assert "Neil" not in str(refusal.value)
    assert "try_cast" in str(refusal.value)


def test_table_without_its_namespace_is_told_in_full(lake):
    with pytest.raises(QueryError, match=r"Did you mean 'shop\.line'\?"):
        run_query(lake, "select * from line")


def test_a_table_of_another_format_is_told_with_the_engine_that_reads_it(lake):
    with pytest.raises(QueryError, match=r"kept in delta.*--engine spark.*spark_catalog\.shop\.bag"):
        run_query(lake, "select * from shop.bag", elsewhere={"shop.bag": "delta"})


def test_as_of_reads_what_was_published_at_that_time(lake):
    first, second = (
        dt.datetime.fromtimestamp(entry.timestamp_ms / 1000, dt.UTC)
        for entry in lake.catalog.load_table("shop.item").history()
    )
    count = "select count(*) from shop.item"
    a_bit = dt.timedelta(milliseconds=1)
    assert [run_query(lake, count, as_of=t).rows[0][0] for t in (first, second - a_bit, second)] == [2, 2, 4]
    with pytest.raises(QueryError, match="no state published by"):
        run_query(lake, count, as_of=first - a_bit)


def test_as_of_sees_the_columns_of_that_time(lake):
    table = lake.catalog.create_table("shop.grown", schema=LINE.schema)
    table.append(LINE)
    with table.update_schema() as update:
        update.add_column("extra", StringType())
    table.append(LINE.append_column("extra", [["1", "2", "3"]]))
    past = dt.datetime.fromtimestamp(table.history()[0].timestamp_ms / 1000, dt.UTC)
    assert len(run_query(lake, "from shop.grown", as_of=past).columns) == 3
    assert run_query(lake, "select count(extra), count(*) from shop.grown where id = 1").rows == [(2, 4)]


class Frame:
    """What Spark answers: no column, two rows."""

    schema = type("Schema", (), {"fields": ()})

    def collect(self):
        return [(), ()]


def test_a_query_of_spark_whose_files_went_is_asked_again(monkeypatch):
    from pyspark.errors import PySparkException

    from kedro_lakehouse.cli import spark

    left = [PySparkException(f"[FAILED_READ_FILE.FILE_NOT_EXIST] reading file:///lake/{n}") for n in range(7)]

    def frame(_, __):
        if left:
            raise left.pop()
        return Frame()

    monkeypatch.setattr(spark, "_frame", frame)
    with pytest.raises(QueryError, match="each time that it was tried"):
        spark.spark_answer(None, "select 1", limit=None)
    assert len(left) == 2
    assert spark.spark_answer(None, "select 1", limit=None).rows == [[], []]
    left.append(PySparkException("[DIVIDE_BY_ZERO] a class was not found: ClassNotFoundException"))
    with pytest.raises(QueryError, match="Spark gave up"):
        spark.spark_answer(None, "select 1", limit=None)
