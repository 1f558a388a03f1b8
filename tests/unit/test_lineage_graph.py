"""What a table is made from and what is made from it: by declarations and commits, and as pictures."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from harness.catalogs import embedded_conf

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.lineage.columns import InputColumn
from kedro_lakehouse.lineage.graph import Lineage, LineageEdge, LineageNode, column_sources, project_lineage
from kedro_lakehouse.lineage.pictures import dot_of, mermaid_of, tree_of
from kedro_lakehouse.lineage.queries import query_lineage
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCHES
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

SQL = """
with paid as (select o.id, o.customer, o.amount from orders o where o.paid)
select c.id, c.name, sum(p.amount) as total, 1 as one
from customers c join paid p on p.customer = c.id group by c.id, c.name
"""
TABLES: dict[str, Any] = {
    "shop.customer": {"source": "shop", "keys": ["id"], "rename": {"NAME": "name"}},
    "shop.order": {
        "source": "shop", "keys": ["id"], "history": {"view": {"name": "dim_order"}},
        "enrich": [{"table": "shop.country", "on": {"land": "code"}, "columns": {"title": "country"}}],
    },
    "shop.country": {"source": "shop", "keys": ["code"]},
    "shop.total": {
        "keys": ["id"],
        "derive": {"inputs": {"orders": "shop.order", "customers": "shop.customer"}, "sql": SQL},
    },
    "shop.best": {"keys": ["id"], "derive": {"inputs": {"t": "shop.total"}, "sql": "select * from t"}},
    "shop.alone": {"source": "shop", "keys": ["id"]},
}  # fmt: skip
COLUMNS = {
    "shop.customer": ["id", "name", "_order"],
    "shop.customer_changes": ["id", "name", "_batch"],
    "shop.order": ["id", "customer", "amount", "paid", "country"],
    "shop.order_changes": ["id", "customer", "amount", "paid", "land", "country", "_op"],
    "shop.total": ["id", "name", "total", "one"],
    "shop.total_changes": ["id", "name", "total", "one", "_op"],
}
AT = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)


def commit(table: str, stage: str, batch: int, **facts: Any) -> dict[str, Any]:
    at = AT + dt.timedelta(hours=batch)
    return {
        "table": table,
        "stage": stage,
        "batch": batch,
        "run_id": f"run{batch}",
        "committed_at": at,
        **facts,
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder: Path = tmp_path_factory.mktemp("lake")
    declared = load_declarations({"shop": {"type": "dms", "path": "/in"}}, TABLES, {"dms": DmsSourceConfig})
    made = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(folder), lakehouse=str(folder),
        cache=str(folder),
    )  # fmt: skip
    for space in ("shop", "ops"):
        made.catalog.ensure_namespace(space)
    for name, columns in COLUMNS.items():
        schema = pa.schema([(column, pa.string()) for column in columns])
        made.catalog.catalog.create_table(name, schema=schema)
    indexed = [{"namespace": "shop", "table": "customer", "source": "lake", "id": "1"}]
    indexed += [{"namespace": "files", "table": "towns", "source": "file", "id": "2"}]
    index = pa.Table.from_pylist(indexed)
    made.catalog.catalog.create_table("ops.column_signatures", schema=index.schema).append(index)
    made.ops.append(
        BATCHES,
        [
            commit("shop.order", "ingestion", 1, quarantined=2),
            commit("shop.order", "ingestion", 2, snapshot_id=7),
            commit("shop.order", "current", 2, snapshot_id=8),
        ],
    )
    return made


def test_a_table_goes_back_to_where_its_records_arrive_and_on_to_what_is_derived(project: Project) -> None:
    found = project_lineage(project)
    assert found.reached("shop.total", up=True) == {
        "shop.order": 1, "shop.customer": 1, "/in/order": 2, "shop.country": 2, "/in/customer": 2,
        "/in/country": 3,
    }  # fmt: skip
    assert found.reached("shop.order", up=False) == {"shop.total": 1, "shop.best": 2}
    assert found.reached("shop.customer", up=False) == {"shop.total": 1, "column index": 1, "shop.best": 2}
    assert not {"files.towns", "shop.alone_history"} & set(found.nodes)


def test_each_stored_table_has_its_last_commit_and_a_quarantine_only_where_records_were_rejected(
    project: Project,
) -> None:
    nodes = project_lineage(project).nodes
    last = nodes["shop.order"].commit
    assert last is not None
    assert (last.batch, last.run_id, last.snapshot_id) == (2, "run2", 8)
    assert nodes["shop.order_history"].commit is None
    assert {name for name, node in nodes.items() if node.kind == "quarantine"} == {"shop.order_quarantine"}
    assert nodes["shop.dim_order"].kind == "view"


def test_steps_bound_what_is_kept(project: Project) -> None:
    found = project_lineage(project)
    near = found.around("shop.order", up=0, down=1)
    assert {node.group for node in near.nodes.values()} == {"shop.order", "shop.total"}
    whole = found.around("shop.total")
    assert "shop.alone" not in {node.group for node in whole.nodes.values()}
    # What leads from something above past the table is no part of its way.
    assert not [edge for edge in whole.edges if edge.target == "column index"]


def test_columns_are_followed_through_names_references_and_queries(project: Project) -> None:
    def told(name: str) -> dict[str, list[tuple[str, str, str]]]:
        found = column_sources(project, TableName.parse(name))
        return {c: [(i.source, i.column, i.how) for i in inputs] for c, inputs in found.items()}

    assert told("shop.customer") == {
        "id": [("/in/customer", "id", "IDENTITY")], "name": [("/in/customer", "NAME", "IDENTITY")],
    }  # fmt: skip
    assert told("shop.order")["country"] == [
        ("shop.country", "title", "IDENTITY"), ("/in/order", "land", "JOIN"),
    ]  # fmt: skip
    assert told("shop.total") == {
        "id": [("shop.customer", "id", "IDENTITY")],
        "name": [("shop.customer", "name", "IDENTITY")],
        "total": [("shop.order", "amount", "TRANSFORMATION")],
        "one": [],
    }


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select id, upper(name) n from a", {"id": "a.id=", "n": "a.name~"}),
        ("select * from a", {"id": "a.id=", "name": "a.name="}),
        ("select b.* from a join b using (id)", {"id": "b.id=", "price": "b.price="}),
        ("select x.n from (select name as n from a) x", {"n": "a.name="}),
        ("select `name` as `odd name` from a", {"odd name": "a.name="}),
        ("select a.name.first as f from a", {"f": "a.name="}),
        ("select id from a, b", {}),  # which of the two?
        ("select count(*) as n, (select max(id) from b) as m from a", {}),
        ("select id from a union all select id from b", {}),
        ("select * except (id) from a", {}),
        ("select x.m from (select id as n from a) x(m)", {}),
        ("with x(m) as (select id from a) select m from x", {}),
        ("select id from nowhere", {}),
        ("select id from", {}),
    ],
)
def test_a_query_says_what_its_columns_are_made_of_or_nothing(sql: str, found: dict[str, str]) -> None:
    def short(inputs: Any) -> str:
        return " ".join(f"{i.source}.{i.column}{'=' if i.how == 'IDENTITY' else '~'}" for i in inputs)

    made = query_lineage(sql, {"a": ["id", "name"], "b": ["id", "price"]})
    assert {name: short(inputs) for name, inputs in made.items()} == found


HOSTILE = 'in"]; x --> y %% <script>alert(1)</script>\n`end` \\" #quot; |a| 🤖'


def hostile() -> Lineage:
    nodes = [
        LineageNode(name=HOSTILE, kind="source", detail='source "x" -> <b>'),
        LineageNode(name="shop.item_changes", kind="changes", table="shop.item"),
    ]
    edge = LineageEdge(source=HOSTILE, target="shop.item_changes", how="ingested")
    return Lineage(nodes={node.name: node for node in nodes}, edges=[edge])


def test_names_in_pictures_are_texts() -> None:
    drawn = mermaid_of(hostile(), "shop.item")
    lines = drawn.splitlines()
    assert len(lines) == 6
    box = r'\w+[\[({/]+"(?:[\w .,:()/…-]|#\d+;|<br/>)*"[\])}/]+'
    assert all(
        re.fullmatch(rf"  (?:{box}|  {box}|subgraph focus\S*|end|n\d+ -->\|\w+\| n\d+)", x) for x in lines[1:]
    )
    dot = dot_of(hostile(), "shop.item")
    texts = r'"(?:[^"\\]|\\.)*"'
    assert "script" not in re.sub(texts, "", dot)
    assert re.sub(texts, "", dot).count("->") == 1


def test_a_tree_tells_each_table_once(project: Project) -> None:
    lines = tree_of(project_lineage(project), "shop.total", up=True)
    assert lines[0] == "├─ shop.order  derived"
    assert sum("/in/country" in line for line in lines) == 1
    assert len(lines) == 6


@pytest.fixture
def call(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("kedro_lakehouse.cli.lineage.open_project", lambda: project)
    return lambda *words: CliRunner().invoke(lakehouse, ["lineage", *words])


def test_the_command_shows_one_table_or_all(call: Any) -> None:
    told = call("shop.order", "--columns").stdout
    for line in ("├─ /in/order  source shop (dms)", "shop.dim_order", "2026-11-21 08:00:00Z", "run2"):
        assert line in told
    assert re.search(r"country +title of shop.country; looked up by land", told)
    assert re.search(r"customer +customer of its records", told)
    every = call().stdout.splitlines()
    assert [line.split()[0] for line in every[1:]] == sorted(TABLES)
    assert "not known before the first run" in call("shop.alone", "--columns").stdout
    assert "subgraph" in call("shop.order", "-o", "mermaid").stdout
    assert call("-o", "mermaid").stdout.startswith("flowchart LR")


def test_json_has_nodes_edges_and_columns(call: Any) -> None:
    told = json.loads(call("shop.order_history", "--json", "--up", "1", "--down", "0").stdout)
    assert told["table"] == "shop.order"
    assert {node["name"] for node in told["nodes"] if not node["table"]} == {"/in/order"}
    assert {"source": "shop.country", "target": "shop.order_changes", "how": "looked up"} in told["edges"]
    assert told["columns"]["amount"] == [{"node": "/in/order", "column": "amount", "how": "IDENTITY"}]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("shop.ordr",), 1, "Did you mean 'shop.order'?"),
        (("--up", "1"), 2, "about one TABLE"),
        (("shop.order", "--json", "-o", "text"), 2, "contradict"),
        (("shop.order", "--as", "nobody"), 2, "Lineage names"),
    ],
)
def test_what_cannot_be_shown_is_told(call: Any, words: tuple[str, ...], status: int, told: str) -> None:
    done = call(*words)
    assert (done.exit_code, told in done.output) == (status, True), done.output


def test_input_columns_of_a_query_are_in_openlineages_words() -> None:
    assert InputColumn("a", "b", "IDENTITY") in query_lineage("select b from a", {"a": ["b"]})["b"]
