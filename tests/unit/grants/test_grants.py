"""Roles see what grants.yml says, and not more; a grant that cannot be meant is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from harness.catalogs import embedded_catalog
from harness.granted import GRANTS, ONE, TABLES, customers, granted_project

from kedro_lakehouse.cli.options import access_of
from kedro_lakehouse.cli.sql import _duckdb
from kedro_lakehouse.config.grants import Grants, load_grants
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.grants.access import RoleAccess, TableAccess
from kedro_lakehouse.grants.frame import GrantedFrame, masked
from kedro_lakehouse.names import TableName
from kedro_lakehouse.query.answer import run_query
from kedro_lakehouse.query.errors import QueryError

pytestmark = pytest.mark.unit

DECLARED = load_declarations({"shop": {"type": "dms", "path": "x"}}, TABLES, {"dms": DmsSourceConfig})
ROWS = customers(ONE)


def loaded(**roles: Any) -> Grants:
    return load_grants(roles, DECLARED.tables)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return granted_project(tmp_path_factory.mktemp("lake"), ONE)


def asked(lake: Any, role: str, query: str, as_of: dt.datetime | None = None) -> list[dict[str, Any]]:
    answer = _duckdb(lake, query, as_of=as_of, limit=None, access=access_of(lake, role))
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_a_grant_on_a_table_hides_columns_masks_others_and_leaves_rows_out(lake: Any) -> None:
    shown = {"name": "****", "born": None, "region": "EU", "home": None}
    expected = [
        {"id": n, "phone": f"****{n}", "card": f"****{n}", "note": note} | shown
        for n, note in ((1111, "a"), (1112, None))
    ]
    assert asked(lake, "analyst", "from shop.customer order by id") == expected
    history = asked(lake, "analyst", "from shop.customer_history order by id")
    assert [{k: row[k] for k in expected[0]} for row in history] == expected
    assert history[0].keys() - expected[0].keys() == {
        "effective_from",
        "effective_to",
        "is_current",
        "_tombstone",
    }
    view = asked(lake, "analyst", "from shop.dim_customer order by id")
    assert [{k: row[k] for k in expected[0]} for row in view] == expected


def test_a_database_is_seen_whole_but_for_what_tags_mask(lake: Any) -> None:
    found = asked(lake, "reader", "from shop.customer order by id")
    cards = {row["id"]: f"****{str(row['card'])[-4:]}" for row in ROWS}
    assert found == [row | {"name": "****", "card": cards[row["id"]]} for row in ROWS]
    assert asked(lake, "auditor", "from shop.customer order by id") == ROWS


def test_a_tag_gives_its_columns_of_every_table_and_no_other(lake: Any) -> None:
    assert asked(lake, "counter", "from shop.customer") == [{"region": row["region"]} for row in ROWS]
    assert asked(lake, "counter", "from shop.staff") == [{"desk": "north"}]
    with pytest.raises(QueryError, match=r"sees no table 'shop\.secret'"):
        asked(lake, "counter", "from shop.secret")


def test_a_condition_may_be_about_a_column_that_is_hidden(tmp_path: Any) -> None:
    grant = {**ON, "columns": {"include": ["ID"]}, "rows": "Region = 'EU'"}
    lake = granted_project(tmp_path, ONE, {"one": [grant]}, "shop.customer")
    assert asked(lake, "one", "from shop.customer order by 1") == [{"id": 1111}, {"id": 1112}]
    assert asked(lake, "one", "select count(*) n from shop.customer where id > 1111") == [{"n": 1}]


def test_times_of_versions_are_hidden_with_the_column_that_they_come_from() -> None:
    tables = {"shop.a": {"source": "shop", "keys": ["id"], "history": True, "effective_time": "born"}}
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig})
    raw = {"one": [{"table": "shop.a", "mask": {"Born": "hide"}}], "two": [{"table": "shop.a"}]}
    grants = load_grants(raw, declared.tables)

    class Lake:
        declarations = declared

    Lake.grants = grants  # type: ignore[attr-defined]
    for role, shows in (("one", False), ("two", True)):
        access = RoleAccess.of(Lake, role).by_name["shop.a_history"]  # type: ignore[arg-type]
        assert access.shows("effective_from") is shows
        assert access.shows("is_current")


CONDITIONS = {
    "region = 'EU'": lambda r: r["region"] == "EU",
    "region <> 'EU'": lambda r: r["region"] is not None and r["region"] != "EU",
    "not region = 'EU'": lambda r: r["region"] is not None and r["region"] != "EU",
    "region not in ('EU', 'UK')": lambda r: r["region"] is not None and r["region"] not in ("EU", "UK"),
    "not (region in ('EU') or n > 1)": lambda r: r["region"] in ("US", "UK") and r["n"] == 1,
    "region like 'U%'": lambda r: (r["region"] or "").startswith("U"),
    "region not like 'U%'": lambda r: r["region"] is not None and not r["region"].startswith("U"),
    "region is null or n between 1 and 2": lambda r: r["region"] is None or r["n"] in (1, 2),
    '"odd name" is not null and n >= 2': lambda r: r["odd name"] is not None and (r["n"] or 0) >= 2,
    "day < '2026-01-02'": lambda r: r["day"] is not None and r["day"] < dt.date(2026, 1, 2),
    "true": lambda _: True,
    "false": lambda _: False,
}  # fmt: skip


def test_conditions_mean_what_they_mean_in_sql(tmp_path: Any) -> None:
    catalog = embedded_catalog(tmp_path, "shop")
    days = (dt.date(2026, 1, 1), dt.date(2026, 1, 2), None)
    rows = [
        {"region": region, "n": n, "odd name": odd, "day": day}
        for region in ("EU", "US", "UK", None) for n in (1, 2, 3, None) for odd in ("x", None) for day in days
    ]  # fmt: skip
    schema = pa.schema({"region": pa.string(), "n": pa.int64(), "odd name": pa.string(), "day": pa.date32()})
    table = catalog.catalog.create_table("shop.t", schema=schema)
    for chunk in (rows[:24], rows[24:48], rows[48:]):  # files whose bounds say all or nothing of a condition
        table.append(pa.Table.from_pylist(chunk, schema))
    for text, holds in CONDITIONS.items():
        access = TableAccess(role="r", number=0, table=TableName("shop", "t"), reads=True, rows=text)
        found = GrantedFrame(access, table, table.schema()).read(schema.names).to_pylist()
        assert sorted(map(str, found)) == sorted(str(row) for row in rows if holds(row)), text


@pytest.mark.parametrize(
    ("mask", "values", "expected"),
    [
        ("redact", ["", "a", "long text of somebody", None], ["****", "****", "****", None]),
        ("redact", [1, None], [None, None]),
        ("last4", ["4111111111111111", "1234567", None], ["****1111", "****", None]),
        ("last4", ["12345678", ""], ["****5678", "****"]),
        ("last4", [4111111111111111, 12, None], ["****1111", "****", None]),
        ("last4", [Decimal("12345678.90"), None], ["****8.90", None]),
        ("last4", [dt.date(2026, 1, 1)], [None]),
        ("last4", ["ééééééééé"], ["****éééé"]),
        ("last4", [{"a": "x"}], [None]),
        ("hide", ["a", None], [None, None]),
        ("hide", [1.5], [None]),
    ],
)  # fmt: skip
def test_masks_hide_all_but_what_they_say(mask: Any, values: list[Any], expected: list[Any]) -> None:
    array = pa.chunked_array([pa.array(values)])
    assert masked(array, mask).to_pylist() == expected
    empty = masked(array.slice(0, 0), mask)
    assert (len(empty), empty.type) == (0, masked(array, mask).type)


def test_a_renamed_column_stays_hidden_in_states_of_before(tmp_path: Any) -> None:
    grants = {"one": [{"table": "shop.secret", "columns": {"exclude": ["motto"]}}]}
    lake = granted_project(tmp_path, ONE, grants, "shop.secret")
    table = lake.catalog.catalog.load_table("shop.secret")
    then = dt.datetime.fromtimestamp(table.history()[0].timestamp_ms / 1000, dt.UTC)
    with table.update_schema() as update:
        update.rename_column("word", "motto")
    assert asked(lake, "one", "from shop.secret") == [{"id": 1}]
    assert asked(lake, "one", "from shop.secret", then) == [{"id": 1}]


def test_a_condition_on_a_column_that_a_state_lacks_shows_nothing_of_it(tmp_path: Any) -> None:
    lake = granted_project(
        tmp_path, ONE, {"one": [{"table": "shop.secret", "rows": "motto = 'x'"}]}, "shop.secret"
    )
    table = lake.catalog.catalog.load_table("shop.secret")
    then = dt.datetime.fromtimestamp(table.history()[0].timestamp_ms / 1000, dt.UTC)
    with table.update_schema() as update:
        update.rename_column("word", "motto")
    table.append(pa.Table.from_pylist([{"id": 2, "motto": "x"}]))
    assert asked(lake, "one", "from shop.secret") == [{"id": 2, "motto": "x"}]
    with pytest.raises(ConfigurationError, match=r"one\[0\]\.rows"):
        asked(lake, "one", "from shop.secret", then)


@pytest.mark.parametrize(
    "grant",
    [
        {"columns": {"exclude": ["wrod"]}}, {"columns": {"include": ["wrod"]}}, {"mask": {"wrod": "hide"}},
        {"rows": "wrod = 'x'"}, {"rows": "word = 1"},
    ],
)  # fmt: skip
def test_a_column_that_the_table_never_had_closes_the_table(tmp_path: Any, grant: dict[str, Any]) -> None:
    lake = granted_project(tmp_path, ONE, {"one": [{"table": "shop.secret"} | grant]}, "shop.secret")
    with pytest.raises(ConfigurationError, match=r"grants\.yml.*one\[0\]") as refusal:
        asked(lake, "one", "from shop.secret")
    assert ONE.word not in str(refusal.value)


ON = {"table": "shop.customer"}
MISTAKES = {
    "analsyt": ([{"tabel": "shop.customer"}], r"one\[0\]\.tabel.*Did you mean 'table'"),
    "no list": ({"table": "shop.customer"}, "expected a list of grants; found keys"),
    "no table": ([{"table": "shop.custmer"}], r"one\[0\]\.table.*Did you mean 'shop.customer'"),
    "a stored name": ([{"table": "shop.customer_changes"}], "not declared"),
    "no database": ([{"database": "shpo"}], r"one\[0\]\.database.*Did you mean 'shop'"),
    "no tag": ([{"tag": "persnal"}], r"one\[0\]\.tag.*Did you mean 'personal'.*column_tags"),
    "nothing": ([{"can": "select"}], "exactly one of 'database', 'table' and 'tag'"),
    "two things": ([{"table": "shop.customer", "tag": "open"}], "exactly one of"),
    "a word": ([{"table": "shop.customer", "can": "write"}], r"one\[0\]\.can.*'write' is not allowed"),
    "columns of a database": ([{"database": "shop", "rows": "id = 1"}], "for grants on one table"),
    "a described tag": ([{"tag": "open", "can": "describe"}], r"one\[0\]\.can"),
    "described rows": ([{"table": "shop.customer", "can": "describe", "rows": "id = 1"}], "that show rows"),
    "a mask": ([{**ON, "mask": {"name": "last5"}}], "Did you mean 'last4'"),
    "twice": ([{"tag": "open"}, {"tag": "open"}], r"one\[1\].*on this already"),
    "a subquery": ([{**ON, "rows": "id in (select id from shop.secret)"}], r"one\[0\]\.rows"),
    "a function": ([{**ON, "rows": "read_text('/etc/passwd') = 'x'"}], "not a condition"),
    "no boolean": ([{**ON, "rows": "id"}], "not a condition"),
    "half true": ([{**ON, "rows": "id = 1 or true"}], "not a condition"),
    "two columns": ([{**ON, "rows": "id = card"}], "not a condition"),
    "an end": ([{**ON, "rows": "id = 1; drop table x"}], "not a condition"),
    "a part": ([{**ON, "rows": "home.city = 'x'"}], "Name whole columns"),
    "lifted rows": ([{**ON, "rows": "id = 1"}, {"tag": "open"}], "gives the role all rows"),
    "lifted mask": ([{**ON, "mask": {"Name": "hide"}}, {"tag": "personal"}], "is hidden here"),
    "lifted column": ([{**ON, "columns": {"exclude": ["card"]}}, {"tag": "payment"}], "hidden"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_a_remedy(name: str) -> None:
    given, message = MISTAKES[name]
    with pytest.raises(ConfigurationError, match=f"(?s)grants.yml.*{message}"):
        loaded(one=given)


def test_columns_are_checked_where_the_declaration_lists_them_all() -> None:
    tables = {
        "shop.a": {
            "source": "shop",
            "keys": ["id"],
            "columns": {"include": ["mail"]},
            "rename": {"mail": "email"},
        }
    }
    declared = load_declarations(
        {"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig}
    ).tables
    load_grants({"one": [{"table": "shop.a", "columns": {"exclude": ["EMAIL"]}}]}, declared)
    with pytest.raises(ConfigurationError, match=r"one\[0\]\.columns\.exclude.*Did you mean 'email'"):
        load_grants({"one": [{"table": "shop.a", "columns": {"exclude": ["emial"]}}]}, declared)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"masks": {"personal": "blur"}}, r"masks\.personal.*there is no mask 'blur'"),
        ({"masks": {"nothing": "hide"}}, r"masks\.nothing.*no column has the tag"),
        ({"masks": ["hide"]}, "expected names with texts"),
        ({"principals": {"one": "somebody"}, "one": []}, "neither the ARN"),
        (
            {"principals": {"two": "111122223333"}, "one": []},
            r"principals\.two.*no role 'two'",
        ),
        ({"a role": []}, "a role's name is a word"),
    ],
)
def test_mistakes_beside_the_roles_are_told(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"(?s)grants.yml.*{message}"):
        load_grants(raw, DECLARED.tables)


def test_masks_of_tags_are_what_the_file_says() -> None:
    assert loaded(masks={"money": "hide", "personal": "none"}).masks == {
        "personal": "none", "payment": "last4", "money": "hide",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"personal": ["wrod"]}, r"tables\.yml.*shop\.secret\.personal"),
        ({"column_tags": {"personal": ["wrod"]}}, r"tables\.yml.*shop\.secret\.column_tags\.personal"),
        ({"personal": ["wrod"], "public": ["wrod"]}, r"tables\.yml"),
        ({"column_tags": {"other": ["wrod"]}}, ""),  # it masks nothing
    ],
)
def test_a_misspelled_column_of_a_tag_that_masks_closes_the_table(
    tmp_path: Any, keys: dict[str, Any], place: str
) -> None:
    lake = granted_project(tmp_path, ONE, {"one": [{"database": "shop"}]}, "shop.secret")
    tables = {"shop.secret": {"source": "shop", "keys": ["id"]} | keys}
    lake.declarations = load_declarations(
        {"shop": {"type": "dms", "path": "x"}}, tables, {"dms": DmsSourceConfig}
    )
    if not place:
        assert asked(lake, "one", "from shop.secret") == [{"id": 1, "word": ONE.word}]
        return
    with pytest.raises(ConfigurationError, match=f"{place}.*no column 'wrod'.*Did you mean 'word'"):
        asked(lake, "one", "from shop.secret")


def test_a_role_that_sees_no_column_of_a_table_is_told(tmp_path: Any) -> None:
    lake = granted_project(tmp_path, ONE, {"one": [{"tag": "open"}]}, "shop.staff")
    with lake.catalog.catalog.load_table("shop.staff").update_schema() as update:
        update.delete_column("desk")
    with pytest.raises(ConfigurationError, match="sees none of the table's columns"):
        asked(lake, "one", "select count(*) from shop.staff")


def test_a_table_of_another_format_is_refused_to_a_role(lake: Any) -> None:
    with pytest.raises(QueryError, match=r"kept in delta.*without `--as`"):
        run_query(
            lake.catalog,
            "from shop.secret",
            elsewhere={"shop.secret": "delta"},
            role=RoleAccess.of(lake, "reader"),
        )


def test_a_role_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"grants.yml.*analist.*Did you mean 'analyst'"):
        load_grants(GRANTS, DECLARED.tables).of("analist")
