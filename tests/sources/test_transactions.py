"""Random transactions while pulls run: after the last one the tables equal the databases, row by row.

Each wrong bound of a window, planted, loses rows; so does a join of two tables that are not in one state.
"""

from __future__ import annotations

import datetime as dt
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
import pyarrow.parquet as pq
from harness.pulled import DIALECTS, Shop, Writers, bound, folded, landed, made, make_table, names_in, window
from harness.soak import soaking
from harness.transactions import MARKED, WHOLE, Transactions, as_texts

from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.pulls.sql import dialect as rules
from kedro_lakehouse.pulls.sql.dialect import Bound, SqlTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.sources

TRANSACTIONS: Final = 2_000 if soaking() else 64
SECONDS: Final = 20.0 if soaking() else 2.5
RUNS: Final = 100 if soaking() else 4
SETTLED: Final = 2.1
"""Windows end a second before now, or before the last statement."""
MOST: Final = 600
"""Rounds of pulls, after which a table that none of them found anything in is a fault."""
WRONG: Final = ("max", "now", "closed")


def test_tables_equal_the_databases_after_random_transactions(shops: dict[str, Shop], tmp_path: Path) -> None:
    """Full and incremental; a window sees no delete, so rows of the latter are marked where they are gone."""
    tables: dict[str, Any] = {}
    for dialect in shops:
        tables[f"{dialect}.{WHOLE}"] = {"source": dialect, "keys": ["id"], "max_delete_fraction": 1.0}
        tables[f"{dialect}.{MARKED}"] = {"source": dialect} | window()
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    project = made(tmp_path / "project", sources, tables)
    every = {d: Transactions(shop, TRANSACTIONS, seed=n) for n, (d, shop) in enumerate(shops.items())}
    pulls = dict.fromkeys(tables, 0)
    with ExitStack() as working:
        for one in every.values():
            working.enter_context(one)
        rounds = 0
        # Few transactions may be over before a window ends; it ends a second after the oldest of them.
        while any(one.is_working for one in every.values()) or not (all(pulls.values()) or rounds > MOST):
            rounds += 1
            for dialect in shops:
                pulls[f"{dialect}.{MARKED}"] += len(pull_now(bound(project, f"{dialect}.{MARKED}")))
                if rounds % 4 == 1:
                    pulls[f"{dialect}.{WHOLE}"] += len(pull_now(bound(project, f"{dialect}.{WHOLE}")))
            if soaking() and rounds % 50 == 0:
                project.run("ingestion", "cdc_merge")
            time.sleep(0.1)
    time.sleep(SETTLED)
    project.run("ingestion", "cdc_merge")
    assert all(pulls.values()), pulls
    for dialect, one in every.items():
        assert one.rolled_back
        for name in (WHOLE, MARKED):
            there = one.rows(name)
            rows = project.rows(f"{dialect}.{name}")
            assert as_texts(rows) == there, (dialect, name)
            assert len(rows) == len(there) > TRANSACTIONS / 8
            assert not project.rows(f"{dialect}.{name}_quarantine")


def planted(rule: str, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows be bounded by a wrong rule."""
    real: Callable[..., Any] = SqlTable.window
    where: Callable[..., str] = SqlTable.where
    monkeypatch.setattr(rules, "SURE", dt.timedelta(0))
    if rule == "now":
        monkeypatch.setattr(SqlTable, "window", lambda self, since, b: real(self, since, Bound(now=b.now)))
        return
    # `<=`: a row with the time of a window's end may come after it was read.
    monkeypatch.setattr(
        SqlTable, "where", lambda *given: where(*given).replace(" >= ", " > ").replace(" < ", " <= ")
    )
    if rule == "max":

        def up_to_the_newest(self: SqlTable, since: Any, bound: Bound) -> Any:
            at = "to_char(max(updated_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
            at = at if shop.is_postgres else "date_format(max(updated_at), '%Y-%m-%dT%H:%i:%s.%f')"
            newest = shop.script(f"SELECT {at} FROM {self.entity};")[0]
            return real(self, since, Bound(now=f"{newest}+00:00")) if newest not in ("", "NULL") else None

        monkeypatch.setattr(SqlTable, "window", up_to_the_newest)


def test_each_wrong_bound_loses_rows_and_the_right_one_none(
    shops: dict[str, Shop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tables of one in the database, pulled while people write, each by its own rule."""
    tables = {
        f"{dialect}.{rule}": {"source": dialect, "entity": "bounded"} | window()
        for dialect in shops
        for rule in (*WRONG, "right")
    }
    sources = {d: s.source(str(tmp_path / "landing" / d)) for d, s in shops.items()}
    project = made(tmp_path / "project", sources, tables)
    with ExitStack() as working:
        for dialect, shop in shops.items():
            make_table(shop, "bounded", "bounded_child")
            if dialect == "mariadb":  # it tells the begin of a transaction in seconds
                shop.script("ALTER TABLE bounded MODIFY updated_at timestamp NOT NULL DEFAULT now();")
            working.enter_context(Writers(shop, "bounded", "bounded_child", count=6))
        rounds, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end or rounds < 8:
            pull_all(shops, project, monkeypatch)
            rounds += 1
    time.sleep(SETTLED)
    pull_all(shops, project, monkeypatch)
    for dialect, shop in shops.items():
        there = names_in(shop, "bounded")
        lost = {}
        for rule in (*WRONG, "right"):
            rows = {n: row["name"] for n, row in folded(landed(project, f"{dialect}.{rule}")).items()}
            lost[rule] = sum(rows.get(number) != name for number, name in there.items())
        assert lost.pop("right") == 0, (dialect, lost)
        assert all(lost.values()), (dialect, lost, len(there))


def pull_all(shops: dict[str, Shop], project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull each table by its own rule."""
    for dialect, shop in shops.items():
        for rule in (*WRONG, "right"):
            with monkeypatch.context() as wrong:
                if rule != "right":
                    planted(rule, shop, wrong)
                pull_now(bound(project, f"{dialect}.{rule}"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("one_state", [True, False])
def test_rows_of_two_tables_join_only_in_one_state(
    shops: dict[str, Shop], tmp_path: Path, dialect: str, *, one_state: bool
) -> None:
    """A child is written with its parent: in one state none is without it, and without one some are."""
    shop = shops[dialect]
    parents, children = f"parent_{one_state}".lower(), f"child_{one_state}".lower()
    make_table(shop, parents, children)
    source = shop.source(str(tmp_path / "landing"), one_state=one_state)
    tables = {f"a.{name}": {"source": dialect, "keys": ["id"]} for name in (parents, children)}
    project = made(tmp_path / "project", {dialect: source}, tables)
    orphans = read = runs = 0

    def ids(name: str, found: Any) -> set[int]:
        path = tmp_path / "landing" / found[name].files[0].path
        return set(pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist())

    with Writers(shop, parents, children, count=8):
        while runs < RUNS or (not one_state and not orphans and runs < 100):
            runs += 1
            time.sleep(0.05)
            found = pull_now(bound(project, f"a.{parents}"))
            if not one_state:
                found = {**found, **pull_now(bound(project, f"a.{children}"))}
            child = ids(f"a.{children}", found)
            read += len(child)
            orphans += len(child - ids(f"a.{parents}", found))
    assert read
    assert (orphans == 0) is one_state, (orphans, runs)
