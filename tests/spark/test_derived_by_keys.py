"""Derived tables of which only touched keys are computed: rows, events and quarantine as computed whole."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from harness.derived_queries import SCHEMAS, SHAPES, Inputs, answer
from harness.project import Outcome, TemporaryProject
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES = {
    "flagged": {
        "type": "changes", "file_format": "parquet", "path": "${globals:landing}/in", "pattern": "*.parquet",
        "op_column": "op",
    }
}  # fmt: skip
TRANSACTIONS = 34
SEEN = tuple(SHAPES)
FOLLOWING = ("summary", "chain", "by_city", "staff")
"""Two inner joins, two left joins with a filter, a group whose key may be null, one input twice."""
SUMMARY = """
    select cast(c.CUST_ID as bigint) as customer_id, c.NAME as name, count(o.ORDER_ID) as order_count
    from c join cs on c.CUST_ID = cs.CUST_ID join o on cs.SITE_ID = o.SITE_ID
    group by c.CUST_ID, c.NAME"""
LENIENT = {"max_delete_fraction": 1.0, "allow_empty_extract": True}


def declared(
    sql: str, keys: list[str], inputs: dict[str, str], by_keys_from: int, **more: Any
) -> dict[str, Any]:
    derive = {"inputs": inputs, "sql": " ".join(sql.split()), "by_keys_from": by_keys_from}
    return {"keys": keys, "derive": derive} | more


def tables_of(names: tuple[str, ...]) -> dict[str, Any]:
    """The inputs, and each query as a table that is computed by keys and as one that is computed whole."""
    inputs = {alias: f"in.{alias}" for alias in SCHEMAS}
    made: dict[str, Any] = {
        f"in.{a}": {"source": "flagged", "keys": ["id"], "order_by": ["ts"]} for a in SCHEMAS
    }
    for name in names:
        keys, sql = SHAPES[name]
        made[f"cut.{name}"] = declared(sql, keys, inputs, 0, **LENIENT)
        made[f"whole.{name}"] = declared(sql, keys, inputs, 10**9, **LENIENT)
    return made


def land(project: TemporaryProject, alias: str, batch: int, rows: list[dict[str, Any]]) -> None:
    """Write a file of changes; a row of which nothing but the key is given is deleted."""
    schema = SCHEMAS[alias].append(pa.field("ts", pa.int64())).append(pa.field("op", pa.string()))
    filled = [r | {"ts": batch, "op": "I" if len(r) > 1 else "D"} for r in rows]
    place = project.landing / f"in/{alias}/{batch:05}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(filled, schema), place)


@dataclass
class Lake:
    """A project over random inputs, its last run, and what was said of how results were computed."""

    project: TemporaryProject
    inputs: Inputs
    caplog: pytest.LogCaptureFixture
    batch: int = 0
    outcome: Outcome | None = None
    said: dict[str, str] = field(default_factory=dict)

    def seed(self) -> None:
        self.land({alias: dict(rows) for alias, rows in self.inputs.rows.items()})

    def land(self, changed: dict[str, dict[int, dict[str, Any] | None]]) -> None:
        self.batch += 1
        for alias, rows in changed.items():
            land(self.project, alias, self.batch, [{"id": key, **(row or {})} for key, row in rows.items()])

    def change(self, alias: str, key: int, row: dict[str, Any] | None) -> None:
        """Change one row of an input."""
        if row is None:
            del self.inputs.rows[alias][key]
        else:
            self.inputs.rows[alias][key] = row
        self.land({alias: {key: row}})

    def run(self, *pipelines: str, **options: Any) -> None:
        self.caplog.clear()
        with self.caplog.at_level(logging.DEBUG, "kedro_lakehouse.ingestion"):
            self.outcome = self.project.attempt(*pipelines, **options)
        found = [r.getMessage() for r in self.caplog.records if r.name == "kedro_lakehouse.ingestion.derived"]
        found = [text for text in found if ": " in text]
        self.said = {text.partition(": ")[0]: text.partition(": ")[2] for text in found}

    def command(self, *words: str) -> None:
        with contextlib.chdir(self.project.path):
            done = CliRunner().invoke(lakehouse, list(words))
        assert done.exit_code == 0, done.output

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return _told(self.project.rows(table), framework=False)


def _told(rows: list[dict[str, Any]], *, framework: bool = True) -> list[tuple[Any, ...]]:
    """Rows that can be compared, in an order of their own."""
    kept = [tuple(r[c] for c in sorted(r) if framework or not c.startswith("_")) for r in rows]
    return sorted(kept, key=repr)


def expected(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """DuckDB's whole result, without rows whose key is null."""
    keys, sql = SHAPES[name]
    found = answer(lake.inputs.tables(), sql)
    return _told([r for r in found if all(r[k] is not None for k in keys)])


