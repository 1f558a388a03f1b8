"""How Java and Spark compile: by how much has landed, in batches and in none yet."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from harness.project import TemporaryProject

from kedro_lakehouse.ingestion.load import load_of
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.spark import Load, _for_load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

OPTIONS, EXPRESSIONS = "spark.driver.extraJavaOptions", "spark.sql.codegen.factoryMode"
QUICK = {OPTIONS: "-Da=b -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.mark.parametrize(
    ("waiting", "is_quick"),
    [(None, True), (0, True), (8 * 2**20 - 1, True), (8 * 2**20, False)],
)
def test_java_compiles_well_where_much_waits(waiting: int | None, is_quick: bool) -> None:
    load = None if waiting is None else lambda: Load(waiting=waiting, landed=2**30)
    options = _for_load(QUICK, load)[OPTIONS].split()
    assert options == ["-Da=b", *(["-XX:TieredStopAtLevel=1"] if is_quick else []), "-XX:+UseSerialGC"]


def test_what_waits_is_not_asked_where_it_changes_nothing() -> None:
    def asked() -> Load:
        raise AssertionError

    decided = {OPTIONS: "-Da=b", EXPRESSIONS: "FALLBACK"}
    assert _for_load(decided, asked) == decided
    assert _for_load({EXPRESSIONS: "FALLBACK"}, asked) == {EXPRESSIONS: "FALLBACK"}


def test_java_options_of_an_environment_may_lack_the_quick_compiler() -> None:
    def much() -> Load:
        return Load(waiting=16 * 2**20, landed=16 * 2**20)

    assert _for_load({OPTIONS: "-Da=b"}, much) == {OPTIONS: "-Da=b"}
    assert _for_load({}, much) == {}


@pytest.mark.parametrize(
    ("landed", "mode"), [(0, "NO_CODEGEN"), (2 * 2**20 - 1, "NO_CODEGEN"), (2 * 2**20, None)]
)
def test_spark_compiles_no_expressions_where_little_landed(landed: int, mode: str | None) -> None:
    assert _for_load({}, lambda: Load(waiting=0, landed=landed)).get(EXPRESSIONS) == mode


def test_settings_stay_where_the_load_is_not_known() -> None:
    assert _for_load({}, None) == {}


def test_an_environment_decides_itself_whether_spark_compiles_expressions() -> None:
    assert _for_load({EXPRESSIONS: "FALLBACK"}, lambda: Load(0, 0)) == {EXPRESSIONS: "FALLBACK"}


def test_the_load_is_what_waits_and_what_landed_before(tmp_path: Path) -> None:
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
    assert load_of(bound, opened.ops) == (137, 137)
    load = next(f for f in bound[0].open_source().files() if f.size == 100)
    planned = {"path": load.path, "size": load.size, "modified": load.modified}
    opened.ops.append(
        BATCH_LEDGER,
        [{"table": "shop.item", "batch": 1, "files": [planned], "planned_at": dt.datetime.now(dt.UTC)}],
    )
    assert load_of(bound, opened.ops) == (37, 137)
    assert load_of([], opened.ops) == (0, 100)  # other tables' rows may be read, too
