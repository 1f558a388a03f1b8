"""Sales take the country's code from a table of DynamoDB that changes: `kedro run`, on moto."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from harness.project import TemporaryProject, write_text
from harness.soak import only_in_soak
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sources

COUNTRIES = [("IN", "India"), ("US", "USA"), ("CA", "Canada"), ("CN", "China")]
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture
def lookups() -> Iterator[Any]:
    """The reference as DynamoDB has it; ``lookups.endpoint`` is its server's address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    dynamo = boto3.client("dynamodb", endpoint_url=f"http://{host}:{port}", region_name="eu-west-1", **KEYS)
    keys = {"code": "HASH", "countryname": "RANGE"}
    dynamo.create_table(
        TableName="country_lookup_table", BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
    )  # fmt: skip
    yield dynamo
    server.stop()


def put(dynamo: Any, code: str, country: str, combined: str) -> None:
    item = {"code": {"S": code}, "countryname": {"S": country}, "combinedname": {"S": combined}}
    dynamo.put_item(TableName="country_lookup_table", Item=item)


def sell(project: TemporaryProject, number: int, country: str) -> None:
    row = json.dumps({"uuid": f"u{number}", "country": country, "n": number})
    write_text(project.landing / f"sales/sale/{number}.json", f"{row}\n")


@only_in_soak
def test_rows_take_the_reference_as_it_is_when_they_arrive(lookups: Any, tmp_path: Path) -> None:
    for code, country in COUNTRIES:
        put(lookups, code, country, f"{code}-{country}")
    sources = {
        "lookups": {
            "type": "dynamodb", "path": "${globals:landing}/lookups", "region": "eu-west-1", "page": 2,
            "credentials": "dynamo",
        },
        "sales": {"type": "changes", "path": "${globals:landing}/sales", "file_format": "json"},
    }  # fmt: skip
    tables = {
        "ref.country": {"source": "lookups", "entity": "country_lookup_table", "keys": ["countryname"]},
        "shop.sale": {
            "source": "sales", "keys": ["uuid"], "order_by": ["n"],
            "enrich": [{
                "table": "ref.country", "on": {"country": "countryname"}, "columns": ["code", "combinedname"],
                "as_of": "arrival",
            }],
        },
    }  # fmt: skip
    project = TemporaryProject.make(tmp_path / "project", sources, tables)
    project.write("credentials", {"dynamo": KEYS | {"endpoint_url": lookups.meta.endpoint_url}}, env="local")
    sell(project, 1, "China")
    sell(project, 2, "Peru")
    project.run("ingestion", "cdc_merge", "scd2")
    project.run("ingestion", "cdc_merge", "scd2")  # sales wait until their reference is there
    put(lookups, "CN", "China", "CN-CHN-China")
    project.run("ingestion", "cdc_merge", "scd2")
    sell(project, 3, "China")
    project.run("ingestion", "cdc_merge", "scd2")
    shown = {row["uuid"]: (row["code"], row["combinedname"]) for row in project.rows("shop.sale")}
    assert shown == {"u1": ("CN", "CN-China"), "u2": (None, None), "u3": ("CN", "CN-CHN-China")}
    assert len(project.rows("ref.country")) == len(COUNTRIES)
