"""A query over a table and its archive, without Spark: each key once, by the rules of decision 0120."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kedro_lakehouse.commits.marks import MOVED
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.query.answer import run_query
from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

NAME = TableName("shop", "sale")
ROW = {"id": pa.int64(), "tags": pa.list_(pa.string()), "sold": pa.timestamp("us")}
EVENT = {"id": pa.int64(), "_batch": pa.int64()}
KEYED = TableConfig(source="s", entity="sale", keys=("id",))
PLAIN = TableConfig(source="s", entity="sale", write="append")


def bookmark(batch):
    facts = {"table": str(NAME), "stage": "current", "content_hash": f"h{batch}", "run_id": "r"}
    report = CommitReport(**facts, batch=batch, batches=1, committed_at="2026-01-01T00:00:00+00:00")
    return json.dumps(asdict(report))


def rows(*values, **more):
    """Rows of a key and a tag; ``_moved`` is the number of the move that brought them."""
    found = [{"id": key, "tags": [tag], "sold": None, **more} for key, tag in values]
    return pa.Table.from_pylist(found, pa.schema([*ROW.items(), *((n, pa.int64()) for n in more)]))


@pytest.fixture
def lake(tmp_path):
    prefix = "spark.sql.catalog.lake."
    lake = MetadataCatalog(
        {
            f"{prefix}type": "jdbc",
            f"{prefix}uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db?journal_mode=WAL",
            f"{prefix}warehouse": str(tmp_path / "warehouse"),
        }
    )
    lake.ensure_namespace("shop")
    return lake


def put(lake, role, content, batch, **properties):
    given = {BOOKMARK: bookmark(batch)} | properties
    table = lake.catalog.create_table(str(NAME.with_suffix(role)), schema=content.schema, properties=given)
    table.append(content)


def shown(lake, query="select id, tags[1] as tag from shop.sale_all order by all", config=KEYED):
    return run_query(lake, query, both={"shop.sale_all": (NAME, config)}).rows


def events(*values):
    return pa.Table.from_pylist([{"id": i, "_batch": b} for i, b in values], pa.schema(list(EVENT.items())))


def test_keys_decide_which_row_counts(lake):
    put(lake, "current", rows((1, "new"), (5, "back")), 7, **{MOVED: "2"})
    old = [
        rows((2, "a"), (5, "then"), (6, "gone"), _moved=1),
        rows((3, "b"), _moved=2),
        rows((1, "x"), _moved=3),
    ]
    put(lake, "archive", pa.concat_tables(old), 5)
    # 5 came back to the table and 6 was deleted, in batches that the archive does not know of.
    put(lake, "changes", events((2, 5), (5, 6), (6, 7), (3, 8)), 8)
    assert shown(lake) == [(1, "new"), (2, "a"), (3, "b"), (5, "back")]
    assert shown(lake, "select count(*) from shop.sale_all") == [(4,)]
    assert shown(lake, "select tags[1] from shop.sale_all where id = 5") == [("back",)]
    assert shown(lake, "select id from shop.sale_all where id >= 5") == [(5,)]
    assert shown(lake, "select sum(id) from shop.sale_all s where s.id in (select id from shop.sale)") == [
        (6,)
    ]


def test_without_keys_only_the_number_of_the_move_decides(lake):
    put(lake, "current", rows((1, "a"), (1, "a")), 7, **{MOVED: "1"})
    put(lake, "archive", pa.concat_tables([rows((1, "a"), _moved=1), rows((2, "b"), _moved=2)]), 7)
    put(lake, "changes", events((1, 7)), 7)
    assert shown(lake, config=PLAIN) == [(1, "a")] * 3


@pytest.mark.parametrize("has_archive", [True, False])
def test_nothing_of_an_archive_counts_where_the_table_is_whole(lake, has_archive):
    put(lake, "current", rows((1, "new")), 7)
    if has_archive:
        put(lake, "archive", rows((1, "old"), (2, "old"), _moved=1), 7)
    put(lake, "changes", events((1, 7)), 7)
    assert shown(lake) == [(1, "new")]


def test_a_table_that_was_rolled_back_to_before_its_archive_is_refused(lake):
    put(lake, "current", rows((1, "new")), 4, **{MOVED: "1"})
    put(lake, "archive", rows((2, "old"), _moved=1), 5)
    put(lake, "changes", events((1, 4), (2, 5)), 5)
    with pytest.raises(QueryError, match="rolled back"):
        shown(lake)
    with pytest.raises(QueryError, match="as they are now"):
        run_query(lake, "from shop.sale_all", as_of=datetime.now(UTC), both={"shop.sale_all": (NAME, KEYED)})


def test_a_table_that_is_not_there_yet_is_told(lake):
    with pytest.raises(QueryError, match="holds nothing yet"):
        shown(lake)
