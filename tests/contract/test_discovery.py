"""Pipeline ``discovery`` over a folder with datasets of every kind; no JVM is started."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import yaml
from harness.commands import answer, call, refusal
from harness.places import ORDERS, PLANTED, Places
from harness.project import TemporaryProject
from harness.servers import http_server

from kedro_lakehouse.errors import ConfigurationError, DiscoveryChangedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.spark import spark_runs

pytestmark = pytest.mark.contract

__all__ = ["answer", "call", "refusal"]

REPORT = "data/08_reporting/discovery"
PREFIX = {"delta": "delta_"}


@dataclass
class Looks:
    """A project that looked three times: at first, after the changes, and with nothing changed since."""

    project: TemporaryProject
    places: Places
    changes: list[list[dict[str, str]]]
    rows: list[list[dict[str, object]]]
    proposed: dict[str, dict[str, object]]
    started_spark: bool

    def newest(self, table, look=0):
        return next(row for row in reversed(self.rows[look]) if row["table"] == table)

    def columns(self, table):
        return {c["name"]: c for c in self.newest(table)["columns"]}


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("discovery")
    places = Places(folder / "place")
    project = TemporaryProject.make(folder / "project", sources={}, tables={})
    place = {"path": str(places.root), "table_prefix": PREFIX, "exclude": ["hudi/meter/*"]}
    project.write("discovery", {"places": [place]})
    changes, rows, proposed = [], [], {}
    had_spark = spark_runs()  # of another test, in this process
    for look in range(3):
        if look == 1:
            places.change()
        project.run("discovery")
        changes.append(json.loads((project.path / REPORT / "changes.json").read_text()))
        found = project.ops("discovered")
        rows.append(sorted(found, key=lambda row: (row["discovered_at"], row["version"])))
        if look == 0:
            for kind in ("sources", "tables", "catalog"):
                text = (project.path / REPORT / f"{kind}.yml").read_text(encoding="utf-8")
                proposed[kind] = yaml.safe_load(text)
    return Looks(project, places, changes, rows, proposed, spark_runs() and not had_spark)


@pytest.fixture
def project(looks):
    return looks.project


def test_every_kind_is_found_by_its_own_metadata(looks):
    found = {
        row["table"]: (row["kind"], row["rows"], row["rows_exact"], row["files"]) for row in looks.rows[0]
    }
    assert found == {
        "found.orders": ("csv", 24, True, 2),
        "found.customers": ("csv", 9, True, 1),
        "found.events": ("json", 2, True, 1),
        "found.prices": ("parquet", 2, True, 1),
        "found.returns": ("parquet", 3, True, 1),
        "found.rates": ("csv", 2, True, 1),
        "found.readings": ("parquet", 2, True, 1),
        "found.steady": ("parquet", 2, True, 1),
        "found.payments": ("csv", 4, True, 1),
        "found.trips": ("parquet", 4, True, 2),
        "found.lake_sale": ("iceberg", 3, True, 1),
        "found.lake_visit": ("iceberg", 2, True, 1),
        "found.delta_stock": ("delta", 3, True, 2),
        # Inserted 8, of which insert_overwrite replaced the 4 of one partition by 2.
        "found.hudi_stock": ("hudi", 6, True, 2),
    }
    assert not looks.started_spark


def test_types_and_partitions_are_told(looks):
    types = {name: column["type"] for name, column in looks.columns("found.orders").items()}
    wanted = {"order_id": "bigint", "customer": "string", "contact": "string", "status": "bigint"}
    assert types == wanted | {"ordered_on": "date"}
    trips = {n: (c["type"], c["partition"]) for n, c in looks.columns("found.trips").items()}
    assert trips == {"trip": ("bigint", False), "region": ("string", True), "day": ("date", True)}
    assert looks.columns("found.events")["at"]["type"] == "timestamp"
    assert looks.newest("found.hudi_stock")["partitions"] == ["site"]
    assert looks.columns("found.hudi_stock")["price"]["type"] == "decimal(10,2)"
    assert looks.newest("found.delta_stock")["partitions"] == ["site"]


def test_keys_and_personal_columns_are_told_with_evidence(looks):
    assert json.loads(looks.newest("found.orders")["keys"][0]) == ["order_id"]
    assert looks.newest("found.orders")["read"] == len(ORDERS)
    assert looks.columns("found.orders")["contact"]["personal"] == "24 of 24 values are e-mail addresses"
    assert looks.columns("found.payments")["card"]["personal"] == "4 of 4 values are card numbers"
    assert looks.columns("found.orders")["status"]["personal"] is None


def test_a_look_at_what_did_not_change_writes_and_reports_nothing(looks):
    assert looks.changes[0] == looks.changes[2] == []
    assert looks.rows[2] == looks.rows[1]


def test_exactly_the_twelve_planted_changes_are_reported(looks):
    told = [(change["table"], change["kind"], change["column"]) for change in looks.changes[1]]
    assert len(told) == len(PLANTED) == 12
    assert set(told) == PLANTED


def test_a_version_is_added_for_what_changed_and_its_figures_alone_are_none(looks):
    added = {row["table"]: row for row in looks.rows[1] if row not in looks.rows[0]}
    versions = {table: (row["version"], row["status"]) for table, row in added.items()}
    changed = {table: (2, "present") for table, _, _ in PLANTED}
    wanted = changed | {"found.suppliers": (1, "present"), "found.returns": (2, "removed")}
    wanted |= {"found.customers": (2, "renamed"), "found.steady": (1, "present")}
    assert versions == wanted
    assert added["found.steady"]["rows"] == 3
    assert added["found.clients"]["changes"] == ["the table was found.customers"]
    assert added["found.prices"]["changes"] == ["column amount is string, no longer bigint"]


def test_the_command_lists_datasets_and_the_versions_of_one(call, answer, refusal):
    listed = {row["name"]: row for row in answer("discovered")}
    assert (listed["found.lake_visit"]["version"], listed["found.returns"]["status"]) == (2, "removed")
    assert "found.lake_visit" in call("discovered").output
    versions = answer("discovered", "found.lake_sale")
    assert [v["version"] for v in versions] == [1, 2]
    assert versions[1]["changes"] == ["column gross was amount"]
    text = call("discovered", "found.orders").output
    assert "26 of 26 values are e-mail addresses" in text  # two rows came with the change
    assert "column channel is new: string" in text
    assert "Did you mean 'found.orders'?" in refusal("discovered", "found.order")["message"]


def test_proposals_are_declarations_that_load_and_leave_tables_where_they_lie(looks):
    tables, sources = looks.proposed["tables"], looks.proposed["sources"]
    assert tables["found.orders"] == {
        "source": "found_orders", "entity": "orders", "write": "append", "personal": ["contact"],
        "types": {"order_id": "bigint", "status": "bigint", "ordered_on": "date"},
    }  # fmt: skip
    assert tables["found.customers"]["keys"] == ["id"]
    assert sources["found_customers"]["type"] == "extract"
    assert not any(name.startswith(("found.delta", "found.hudi", "found.lake")) for name in tables)
    catalog = looks.proposed["catalog"]
    assert set(catalog) == {"found.delta_stock", "found.hudi_stock"}
    assert catalog["found.delta_stock"]["type"] == "pandas.DeltaTableDataset"


def test_a_change_fails_the_run_once_where_that_is_declared(looks):
    project, root = looks.project, looks.places.root
    place = {"path": str(root), "table_prefix": PREFIX, "exclude": ["hudi/meter/*"]}
    project.write("discovery", {"places": [place], "on_change": "fail"})
    looks.places.csv("late/late.csv", ("id",), [(1,), (2,)])
    (error,) = project.failures("discovery").values()
    assert isinstance(error, DiscoveryChangedError)
    assert "found.late: the table is new" in str(error)
    assert project.failures("discovery") == {}


def test_a_change_is_sent_to_the_notifiers_once_where_that_is_declared(looks):
    project, root = looks.project, looks.places.root
    place = {"path": str(root), "table_prefix": PREFIX, "exclude": ["hudi/meter/*"]}
    project.write("discovery", {"places": [place], "on_change": "notify"})
    with http_server() as posts:
        hook = {"type": "webhook", "url": posts.url, "kinds": ["discovery"]}
        project.write("monitoring", {"notifiers": {"hook": hook}})
        looks.places.csv("later/later.csv", ("id",), [(1,), (2,)])
        project.run("discovery")
        project.run("discovery")
    ((alert,),) = [body["alerts"] for body in posts.bodies]
    assert (alert["kind"], alert["message"]) == ("discovery", "the table is new.")
    assert alert["subject"].startswith("found.later in ")
    assert alert["commands"] == ["kedro lakehouse discovered found.later"]


def test_iceberg_tables_are_registered_where_that_is_wanted_and_follow(looks, tmp_path):
    project = TemporaryProject.make(tmp_path / "project", sources={}, tables={})
    place = {"path": f"{looks.places.root}/lake", "namespace": "outside", "register": True}
    project.write("discovery", {"places": [place]})
    project.run("discovery")
    assert [row["gross"] for row in project.rows("outside.sale")] == [1.0, 2.0, None]
    import pyarrow as pa

    sale = looks.places.catalog.load_table("lake.sale")
    sale.append(pa.table({"sale": pa.array([9], pa.int64()), "gross": [9.0]}))
    project.run("discovery")
    assert sorted(row["sale"] for row in project.rows("outside.sale")) == [1, 2, 3, 9]
    assert project._project.catalog.find(TableName.parse("outside.visit")) is not None


def test_without_a_place_the_error_says_what_to_write(tmp_path):
    project = TemporaryProject.make(tmp_path / "project", sources={}, tables={})
    (error,) = project.failures("discovery").values()
    assert isinstance(error, ConfigurationError)
    assert "conf/base/discovery.yml" in str(error)