@only_in_soak
def test_by_keys_gives_the_rows_events_and_quarantine_of_the_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(TemporaryProject.make(tmp_path / "p", SOURCES, tables_of(SEEN)), Inputs(seed=7), caplog)
    lake.seed()
    lake.run()
    assert {lake.said[f"cut.{name}"] for name in SEEN} == {
        "its result is computed whole: it is the first one"
    }
    for number in range(TRANSACTIONS + 1):
        if number:
            lake.land(lake.inputs.change())
            lake.run()
            assert all("of its keys are computed" in lake.said.get(f"cut.{name}", "") for name in SEEN), (
                lake.said
            )
        for name in SEEN:
            if name != "doubled":  # two rows of one key are both rejected, and the key's row stays
                assert lake.rows(f"cut.{name}") == expected(lake, name), (number, name)
            for kind in ("", "_changes", "_quarantine"):
                cut, whole = (_told(lake.project.rows(f"{t}.{name}{kind}")) for t in ("cut", "whole"))
                assert cut == whole, (number, name, kind)
    assert lake.project.rows("cut.doubled_quarantine")


@pytest.mark.parametrize("seed", range(20))
@only_in_soak
def test_tables_equal_the_query_after_each_transaction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """500 transactions of one, two or all inputs, each followed by a table: one of four for each seed."""
    name = FOLLOWING[seed % len(FOLLOWING)]
    tables = {table: rest for table, rest in tables_of((name,)).items() if not table.startswith("whole.")}
    lake = Lake(TemporaryProject.make(tmp_path / "p", SOURCES, tables), Inputs(seed=100 + seed), caplog)
    lake.seed()
    lake.run()
    local = 0
    for number in range(25):
        lake.land(lake.inputs.change())
        lake.run()
        assert "of its keys are computed" in lake.said.get(f"cut.{name}", ""), (number, lake.said)
        wanted = expected(lake, name)
        if not wanted and lake.outcome.failed:  # only rows without a key: such a result is refused
            assert set(lake.outcome.failed) == {f"cut.{name}"}
            continue
        assert lake.rows(f"cut.{name}") == wanted, (number, name)
        local += caplog.text.count("compared without Spark")
    # Else Spark alone would have been tried, as it is for a group whose key may be null, and where a table is
    # read twice.
    assert local > 5 or name in ("by_city", "staff")


def test_customer_summary_follows_an_update_and_a_delete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"customer": "CUST_ID", "customer_site": "SITE_ID", "sales_order_all": "ORDER_ID"}
    inputs = {"c": "salesdb.customer", "cs": "salesdb.customer_site", "o": "salesdb.sales_order_all"}
    tables: dict[str, Any] = {
        f"salesdb.{t}": {"source": "flagged", "keys": [k], "order_by": ["ts"]} for t, k in key.items()
    }
    tables["salesdb.customer_summary"] = declared(SUMMARY, ["customer_id"], inputs, 0)
    lake = Lake(TemporaryProject.make(tmp_path / "p", SOURCES, tables), Inputs(seed=1), caplog)

    def land_rows(table: str, batch: int, op: str, rows: list[dict[str, Any]]) -> None:
        place = lake.project.landing / f"in/{table}/{batch}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([r | {"ts": batch, "op": op} for r in rows]), place)

    customers = [{"CUST_ID": float(n), "NAME": f"name {n}"} for n in range(1, 21)]
    sites = [{"SITE_ID": float(n), "CUST_ID": float((n % 20) + 1)} for n in range(1, 41)]
    orders = [{"ORDER_ID": float(n), "SITE_ID": float((n * n) % 40 + 1)} for n in range(1, 201)]
    for table, rows in (("customer", customers), ("customer_site", sites), ("sales_order_all", orders)):
        land_rows(table, 1, "I", rows)
    lake.run()
    names = {r["CUST_ID"]: r["NAME"] for r in customers}
    of_site = {r["SITE_ID"]: r["CUST_ID"] for r in sites}
    counts = {c: sum(of_site[o["SITE_ID"]] == c for o in orders) for c in names}

    def summarised() -> dict[int, tuple[str, int]]:
        found = lake.project.rows("salesdb.customer_summary")
        return {r["customer_id"]: (r["name"], r["order_count"]) for r in found}

    def wanted() -> dict[int, tuple[str, int]]:
        return {int(c): (names[c], n) for c, n in counts.items() if n and c in names}

    assert summarised() == wanted()
    assert {7, 11} <= wanted().keys()
    land_rows("customer", 2, "U", [{"CUST_ID": 7.0, "NAME": "updated_name"}])
    lake.run()
    names[7.0] = "updated_name"
    assert summarised() == wanted()
    assert lake.said["salesdb.customer_summary"].startswith("1 of its keys are computed")
    land_rows("customer", 3, "D", [{"CUST_ID": 11.0, "NAME": None}])
    lake.run()
    del names[11.0]
    assert summarised() == wanted()
    assert lake.said["salesdb.customer_summary"].startswith("1 of its keys are computed")
    assert lake.outcome is not None
    assert [c["applied"] for c in lake.outcome.counts("salesdb.customer_summary", "ingestion")] == [1]


