"""Records in Avro become tables, by the schema that each names in a registry."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.avro import (
    Double,
    captured,
    confluent_schemas,
    confluent_subjects,
    encoded,
    glue_schemas,
    registry,
)
from harness.processes import free_port
from harness.project import TemporaryProject
from moto.server import ThreadedMotoServer

from kedro_lakehouse.errors import SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.kafka import Broker
    from harness.project import Outcome

pytestmark = pytest.mark.streams

KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
ORDERS = {"keys": ["id"], "history": {}, "types": {"amount": "decimal(14,3)"}}
TYPES = {"id": "long", "at": "long", "price": "decimal(9,2)"}
ROW = {"source": "rows", "keys": ["id"], "order_by": ["at"], "types": TYPES}
TABLES: dict[str, Any] = {
    "avro.orders": ORDERS | {"source": "confluent"},
    "avro.glue": ORDERS | {"source": "glue"},
    "avro.silent": ORDERS | {"source": "silent", "entity": "orders"},
    "avro.rows": ROW,
}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIRST = {
    "type": "record", "name": "Row",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "at", "type": "long"},
        {"name": "price", "type": ["null", PRICE]}, {"name": "name", "type": "string"},
    ],
}  # fmt: skip
WIDER = FIRST | {
    "fields": [*FIRST["fields"], {"name": "colour", "type": ["null", "string"], "default": None}]
}
HISTORY = {
    1: ["12.300", "13.000", "14.000", "15.000", "1.000", "1.000"],
    2: [None], 3: ["99.990"], 4: ["5.000", "5.000"], 1002: [None], 1003: ["5.125"],
}  # fmt: skip
"""The amounts that each key had, by the SQL that was run before the records were captured."""


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of two versions of a schema."""
    found = []
    for n in range(count):
        value = {"id": n, "at": 1, "price": Decimal(n).scaleb(-2), "name": f"n{n}"}
        later = n >= count // 2
        body = encoded(WIDER if later else FIRST, value | ({"colour": "red"} if later else {}))
        found.append({"key": str(n), "value": b"\0" + (101 if later else 100).to_bytes(4, "big") + body})
    return found


def late_row() -> dict[str, Any]:
    """A row whose schema is registered later."""
    body = encoded(WIDER, {"id": 77, "at": 1, "price": Decimal("7.70"), "name": "late", "colour": None})
    return {"key": "77", "value": b"\0" + (102).to_bytes(4, "big") + body}


DOUBLE = Double(confluent_schemas(), confluent_subjects())
"""The registry like Confluent's; more may be registered."""
DOUBLE.register("avro.rows-value", "100", FIRST)
DOUBLE.register("avro.rows-value", "101", WIDER)
POISON = [b"", b"{}", b"\0\0\0\0\x63abc", b"\0\0\0\0\x64", rows(1)[0]["value"] + b"\0", b"\xff\xfe"]


@pytest.fixture(scope="module")
def registries() -> Iterator[dict[str, Any]]:
    """registries.yml: one like Confluent's, Glue's as moto plays it, and one that nobody answers for."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with registry(DOUBLE, user="reader:geheim") as address:
            yield {
                "confluent": {"type": "confluent", "url": address, "credentials": "registry"},
                "glue": {
                    "type": "glue", "region": "eu-central-1", "endpoint": f"http://{host}:{port}",
                    "credentials": "aws",
                },
                "silent": {"type": "confluent", "url": f"http://127.0.0.1:{free_port()}"},
            }  # fmt: skip
    finally:
        server.stop()


def registered_in_glue(config: dict[str, Any]) -> dict[bytes, bytes]:
    """Register the schemas of the captured records in Glue's registry; its uuid for each of theirs."""
    glue = boto3.client("glue", region_name=config["region"], endpoint_url=config["endpoint"], **KEYS)
    glue.create_registry(RegistryName="shop")
    found = {}
    for number, (known, text) in enumerate(glue_schemas().items()):
        made = glue.create_schema(
            RegistryId={"RegistryName": "shop"}, SchemaName=f"s{number}", DataFormat="AVRO",
            Compatibility="NONE", SchemaDefinition=text,
        )  # fmt: skip
        found[uuid.UUID(known).bytes] = uuid.UUID(made["SchemaVersionId"]).bytes
    return found


