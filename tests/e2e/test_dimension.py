"""The example examples/dimension: a dimension out of two tables, as its reader runs it."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harness.planned import as_planned
from harness.project import ROOT, TemporaryProject, script
from harness.soak import only_in_soak

from kedro_lakehouse.changes.asof import join_as_of
from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.effects import EFFECT, batch_effects
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.query.answer import run_query

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EXAMPLE = ROOT / "examples/dimension"
CUSTOMER, VIEW = TableName("crm", "customer"), "crm.dim_customer"
PUBLISHED_COLUMNS = [
    "customer_sk", "customer_id", "first_name", "last_name", "employer_name", "email_id", "city", "country",
    "rec_eff_dt", "rec_exp_dt",
]  # fmt: skip
START, OPEN = dt.date(2022, 7, 1), dt.date(9999, 12, 31)


@dataclass
class Dimension:
    """A copy of the example, run before and after the later files landed."""

    project: TemporaryProject
    reports: list[list[Any]] = field(default_factory=list)
    views: list[list[dict[str, Any]]] = field(default_factory=list)
    orders: dict[str, int | None] = field(default_factory=dict)
    effects: dict[int, str] = field(default_factory=dict)

    def run(self) -> None:
        with as_planned(self.project):
            self.reports.append(self.project.run())
        loaded = Project.load(str(self.project.path / "conf"), None)
        declared = {VIEW: (CUSTOMER, loaded.table(CUSTOMER))}
        answer = run_query(loaded.catalog, f"from {VIEW} order by customer_id, rec_eff_dt", views=declared)
        assert answer.columns == PUBLISHED_COLUMNS
        self.views.append([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])


def land_later_files(path: Path) -> None:
    shutil.copytree(path / "data/later", path / "data/01_raw", dirs_exist_ok=True)


@pytest.fixture(scope="module")
def dimension(tmp_path_factory: pytest.TempPathFactory) -> Dimension:
    found = Dimension(
        TemporaryProject.of_example("dimension", tmp_path_factory.mktemp("example") / "dimension")
    )
    found.run()
    land_later_files(found.project.path)
    found.run()
    found.run()
    loaded = Project.load(str(found.project.path / "conf"), None)
    spark_rows = [r.asDict() for r in loaded.session.table(f"lake.{VIEW}").collect()]
    key = lambda r: (r["customer_id"], r["rec_eff_dt"])  # noqa: E731
    assert sorted(spark_rows, key=key) == found.views[-1]
    contract = TableContract.of(CUSTOMER, loaded.table(CUSTOMER))
    record = loaded.format_of(CUSTOMER).read(CUSTOMER.with_suffix("changes"))
    effects = batch_effects(record, contract, 2, every_key=True).collect()
    found.effects = {r["customer_id"]: r[EFFECT] for r in effects}
    facts = loaded.session.createDataFrame(
        [("before", 1003, dt.datetime(2022, 6, 30)), ("then", 1003, dt.datetime(2023, 1, 1)),  # noqa: DTZ001
         ("now", 1003, dt.datetime(2500, 1, 1)), ("unknown", 9, dt.datetime(2023, 1, 1))],  # noqa: DTZ001
        "name string, customer bigint, ordered_at timestamp",
    )  # fmt: skip
    joined = join_as_of(
        facts, loaded.session.table("lake.crm.customer_history"), on={"customer": "customer_id"},
        time="ordered_at", columns={"_surrogate_key": "customer_sk"},
    )  # fmt: skip
    found.orders = {r["name"]: r["customer_sk"] for r in joined.collect()}
    return found


def of(rows: list[dict[str, Any]], customer: int) -> list[dict[str, Any]]:
    return [r for r in rows if r["customer_id"] == customer]


def test_the_bundled_files_are_what_the_script_makes() -> None:
    for name, text in script(EXAMPLE / "make_data.py").files().items():
        assert (EXAMPLE / "data" / name).read_text(encoding="utf-8") == text, name


def test_one_row_a_customer_with_or_without_an_address(dimension: Dimension) -> None:
    first = dimension.views[0]
    assert [r["customer_id"] for r in first] == list(range(1001, 1013))
    assert {r["customer_id"] for r in first if r["city"] is None} == {1010, 1011, 1012}
    assert {(r["rec_eff_dt"], r["rec_exp_dt"]) for r in first} == {(START, OPEN)}
    assert len({r["customer_sk"] for r in first}) == 12


def test_a_change_on_either_side_makes_one_new_version(dimension: Dimension) -> None:
    today = dt.datetime.now(dt.UTC).date()
    for customer, column, values in [
        (1001, "employer_name", [None, "Fabrikam Labs"]),
        (1005, "city", ["Gdansk", "Oslo"]),
        (1010, "city", [None, "Quito"]),
        (1003, "first_name", ["ab", "a"]),
        (1003, "last_name", ["c", "bc"]),
        (1004, "employer_name", [None, ""]),
    ]:
        versions = of(dimension.views[1], customer)
        assert [v[column] for v in versions] == values, customer
        ((old, new), began) = versions, versions[1]["rec_eff_dt"]
        assert today - dt.timedelta(days=1) <= began <= today
        assert (old["rec_eff_dt"], old["rec_exp_dt"]) == (START, began - dt.timedelta(days=1))
        assert new["rec_exp_dt"] == OPEN


def test_what_was_told_of_each_customer(dimension: Dimension) -> None:
    changed = dict.fromkeys((1001, 1003, 1004, 1005, 1010), "U") | {1013: "I"}
    assert dimension.effects == dict.fromkeys(range(1001, 1013), "N") | changed


def test_a_second_run_with_nothing_new_commits_nothing(dimension: Dimension) -> None:
    assert [len(r) for r in dimension.reports] == [7, 7, 0]
    assert dimension.views[2] == dimension.views[1]


def test_keys_of_versions_stay_and_facts_find_them(dimension: Dimension) -> None:
    first, second = dimension.views[0], dimension.views[1]
    keys = {(r["customer_id"], r["rec_eff_dt"]): r["customer_sk"] for r in second}
    assert all(keys[r["customer_id"], r["rec_eff_dt"]] == r["customer_sk"] for r in first)
    old, new = (r["customer_sk"] for r in of(second, 1003))
    assert dimension.orders == {"before": None, "then": old, "now": new, "unknown": None}


@only_in_soak
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    path = TemporaryProject.of_example("dimension", tmp_path / "dimension").path

    def kedro(*words: str) -> str:
        command = [str(Path(sys.executable).with_name("kedro")), *words]
        done = subprocess.run(
            command, cwd=path, capture_output=True, text=True, check=False, env=dict(os.environ)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kedro("run")
    rows = json.loads(kedro("lakehouse", "sql", f"select count(*) as n from {VIEW}", "--json"))
    assert rows == [{"n": 12}]