@only_in_soak
def test_whatever_else_changes_rows_is_computed_whole(  # noqa: PLR0915 - one project, one thing after another
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tables_of(("optional", "by_city"))
    del tables["whole.optional"], tables["whole.by_city"]
    lake = Lake(TemporaryProject.make(tmp_path / "p", SOURCES, tables), Inputs(seed=3), caplog)
    names = ("optional", "by_city")

    def check(words: str) -> None:
        """The last run computed both tables so, and they hold what DuckDB says."""
        assert lake.outcome is not None
        assert lake.outcome.failed == {}
        for name in names:
            assert words in lake.said.get(f"cut.{name}", "nothing said"), (name, lake.said)
            assert lake.rows(f"cut.{name}") == expected(lake, name), name

    lake.seed()
    lake.run()
    check("it is the first one")
    # A right row of a left join vanishes and appears; by_city has a null key for it.
    site = lake.inputs.rows["s"][4]
    lake.change("s", 4, None)
    lake.run()
    check("of its keys are computed")
    lake.change("s", 4, site)
    lake.run()
    check("of its keys are computed")
    # Maintenance changes no row: nothing is derived, and the next change is followed as before.
    lake.run("maintenance")
    lake.run()
    assert lake.said == {}
    lake.change("s", 5, {"c_id": 3, "city": "Rome"})
    # A kill between plan and commit: the same batch is finished, also after its input has gone on.
    lake.run(namespaces=["in.s"])
    for name in names:
        planned = lake.project.frame(f"cut.{name}.landing")
        next(planned)
        planned.close()
    lake.change("s", 5, {"c_id": 4, "city": "Oslo"})
    lake.run()
    check("lacks batches")
    # An input goes back to an earlier state, from where it takes its batches again.
    lake.command("rollback", "in.s", "--to-batch", str(lake.project.state("in.s").batch - 1), "--yes")
    lake.change("s", 6, {"c_id": 5, "city": "Lyon"})
    lake.run()
    check("rolled back")
    # An input is folded again.
    lake.command("rebuild", "in.s", "--yes")
    lake.change("s", 7, {"c_id": 6, "city": "Bern"})
    lake.run()
    check("folded again")
    # The snapshot that the last result was made of is gone.
    lake.change("s", 8, {"c_id": 1, "city": "Lyon"})
    lake.run(namespaces=["in.s"])
    stored = lake.project._project.catalog.find(TableName("in", "s"))
    assert stored is not None
    older = [one.snapshot_id for one in stored.snapshots() if one != stored.current_snapshot()]
    stored.maintenance.expire_snapshots().by_ids(older).commit()
    lake.run()
    check("is gone")
    # Another query.
    keys, sql = SHAPES["optional"]
    other = sql.replace("c.name", "upper(c.name) as name")
    tables["cut.optional"] = declared(other, keys, {a: f"in.{a}" for a in SCHEMAS}, 0, **LENIENT)
    lake.project.declare(SOURCES, tables)
    lake.change("s", 9, {"c_id": 1, "city": "Lyon"})
    lake.run()
    assert "declaration" in lake.said["cut.optional"]
    assert "of its keys are computed" in lake.said["cut.by_city"]
    assert lake.rows("cut.optional") == _told(answer(lake.inputs.tables(), other))
    # Derived again from the start it has the same rows.
    held = {name: lake.rows(f"cut.{name}") for name in names}
    for name in names:
        lake.command("rebuild", f"cut.{name}", "--from-landing", "--yes")
    lake.run()
    assert {name: lake.rows(f"cut.{name}") for name in names} == held


@only_in_soak
def test_guards_judge_touched_keys_as_they_judge_the_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tables_of(())
    sql = "select id, city from s where city <> 'gone'"
    for kind, by_keys_from in (("cut", 0), ("whole", 10**9)):
        tables[f"{kind}.some"] = declared(sql, ["id"], {"s": "in.s"}, by_keys_from, max_delete_fraction=0.25)
    lake = Lake(TemporaryProject.make(tmp_path / "p", SOURCES, tables), Inputs(seed=5), caplog)
    lake.inputs.rows = {"s": {n: {"c_id": n, "city": "Lyon"} for n in range(1, 13)}}
    lake.seed()
    lake.run(namespaces=["in.s", "cut.some", "whole.some"])
    for gone, passes in (([1, 2, 3], True), ([4, 5, 6], False)):
        lake.land({"s": {n: {"c_id": n, "city": "gone"} for n in gone}})
        lake.run(namespaces=["in.s", "cut.some", "whole.some"])
        assert lake.outcome is not None
        assert (lake.outcome.failed == {}) == passes
        refused = {name: [e.reason for e in error.errors] for name, error in lake.outcome.failed.items()}  # type: ignore[attr-defined]
        assert refused.get("cut.some") == refused.get("whole.some")
        if passes:
            cut, whole = (lake.outcome.counts(f"{t}.some", "ingestion") for t in ("cut", "whole"))
            assert cut == whole
    assert len(lake.rows("cut.some")) == len(lake.rows("whole.some")) == 9
