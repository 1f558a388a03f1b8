"""What discovery proposes is copied as it is into a project, and runs: each table has its files' rows."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import yaml
from harness.places import ORDERS, Places
from harness.project import TemporaryProject

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

REPORT = "data/08_reporting/discovery"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    folder = tmp_path_factory.mktemp("proposed")
    places = Places(folder / "place")
    places.csv("parts/parts.csv", ("code", "note"), [("007", '"a;b"'), ("008", '"two\nlines"'), ("010", "")])
    looking = TemporaryProject.make(folder / "looking", sources={}, tables={})
    others = ("customers", "rates", "readings", "returns", "steady", "payments", "hudi")
    place = {"path": str(places.root), "exclude": [f"{other}/*" for other in others]}
    looking.write("discovery", {"places": [place | {"table_prefix": {"delta": "delta_"}}]})
    looking.run("discovery")
    # Copied byte by byte into a project that knows nothing of discovery.
    project = TemporaryProject.make(folder / "running", sources={}, tables={})
    for file in ("sources.yml", "tables.yml"):
        shutil.copy(looking.path / REPORT / file, project.path / "conf/base" / file)
    shutil.copy(looking.path / REPORT / "catalog.yml", folder / "catalog.yml")
    project.run()
    return project


def test_the_proposed_tables_have_the_rows_of_their_files(project: TemporaryProject) -> None:
    read = {
        "orders": "order_id,customer,status",
        "parts": "code,note",
        "prices": "sku,amount",
        "trips": "trip",
    }
    rows = {
        name: sorted(tuple(row[c] for c in columns.split(",")) for row in project.rows(f"found.{name}"))
        for name, columns in read.items()
    }
    assert rows == {
        "orders": sorted((n, customer, status) for n, customer, _, status, _ in ORDERS),
        "parts": [("007", "a;b"), ("008", "two\nlines"), ("010", None)],
        "prices": [("a", 1), ("b", 2)],
        "trips": [(1,), (1,), (2,), (2,)],
    }
    events = project.rows("found.events")
    assert [row["id"] for row in sorted(events, key=lambda row: row["id"])] == [1, 2]
    assert {row["at"].isoformat() for row in events} == {"2026-01-01T00:00:00+00:00"}


def test_the_proposed_entry_of_the_catalog_reads_a_table_of_delta(project: TemporaryProject) -> None:
    from kedro.io import DataCatalog

    file: Path = project.path.parent / "catalog.yml"
    proposed = yaml.safe_load(file.read_text(encoding="utf-8"))
    stock = DataCatalog.from_config({"stock": proposed["found.delta_stock"]}).load("stock")
    assert sorted(stock["item"]) == [1, 2, 3]
