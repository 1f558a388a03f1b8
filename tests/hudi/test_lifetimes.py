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

    from kedro_lakehouse.lake_table import LakeTable

pytestmark = [pytest.mark.spark, only_in_soak]


def check(shop: Shop, sale: LakeTable, click: LakeTable) -> None:
    assert seen([row.asDict() for row in rows_of_both(sale).collect()]) == shop.folded()
    clicks = Counter((row["id"], row["ts"]) for row in rows_of_both(click).collect())
    assert clicks == Counter((i, time_of(day)) for i, day in shop.clicks)


def test_both_tables_are_the_models(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path / "project", 5)
    for day in (1, 9):
        shop.land(day)
        shop.project.run("ingestion", "cdc_merge")
        project = activate(Project.load(str(shop.project.path / "conf"), None))
        sale, click = (project.bind(TableName.parse(name)) for name in ("shop.sale", "web.click"))
        check(shop, sale, click)
        with stopping("archive", "published"), pytest.raises(KeyboardInterrupt):
            move_old_rows(sale, at=at(day))
        check(shop, sale, click)
        for table in (sale, click):
            move_old_rows(table, at=at(day))
        check(shop, sale, click)
        recent = {k: r for k, r in shop.folded().items() if r[2] is None or r[2] >= limit(day)}
        assert seen(shop.project.rows("shop.sale")) == recent
