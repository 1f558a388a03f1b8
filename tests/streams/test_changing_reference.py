"""Sales from a topic take the country's code from a reference that changes while they come."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.project import TemporaryProject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.kafka import Broker

pytestmark = pytest.mark.streams

# The names of keys, columns and countries, and the two wrong values, are those of the published system.
COUNTRIES = ("India", "China", "Albania", "Sri Lanka", "Haiti", "Norway")
REFERENCE = (("IN", "India"), ("US", "USA"), ("CA", "Canada"), ("CN", "China"))
LEFT_OUT = ("country", "unitprice", "unitcost", "totalrevenue", "totalcost", "totalprofit")
KEPT = {
    "uuid", "itemtype", "saleschannel", "orderpriority", "orderdate", "region", "shipdate", "unitssold",
    "impressiontime", "code", "combinedname",
}  # fmt: skip
SALES: dict[str, Any] = {
    "source": "sales", "entity": "generate-data", "keys": ["uuid"], "order_by": ["orderdate"],
    "types": {"orderdate": "date"}, "columns": {"exclude": list(LEFT_OUT)},
    "enrich": [
        {
            "table": "ref.tgt_country_lookup_table", "on": {"country": "countryname"},
            "columns": ["code", "combinedname"],
        }
    ],
}  # fmt: skip
TABLES: dict[str, Any] = {
    "ref.tgt_country_lookup_table": {
        "source": "ref", "keys": ["countryname"], "order_by": ["at"], "types": {"at": "long"},
    },
    "sales.joined": SALES,
    "sales.joined_delta": SALES | {"format": "delta"},
    "sales.follows": SALES | {"reenrich": True},
}  # fmt: skip
RUN = ("ingestion", "cdc_merge")


def sales(first: int, count: int) -> Iterator[dict[str, str]]:
    """Records of the generator, with numbers from ``first`` on; the same in every run."""
    for number in range(first, first + count):
        chance = random.Random(number)  # noqa: S311 - reproducible
        ordered = date(2012, 1, 1) + timedelta(days=chance.randrange(360))
        wrong = number % 7 == 0
        yield {
            "uuid": f"u{number}", "country": COUNTRIES[number % len(COUNTRIES)], "itemtype": "Household",
            "saleschannel": chance.choice(["Online", "Offline"]), "orderpriority": chance.choice("LMHC"),
            "orderdate": f"{ordered.month}/{ordered.day}/{ordered:%y}",
            "region": "AsiaEurope" if wrong else "Asia",
            "shipdate": "1/2/13", "unitssold": str(chance.randrange(9999)), "unitprice": "9.33",
            "unitcost": "6.92", "totalrevenue": "1", "totalcost": "1", "totalprofit": "1",
            "impressiontime": "2022-13-24T02:27:41Z" if wrong else "2022-10-24T02:27:41Z",
        }  # fmt: skip


def messages(rows: Iterator[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"key": row["uuid"], "value": json.dumps(row)} for row in rows]


def country(code: str, name: str, at: int, combined: str | None = None) -> dict[str, Any]:
    row = {"code": code, "countryname": name, "combinedname": combined or f"{code}-{name}", "at": at}
    return {"key": name, "value": json.dumps(row)}


@pytest.fixture(scope="module")
def project(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    kafka = {"type": "kafka", "bootstrap_servers": broker.address, "decoder": "json"}
    sources = {
        "sales": kafka
        | {"topic": "{entity}", "max_records": 50, "records": {"csv": {"date_format": "M/d/yy"}}},
        "ref": kafka | {"topic": "{entity}"},
    }
    broker.make_topic("generate-data", 2)
    broker.make_topic("tgt_country_lookup_table", 1)
    made = TemporaryProject.make(tmp_path_factory.mktemp("reference") / "project", sources, TABLES)
    broker.send("tgt_country_lookup_table", [country(code, name, 1) for code, name in REFERENCE])
    broker.send("generate-data", messages(sales(0, 60)))
    made.run(*RUN)
    broker.send("tgt_country_lookup_table", [country("CN", "China", 2, "CN-CHN-China")])
    again = {"uuid": "u1", "country": "China", "orderdate": "9/24/12", "itemtype": "late"}
    later = again | {"orderdate": "12/29/12", "itemtype": "Household"}
    broker.send("generate-data", messages(iter([later, again, *sales(60, 60), *sales(0, 12)])))
    made.run(*RUN)
    return made


def by_uuid(project: TemporaryProject, table: str) -> dict[str, dict[str, Any]]:
    return {row["uuid"]: row for row in project.rows(table)}


@pytest.mark.parametrize("table", ["sales.joined", "sales.joined_delta"])
def test_rows_after_a_change_have_the_new_value_and_rows_before_keep_the_old(
    project: TemporaryProject, table: str
) -> None:
    rows = by_uuid(project, table)
    assert set(next(iter(rows.values()))) - {"_order"} == KEPT
    assert len(rows) == 120, "none is lost, none is doubled"
    found = Counter((int(u[1:]) < 60, r["combinedname"]) for u, r in rows.items() if u != "u1")
    assert found == {
        (True, "IN-India"): 10, (False, "IN-India"): 10, (True, "CN-China"): 9, (False, "CN-CHN-China"): 10,
        (True, None): 40, (False, None): 40,
    }  # fmt: skip


def test_dates_are_compared_as_dates(project: TemporaryProject) -> None:
    row = by_uuid(project, "sales.joined")["u1"]
    assert (row["orderdate"], row["itemtype"]) == (date(2012, 12, 29), "Household")


def test_old_rows_follow_where_that_is_declared(project: TemporaryProject) -> None:
    rows = by_uuid(project, "sales.follows")
    assert {r["combinedname"] for u, r in rows.items() if int(u[1:]) % 6 == 1} == {"CN-CHN-China"}
    assert len(rows) == 120


def test_batches_are_bounded_and_wrong_texts_are_kept_as_they_are(project: TemporaryProject) -> None:
    taken = [
        b["events_in"]
        for b in project.ops("batches")
        if (b["table"], b["stage"]) == ("sales.joined", "ingestion")
    ]
    assert max(taken) <= 50
    assert sum(taken) == 60 + 2 + 60 + 12
    row = by_uuid(project, "sales.joined")["u7"]
    assert (row["impressiontime"], row["region"]) == ("2022-13-24T02:27:41Z", "AsiaEurope")
    assert not project.rows("sales.joined_quarantine")


def test_the_console_says_what_waits_when_it_is_asked(
    broker: Broker, project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_test = pytest.importorskip("streamlit.testing.v1", reason="`make test-streams` has the extra console")
    monkeypatch.chdir(project.path)
    broker.send("generate-data", messages(sales(900, 3)))

    def page() -> None:
        from kedro_lakehouse.console import health
        from kedro_lakehouse.console.lake import opened_project

        opened_project.clear()
        health.show()

    app = app_test.AppTest.from_function(page, default_timeout=60).run()
    assert not app.exception
    app.button(key="streams").click().run()
    assert not app.exception
    waiting = {tuple(row[:2]) for frame in app.dataframe for row in frame.value.to_numpy().tolist()}
    assert {("sales.joined", 3), ("sales.joined_delta", 3)} <= waiting
