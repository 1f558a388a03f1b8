"""Sales on Kinesis, as moto plays it, take columns from a reference that changes; all tables are Hudi's."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from harness.aws import moto_aws
from harness.project import TemporaryProject, write_text
from harness.sales import DATES, KEPT, REFERENCE, SALES, corrected, sales
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, only_in_soak]

LOOKUP: Final = SALES["enrich"][0]
TABLES: Final[dict[str, Any]] = {
    "ref.tgt_country_lookup_table": {
        "source": "ref", "keys": ["countryname"], "history": True, "order_by": ["ts"],
        "effective_time": "ts", "types": {"ts": "timestamp"}, "columns": {"exclude": ["op"]},
    },
    "sales.joined": SALES,
    "sales.follows": SALES | {"reenrich": True, "history": True},
    "sales.as_it_was": SALES | {
        "enrich": [LOOKUP | {"as_of": "event"}], "effective_time": "impressiontime",
        "types": SALES["types"] | {"impressiontime": "timestamp"},
    },
}  # fmt: skip
NEW: Final = {"CN": "CN-CHN-China", "IN": "IN-Bharat"}


def land(project: TemporaryProject, number: int, *lines: str) -> None:
    text = "\n".join(["code,countryname,combinedname,ts,op", *lines, ""])
    write_text(project.landing / f"ref/tgt_country_lookup_table/{number}.csv", text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporaryProject]:
    """What two runs made of 60 sales, then of two changes of the reference and 62 more sales."""
    csv = {"type": "changes", "file_format": "csv", "pattern": "*.csv", "op_column": "op"}
    kinesis = {"type": "kinesis", "stream": "{entity}", "decoder": "json"}
    sources = {
        "sales": kinesis | {"records": DATES},
        "ref": csv | {"path": "${globals:landing}/ref"},
    }
    made = TemporaryProject.make(tmp_path_factory.mktemp("references") / "project", sources, TABLES)
    land(made, 1, *[f"{code},{name},{code}-{name},2022-01-01 00:00:00,I" for code, name in REFERENCE])
    with moto_aws():
        client = boto3.client("kinesis")
        client.create_stream(StreamName="generate-data", ShardCount=2)

        def sell(*rows: dict[str, str]) -> None:
            records = [{"Data": json.dumps(row).encode(), "PartitionKey": row["uuid"]} for row in rows]
            assert client.put_records(StreamName="generate-data", Records=records)["FailedRecordCount"] == 0

        sell(*sales(0, 60))
        made.run()
        # One change is of a time after all sales, the other of a time before them: it is told late.
        land(
            made,
            2,
            f"CN,China,{NEW['CN']},2022-10-25 00:00:00,U",
            f"IN,India,{NEW['IN']},2022-10-24 00:00:00,U",
        )
        sell(*corrected(1), *sales(60, 60))
        made.run()
        yield made


def expected(*, before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """The reference's name of each sale, by the names that count for the first 60 and for the others."""
    codes = {name: code for code, name in REFERENCE}
    found: dict[str, str | None] = {}
    for number, row in enumerate(sales(0, 120)):
        code, names = codes.get(row["country"]), before if number < 60 else after
        found[row["uuid"]] = names[code] if code else None
    return found


OLD: Final = {code: f"{code}-{name}" for code, name in REFERENCE}


def names(project: TemporaryProject, table: str) -> dict[str, str | None]:
    rows = project.rows(table)
    assert len({row["uuid"] for row in rows}) == len(rows)
    return {row["uuid"]: row["combinedname"] for row in rows}


def test_the_reference_counts_as_it_is_on_arrival(project: TemporaryProject) -> None:
    wanted = expected(before=OLD, after=NEW) | {"u1": NEW["CN"]}  # it came again, after the change
    assert names(project, "sales.joined") == wanted
    rows = project.rows("sales.joined")
    assert set(rows[0]) - {"_order"} == KEPT
    (again,) = [row for row in rows if row["uuid"] == "u1"]
    assert (again["orderdate"], again["itemtype"]) == (date(2012, 12, 29), "newer")


def test_rows_follow_the_reference(project: TemporaryProject) -> None:
    assert names(project, "sales.follows") == expected(before=NEW, after=NEW)
    current = [row for row in project.rows("sales.follows_history") if row["is_current"]]
    assert {row["uuid"]: row["combinedname"] for row in current} == names(project, "sales.follows")


def test_the_reference_counts_as_it_was_at_the_time_of_the_sale(project: TemporaryProject) -> None:
    then = OLD | {"IN": NEW["IN"]}
    typed = {row["uuid"] for row in sales(0, 120) if not row["impressiontime"].startswith("2022-13")}
    wanted = {u: name for u, name in expected(before=then, after=then).items() if u in typed}
    assert names(project, "sales.as_it_was") == wanted
    assert len(project.rows("sales.as_it_was_quarantine")) == 120 - len(typed)


def test_a_repair_leaves_each_event_once(project: TemporaryProject) -> None:
    for table in ("sales.joined", "sales.follows"):
        events = [(row["uuid"], row["orderdate"]) for row in project.rows(f"{table}_changes")]
        assert len(events) == len(set(events)) == 122
        assert project.state(f"{table}_changes").rows == 122