@pytest.fixture(scope="module")
def project(
    broker: Broker, registries: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> TemporaryProject:
    """One project: each table is a case."""
    kafka = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "avro.{entity}"}
    # One ALTER gave a column another scale: no mode but NONE lets that in.
    sources = {name: kafka | {"schema_registry": name, "compatibility": "NONE"} for name in registries}
    sources["rows"] = kafka | {"schema_registry": "confluent", "decoder": "json"}
    made = TemporaryProject.make(tmp_path_factory.mktemp("avro") / "project", sources, TABLES)
    made.write("registries", registries)
    made.write(
        "credentials", {"aws": KEYS, "registry": {"username": "reader", "password": "geheim"}}, "local"
    )
    return made


@pytest.fixture(scope="module")
def ran(broker: Broker, project: TemporaryProject, registries: dict[str, Any]) -> Outcome:
    """A run after all records were sent."""
    for topic in ("orders", "glue", "rows"):
        broker.make_topic(f"avro.{topic}", 3)
    broker.send("avro.orders", captured("confluent"))
    uuids = registered_in_glue(registries["glue"])

    def known_there(raw: bytes | None) -> bytes | None:
        return None if raw is None else raw[:2] + uuids[raw[2:18]] + raw[18:]

    of_glue = [m | {part: known_there(m[part]) for part in ("key", "value")} for m in captured("glue")]
    broker.send("avro.glue", of_glue)
    bad = [{"key": "bad", "value": raw} for raw in POISON]
    broker.send("avro.rows", [*rows(20), *bad, late_row()])
    return project.attempt("ingestion", "cdc_merge", "scd2")


@pytest.mark.parametrize("table", ["avro.orders", "avro.glue"])
def test_the_changes_of_a_database_in_avro(project: TemporaryProject, ran: Outcome, table: str) -> None:
    assert table not in ran.failed, ran.failed[table]
    (only,) = project.rows(table)
    assert (only["id"], only["customer"], only["amount"]) == (1, "After truncate", Decimal("1.000"))
    versions = sorted(project.rows(f"{table}_history"), key=lambda r: (r["id"], r["effective_from"]))
    found: dict[int, list[str | None]] = {}
    for row in versions:
        found.setdefault(row["id"], []).append(None if row["amount"] is None else str(row["amount"]))
    assert found == HISTORY
    (first,) = [r for r in versions if r["customer"] == "Bob" and r["id"] == 2]
    assert (first["big"], first["status"]) == (Decimal(0), "sent")


def test_rows_of_two_versions_of_a_schema(project: TemporaryProject, ran: Outcome) -> None:
    assert "avro.rows" not in ran.failed, ran.failed["avro.rows"]
    found = {r["id"]: (r["price"], r["colour"]) for r in project.rows("avro.rows")}
    assert found == {n: (Decimal(n).scaleb(-2), "red" if n >= 10 else None) for n in range(20)}


def test_what_names_no_known_schema_goes_to_quarantine(project: TemporaryProject, ran: Outcome) -> None:
    (counts,) = ran.counts("avro.rows", "ingestion")
    kept = [*POISON, late_row()["value"]]
    assert (counts["events_in"], counts["quarantined"]) == (20 + len(kept), len(kept))
    import base64

    raw = {r["_raw"] for r in project.rows("avro.rows_quarantine")}
    assert raw == {f"base64:{base64.b64encode(bad).decode()}" for bad in kept}


def test_a_registry_that_is_away_loses_nothing(
    project: TemporaryProject, ran: Outcome, registries: dict[str, Any]
) -> None:
    error = ran.failed["avro.silent"]
    assert isinstance(error, SourceUnreachableError)
    assert registries["silent"]["url"] in str(error)
    project.write("registries", registries | {"silent": registries["confluent"]})
    project.run("ingestion", "cdc_merge", namespaces=["avro.silent"])
    assert [r["customer"] for r in project.rows("avro.silent")] == ["After truncate"]


def test_a_record_is_brought_back_when_its_schema_is_registered(
    project: TemporaryProject, ran: Outcome
) -> None:
    del ran
    DOUBLE.register("avro.rows-value", "102", WIDER)
    replayed = project.command("lakehouse", "quarantine", "avro.rows", "--replay", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert (json.loads(replayed.stdout)["replayed"], json.loads(replayed.stdout)["left"]) == (1, len(POISON))
    (row,) = [r for r in project.rows("avro.rows") if r["id"] == 77]
    assert (row["name"], row["price"]) == ("late", Decimal("7.70"))
