"""How Java and Spark compile: by how much has landed that is in no batch yet."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from harness.project import TemporaryProject

from kedro_lakehouse.ingestion.waiting import waiting_bytes
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.spark import _for_load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.unit

OPTIONS, EXPRESSIONS = "spark.driver.extraJavaOptions", "spark.sql.codegen.factoryMode"
QUICK = {OPTIONS: "-Da=b -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.mark.parametrize(
    ("waiting", "is_quick"),
    [(None, True), (lambda: 0, True), (lambda: 16 * 2**20 - 1, True), (lambda: 16 * 2**20, False)],
)
def test_java_compiles_well_where_much_waits(waiting: Callable[[], int] | None, is_quick: bool) -> None:
    options = _for_load(QUICK, waiting)[OPTIONS].split()
    assert options == ["-Da=b", *(["-XX:TieredStopAtLevel=1"] if is_quick else []), "-XX:+UseSerialGC"]


def test_what_waits_is_not_asked_where_it_changes_nothing() -> None:
    def asked() -> int:
        raise AssertionError

    decided = {OPTIONS: "-Da=b", EXPRESSIONS: "FALLBACK"}
    assert _for_load(decided, asked) == decided
    assert _for_load({EXPRESSIONS: "FALLBACK"}, asked) == {EXPRESSIONS: "FALLBACK"}


def test_java_options_of_an_environment_may_lack_the_quick_compiler() -> None:
    assert _for_load({OPTIONS: "-Da=b"}, lambda: 16 * 2**20) == {OPTIONS: "-Da=b"}
    assert _for_load({}, lambda: 16 * 2**20) == {}


@pytest.mark.parametrize(
    ("waiting", "mode"),
    [
        (None, None),
        (lambda: 0, "NO_CODEGEN"),
        (lambda: 2 * 2**20 - 1, "NO_CODEGEN"),
        (lambda: 2 * 2**20, None),
    ],
)
def test_spark_compiles_no_expressions_for_few_bytes(
    waiting: Callable[[], int] | None, mode: str | None
) -> None:
    assert _for_load({}, waiting).get(EXPRESSIONS) == mode


def test_an_environment_decides_itself_whether_spark_compiles_expressions() -> None:
    assert _for_load({EXPRESSIONS: "FALLBACK"}, lambda: 0) == {EXPRESSIONS: "FALLBACK"}


def test_files_of_no_batch_wait(tmp_path: Path) -> None:
    tables = {f"shop.{name}": {"source": "shop", "keys": ["id"]} for name in ("item", "order", "gone")}
    project = TemporaryProject.make(
        tmp_path / "project", {"shop": {"type": "dms", "path": "${globals:landing}"}}, tables
    )
    for name, size in (
        ("item/LOAD00000001", 100),
        ("item/20260101-000010000", 30),
        ("order/LOAD00000001", 7),
    ):
        file = project.landing / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x" * size)
    opened = Project.load(str(project.path / "conf"), None)
    bound = [opened.bind(TableName.parse(name)) for name in tables]  # one has no folder
    assert waiting_bytes(bound, opened.ops) == 137
    load = next(f for f in bound[0].open_source().files() if f.size == 100)
    planned = {"path": load.path, "size": load.size, "modified": load.modified}
    opened.ops.append(
        BATCH_LEDGER,
        [{"table": "shop.item", "batch": 1, "files": [planned], "planned_at": dt.datetime.now(dt.UTC)}],
    )
    assert waiting_bytes(bound, opened.ops) == 37
