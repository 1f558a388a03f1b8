"""Old rows of Hudi tables leave for their archive: both together are what a plain model says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from harness.kills import stopping
from harness.lifetimes import Shop, at, limit, seen, time_of
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.lifetimes import move_old_rows, rows_of_both
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, only_in_soak]


def test_both_tables_are_the_models(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path / "project", 5)
    for day in (1, 9, 14):
        shop.land(day)
        shop.project.run("ingestion", "cdc_merge")
        project = activate(Project.load(str(shop.project.path / "conf"), None))
        tables = {name: project.bind(TableName.parse(name)) for name in ("shop.sale", "web.click")}

        def check(of: dict[str, object] = tables) -> None:
            sales, clicks = (
                [row.asDict() for row in rows_of_both(table).collect()]  # type: ignore[arg-type]
                for table in of.values()
            )
            assert seen(sales) == shop.folded()
            assert Counter((r["id"], r["ts"]) for r in clicks) == Counter(
                (i, time_of(d)) for i, d in shop.clicks
            )

        check()
        with stopping("archive", "published"), pytest.raises(KeyboardInterrupt):
            move_old_rows(tables["shop.sale"], at=at(day))
        check()
        for table in tables.values():
            move_old_rows(table, at=at(day))
        check()
        assert seen(shop.project.rows("shop.sale")) == {
            k: r for k, r in shop.folded().items() if r[2] is None or r[2] >= limit(day)
        }
