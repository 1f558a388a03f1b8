"""A project and its lake, made by version 7f2b24a in each format, go on under the present version.

``write_lake.py`` made the archives, and they stay as they are: a later version runs such a project unchanged,
and reads what is stored of it.
"""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from compat.write_lake import PLACE, land, write
from harness.project import FORMAT, ROOT, SMALL, TemporaryProject
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

FORMATS: list[Any] = [pytest.param(FORMAT, marks=only_in_soak)]
if FORMAT == "iceberg":
    FORMATS = [
        pytest.param("iceberg", marks=pytest.mark.slow),
        pytest.param("delta", marks=[pytest.mark.delta, only_in_soak]),
    ]
LAKES = ROOT / "tests/data/lakes"
HELD = {
    "shop.item": [(1, "new", 10), (3, "n3", 3), (4, "n4", 4), (5, "n5", 5), (6, "n6", 6)],
    "shop.old": [(1, "b", 1), (3, "c", 3)],
    "shop.line": [(1, "a", 1), (1, "a", 1)],
    "shop.report": [(1, "NEW", 10), (3, "N3", 3), (4, "N4", 4), (5, "N5", 5), (6, "N6", 6)],
    "lists.price": [("a", "1.10"), ("b", "2.50")],
    "crm.customer": [(1, "Anna"), (2, "Bob")],
}
"""The current rows of the lakes as they are kept."""
VERSIONS = {"shop.item": 7, "lists.price": 3, "crm.customer": 4}
"""How many versions their histories hold."""
QUARANTINED = {"shop.item": ["unknown_op"], "lists.price": ["incompatible_type"]}


@pytest.fixture(params=FORMATS)
def earlier(request: pytest.FixtureRequest) -> Iterator[TemporaryProject]:
    """The project in the folder in which it was made, for Iceberg's metadata holds whole paths."""
    lock = PLACE.with_suffix(".lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        project = TemporaryProject(PLACE / f"{request.param}-lake")
        shutil.rmtree(project.path, ignore_errors=True)
        with tarfile.open(LAKES / f"{request.param}.tar.gz") as archive:
            archive.extractall(PLACE, filter="data")
        env = None if request.param == "iceberg" else request.param
        project.write("globals", _of(project.path, env, "globals") | _places(project.path), env="local")
        project.write("spark", _of(ROOT, env or "delta", "spark") | SMALL, env="local")
        yield project
        shutil.rmtree(project.path, ignore_errors=True)


def _places(project: Path) -> dict[str, str]:
    """Where things are for a test, whose working folder is not the project's."""
    places = {"lakehouse": "data/lakehouse", "landing": "data/01_raw", "conf": "conf"}
    return {name: str(project / place) for name, place in places.items()} | {"cache": str(ROOT / ".cache")}


def _of(project: Path, env: str | None, name: str) -> dict[str, Any]:
    """A file of an environment's configuration; of several formats one session serves all tests."""
    if env is None:
        return {}
    found: dict[str, Any] = yaml.safe_load((project / f"conf/{env}/{name}.yml").read_text(encoding="utf-8"))
    return found


def values(project: TemporaryProject, table: str) -> Counter[tuple[Any, ...]]:
    """The declared columns of a table's rows."""
    names = [
        c
        for c in ("id", "sku", "customer_id", "name", "title", "price", "amount")
        if c in _columns(project, table)
    ]
    rows = project.rows(table)
    return Counter(tuple(str(r[c]) if c == "amount" else r[c] for c in names) for r in rows)


def _columns(project: TemporaryProject, table: str) -> list[str]:
    return list(project.state(table).columns)


def test_an_earlier_lake_is_read_goes_on_and_is_rebuilt(earlier: TemporaryProject) -> None:
    project = earlier
    assert project.run() == []
    for table, rows in HELD.items():
        assert values(project, table) == Counter(rows), table
    for table, count in VERSIONS.items():
        assert len(project.rows(f"{table}_history")) == count, table
    for table, reasons in QUARANTINED.items():
        assert [r["_reasons"][0] for r in project.rows(f"{table}_quarantine")] == reasons, table

    land(
        project.path,
        "item",
        "20260301-000010000.parquet",
        [("U", 3, "n3b", 30, 60, "1"), ("D", 5, None, None, 60, "2")],
    )
    land(project.path, "line", "20260301-000010000.parquet", [("I", 2, "b", 2, 60, "1")])
    land(
        project.path,
        "old",
        "20260301-000010000.parquet",
        [("U", 1, "z", 1, 60, "1"), ("U", 3, "late", 3, 2, "9")],
    )
    write(project.path, "data/01_raw/lists/price/2026-03-01.csv", "sku,amount\na,2.00\nd,4.00\n")
    customer = "status,customer_id,name,changed_at\nI,3,Cid,2026-03-01 10:00:00\n"
    write(project.path, "data/01_raw/crm/customer/3.csv", customer)
    reports = project.run()
    assert {r.table for r in reports} == set(HELD)
    batches = {(r.table, r.batch) for r in reports if r.stage == "ingestion"}
    assert batches == {
        ("shop.item", 3), ("shop.line", 2), ("shop.old", 4), ("shop.report", 3), ("lists.price", 2),
        ("crm.customer", 3),
    }  # fmt: skip
    now = {
        "shop.item": [(1, "new", 10), (3, "n3b", 30), (4, "n4", 4), (6, "n6", 6)],
        "shop.old": [(1, "z", 1), (3, "c", 3)],
        "shop.line": [(1, "a", 1), (1, "a", 1), (2, "b", 2)],
        "shop.report": [(1, "NEW", 10), (3, "N3B", 30), (4, "N4", 4), (6, "N6", 6)],
        "lists.price": [("a", "2.00"), ("d", "4.00")],
        "crm.customer": [(1, "Anna"), (2, "Bob"), (3, "Cid")],
    }
    for table, rows in now.items():
        assert values(project, table) == Counter(rows), table
    assert [r["_reasons"][0] for r in project.rows("shop.old_quarantine")] == ["too_late"]

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.operations.rebuild import rebuild_from_changes

    for table in ("shop.item", "crm.customer"):
        before = project.rows(f"{table}_history")
        rebuild_from_changes(project._project.bind(TableName.parse(table)))
        assert values(project, table) == Counter(now[table]), table
        assert sorted(map(str, project.rows(f"{table}_history"))) == sorted(map(str, before)), table
    assert {r.table for r in project.run()} == {"shop.report"}  # its input has a new commit
