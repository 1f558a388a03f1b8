"""Old rows leave their table for its archive: both together are what a plain model says, at any moment."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from harness.kills import stopping
from harness.lifetimes import Shop, at, limit, seen, time_of
from harness.soak import only_in_soak

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.erasure.rows import erase_rows, rectify_rows
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.lifetimes import move_old_rows, rows_of_both
from kedro_lakehouse.operations.rebuild import rebuild_from_changes
from kedro_lakehouse.project import Project, _Active, activate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, only_in_soak]

ROUNDS = {"iceberg": 12, "delta": 2}
TABLES = ("shop.sale", "shop.lately", "web.click")


@pytest.fixture(params=["iceberg", pytest.param("delta", marks=pytest.mark.delta)])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    seed = int.from_bytes(os.urandom(3))
    print(f"seed {seed}")  # noqa: T201 - to make the same lake again
    return Shop.make(tmp_path / "project", seed, request.param)


def opened(shop: Shop) -> Project:
    return activate(Project.load(str(shop.project.path / "conf"), None))


def move(shop: Shop, day: int) -> None:
    project = opened(shop)
    for table in shop.chance.sample(TABLES, len(TABLES)):
        move_old_rows(project.bind(TableName.parse(table)), at=at(day))


def both(shop: Shop, table: str, *, by_spark: bool) -> list[dict[str, Any]]:
    """The table and its archive as one query shows them, by DuckDB where the format allows it."""
    bound = opened(shop).bind(TableName.parse(table))
    if by_spark or not bound.in_catalog:
        return [row.asDict() for row in rows_of_both(bound).collect()]
    found = sql(shop, f"select * from {table}_all")
    return [row | {"ts": row["ts"] and dt.datetime.fromisoformat(row["ts"])} for row in found]


def sql(shop: Shop, text: str, *words: str) -> list[dict[str, Any]]:
    _Active.project = None
    before = os.getcwd()  # noqa: PTH109
    os.chdir(shop.project.path)
    try:
        done = CliRunner().invoke(lakehouse, ["sql", text, "--json", "--limit", "0", *words])
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check_both(shop: Shop, *, by_spark: bool = False) -> None:
    assert seen(both(shop, "shop.sale", by_spark=by_spark)) == shop.folded()
    clicks = Counter((row["id"], row["ts"]) for row in both(shop, "web.click", by_spark=by_spark))
    assert clicks == Counter((i, time_of(day)) for i, day in shop.clicks)


def check_places(shop: Shop, day: int) -> None:
    """After a move each row is in its place."""
    old = limit(day)
    folded = shop.folded()
    recent = {key: row for key, row in folded.items() if row[2] is None or row[2] >= old}
    rows = shop.project.rows
    assert seen(rows("shop.sale")) == recent
    assert seen(rows("shop.lately")) == {
        key: (note, n, time and time.date()) for key, (note, n, time) in recent.items()
    }
    assert Counter((r["id"], r["ts"]) for r in rows("web.click")) == Counter(
        (i, time_of(d)) for i, d in shop.clicks if time_of(d) >= old
    )


def test_both_tables_are_the_models_whatever_happens_in_between(shop: Shop) -> None:
    day = 0
    for number in range(ROUNDS[shop.project.format_of("shop.sale").name]):
        day += shop.chance.choice([1, 5, 9])
        shop.land(day)
        shop.project.run("ingestion", "cdc_merge")
        check_both(shop)
        step, phase = shop.chance.choice(
            [
                ("archive", "staged"),
                ("archive", "published"),
                ("retention", "staged"),
                ("retention", "published"),
            ]
        )
        with stopping(step, phase), pytest.raises(KeyboardInterrupt):
            move(shop, day)
        check_both(shop)
        check_both(shop, by_spark=True)
        if number == 1 or shop.chance.random() < 0.5:  # more comes before anybody goes on with it
            shop.land(day)
            shop.project.run("ingestion", "cdc_merge")
            check_both(shop, by_spark=True)
        move(shop, day)
        check_both(shop)
        check_places(shop, day)
        archived = seen(
            [{k: v for k, v in r.items() if k != "_moved"} for r in shop.project.rows("shop.sale_archive")]
        )
        assert {k: r for k, r in archived.items() if k in shop.folded()} == {
            k: r for k, r in shop.folded().items() if r[2] is not None and r[2] < limit(day)
        }
        if number == 1:
            rebuild_from_changes(opened(shop).bind(TableName("shop", "sale")))
            assert seen(shop.project.rows("shop.sale")) == shop.folded()
            move(shop, day)
            check_both(shop)
            check_places(shop, day)
    shop.land_one_of_each_age(day)
    shop.project.run("ingestion", "cdc_merge")
    move(shop, day)
    _change_persons(shop)
    shown = sql(shop, "select count(*) as n from shop.sale_all where id > 0", "--engine", "spark")
    assert shown == [{"n": len(shop.folded())}]


def _change_persons(shop: Shop) -> None:
    """Correct, then erase, a sale in the archive and one in the table: both are reached."""
    table = opened(shop).bind(TableName("shop", "sale"))
    archived = {row["id"] for row in shop.project.rows("shop.sale_archive")} & shop.folded().keys()
    chosen = [min(archived), min(shop.folded().keys() - archived)]
    texts = [str(key) for key in chosen]
    rectify_rows(table, "id", texts, {"note": "right"})
    shop.sales = [replace(s, note="right") if s.id in chosen and s.note else s for s in shop.sales]
    check_both(shop)
    erase_rows(table, "id", texts)
    shop.sales = [s for s in shop.sales if s.id not in chosen]
    check_both(shop)
    for stored in ("shop.sale", "shop.sale_archive", "shop.sale_changes"):
        assert not {row["id"] for row in shop.project.rows(stored)} & {*chosen}, stored
