"""Records in Avro become JSON by the schema that each of them names; what is none is kept."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from harness.avro import SCRIPT, captured, confluent_schemas, encoded, glue_schemas, registry
from pyspark.sql import types as T

from kedro_lakehouse.config.registries import ConfluentRegistryConfig, GlueRegistryConfig
from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.decoders.lines import LineShape
from kedro_lakehouse.errors import IncompatibleTypeError
from kedro_lakehouse.ingestion.columns import described_types, resolve_columns
from kedro_lakehouse.names import TableName
from kedro_lakehouse.schema_registries.avro import AvroReader, Form
from kedro_lakehouse.schema_registries.base import NoAnswerError, UnknownSchemaError
from kedro_lakehouse.schema_registries.columns import column_types
from kedro_lakehouse.schema_registries.confluent import ConfluentRegistry
from kedro_lakehouse.schema_registries.glue import GlueRegistry
from kedro_lakehouse.schema_registries.records import RecordReader, plain_text
from kedro_lakehouse.sources.files import LandedFile, line_shapes

pytestmark = pytest.mark.unit

POSITION = ("file", "pos", "row")
NOWHERE = "nowhere.invalid"


def of_confluent(schemas: dict[str, str], form: Form = "messages") -> RecordReader:
    """A reader of records with Confluent's header; the registry itself would not answer."""
    config = ConfluentRegistryConfig(type="confluent", url=NOWHERE)
    return RecordReader(ConfluentRegistry(config, {}), form, schemas, schemas)


def of_glue(schemas: dict[str, str], form: Form = "messages") -> RecordReader:
    """The same with Glue's."""
    return RecordReader(GlueRegistry(GlueRegistryConfig(type="glue"), {}), form, schemas, schemas)


def amount(field: dict[str, Any], value: str | None) -> str:
    """A decimal as its digits, by the scale that the schema of this very record declares."""
    if value is None:
        return "None"
    units = int.from_bytes(base64.b64decode(value), "big", signed=True)
    return str(Decimal(units).scaleb(-int(field["parameters"]["scale"])))


def change(message: dict[str, Any]) -> str:
    """A change as the script names it."""
    payload = message["payload"]
    (after,) = (f for f in message["schema"]["fields"] if f["field"] == "after")
    fields = {f["field"]: f for f in after["fields"]}
    row = payload["after"] or payload["before"] or {}
    shown = payload["after"] or {}
    return f"{payload['op']} {row.get('id')} {amount(fields['amount'], shown.get('amount'))}"


@pytest.mark.parametrize("kind", ["confluent", "glue"])
def test_captured_records_say_what_the_sql_did(kind: str) -> None:
    reader = of_confluent(confluent_schemas()) if kind == "confluent" else of_glue(glue_schemas())
    messages = [json.loads(text) for r in captured(kind) if (text := reader.text(r["value"])) is not None]
    place = {id(m): [m["payload"]["source"][part] for part in POSITION] for m in messages}
    # Rows of a snapshot share a position, and so do the two halves of a key change: the delete comes first.
    ordered = sorted(messages, key=lambda m: (place[id(m)], "rdctu".index(m["payload"]["op"]), change(m)))
    assert [change(m) for m in ordered] == list(SCRIPT)
    first = ordered[0]["payload"]["after"]
    assert (first["customer"], first["placed"], first["day"]) == ("Zoë Žižek", 1_767_323_045_678_901, 20_455)
    assert base64.b64decode(first["raw"]) == b"\x00\xff\x10"
    assert int.from_bytes(base64.b64decode(first["big"]), "big") == 2**64 - 1
    keys = [text for r in captured(kind) if (text := reader.key(r["key"]))]
    assert {json.loads(key)["payload"]["id"] for key in keys} == {1, 2, 3, 4, 1002, 1003}


def test_a_reader_can_be_sent_to_the_workers_after_it_has_read() -> None:
    reader, value = of_confluent(confluent_schemas()), captured("confluent")[0]["value"]
    text = reader.text(value)
    assert text
    assert pickle.loads(pickle.dumps(reader)).text(value) == text  # noqa: S301 - our own


def test_what_is_no_record_is_kept_as_it_is() -> None:
    reader = of_confluent(confluent_schemas())
    good = captured("confluent")[0]["value"]
    assert good is not None
    for bad in (
        b"", b"\x00", b"{}", b"\x01" + good[1:], good[:4] + b"\xff" + good[5:], good[:-1], good + b"\x00",
        good[:5], good[:5] + b"\xff" * 40,
    ):  # fmt: skip
        assert reader.text(bad) == f"base64:{base64.b64encode(bad).decode()}", bad
    assert reader.text(None) is None
    assert reader.key(b'{"id": 1}') == '{"id": 1}'
    assert plain_text(b"\xff") == "base64:/w=="


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
TYPES = {
    "type": "record", "name": "Row", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", DECIMAL]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ratio", "type": "double"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "home", "type": PLACE},
        {"name": "work", "type": ["null", "shop.Place"]},
    ],
}  # fmt: skip
VALUES: dict[str, Any] = {
    "id": 2**60, "price": Decimal("-12345678901234567.125"), "at": 1_767_323_045_678_901, "day": 20_455,
    "ratio": float("nan"), "state": "NEW", "before": "OLD", "raw": b"\x01\xff", "tags": ["a", "ü"],
    "counts": {"x": 1}, "either": "seven", "home": {"city": "Köln"}, "work": {"city": "Bonn"},
}  # fmt: skip


def test_rows_have_readable_values_with_all_their_digits() -> None:
    text = AvroReader(json.dumps(TYPES)).text(encoded(TYPES, VALUES), "rows")
    assert "-12345678901234567.125" in text
    found = json.loads(text)
    assert found["at"] == "2026-01-02T03:04:05.678901+00:00"
    assert (found["day"], found["ratio"], found["raw"]) == ("2026-01-02", "NaN", "Af8=")
    same = ("id", "state", "before", "tags", "counts", "either", "home", "work")
    assert {n: found[n] for n in same} == {n: VALUES[n] for n in same}


def test_messages_describe_their_types_as_kafka_connect_does() -> None:
    found = json.loads(AvroReader(json.dumps(TYPES)).text(encoded(TYPES, VALUES), "messages"))
    kinds = {f["field"]: f for f in found["schema"]["fields"]}
    decimal = {"scale": "3", "connect.decimal.precision": "20"}
    assert kinds["price"] == {
        "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": decimal, "field": "price",
    }  # fmt: skip
    assert kinds["day"]["name"] == "org.apache.kafka.connect.data.Date"
    assert kinds["at"]["name"] == "io.debezium.time.MicroTimestamp"
    assert (kinds["tags"]["items"]["type"], kinds["counts"]["values"]["type"]) == ("string", "int32")
    assert kinds["before"] == {"type": "string", "optional": True, "name": "shop.State", "field": "before"}
    assert kinds["work"]["fields"] == kinds["home"]["fields"]
    assert kinds["work"]["optional"]
    assert (kinds["raw"]["type"], kinds["either"]["type"]) == ("bytes", "string")
    assert found["payload"]["at"] == VALUES["at"]
    assert amount(kinds["price"], found["payload"]["price"]) == str(VALUES["price"])


def test_a_decimal_is_read_by_the_scale_it_was_written_with() -> None:
    schemas, texts = dict[str, str](), []
    reader = of_confluent(schemas, "rows")
    for scale in (2, 3):
        kind = DECIMAL | {"scale": scale}
        schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": kind}]}
        schemas[str(scale)] = json.dumps(schema)
        texts.append(reader.text(b"\0\0\0\0" + bytes([scale]) + encoded(schema, {"n": Decimal("1.25")})))
    assert texts == ['{"n":1.25}', '{"n":1.250}']


def test_glue_may_compress_what_follows_its_header() -> None:
    known = of_glue(glue_schemas()).registry
    plain = captured("glue")[0]["value"]
    assert plain is not None
    packed = b"\x03\x05" + plain[2:18] + zlib.compress(plain[18:])
    assert known.split(packed) == known.split(plain)
    for bad in (b"\x03\x07" + plain[2:], plain[:17], b"\x03\x05" + plain[2:]):
        assert known.split(bad) is None


def test_a_registry_is_asked_over_http_with_its_user() -> None:
    with registry({"7": '"string"'}, user="reader:geheim") as address:
        config = ConfluentRegistryConfig(type="confluent", url=f"{address}/")
        found = ConfluentRegistry(config, {"username": "reader", "password": "geheim"})
        assert found.schema("7") == '"string"'
        with pytest.raises(UnknownSchemaError):
            found.schema("8")
        with pytest.raises(NoAnswerError, match="401"):
            ConfluentRegistry(config, {}).schema("7")
    with pytest.raises(NoAnswerError, match="refused"):
        found.schema("7")


def test_what_is_no_schema_of_avro_is_refused() -> None:
    for text in ('{"type": "record"}', '"Unknown"', "{"):
        with pytest.raises(ValueError, match=r"."):
            AvroReader(text)


@pytest.mark.parametrize("schemas", [{}, {"7": "{"}, {"7": '{"type": "strange"}'}])
def test_a_record_whose_schema_is_none_is_kept(schemas: dict[str, str]) -> None:
    reader, raw = of_confluent(schemas, "rows"), b"\0\0\0\0\x07rest"
    assert {reader.text(raw) for _ in range(5)} == {f"base64:{base64.b64encode(raw).decode()}"}


def test_fields_of_rows_have_the_types_of_their_schema() -> None:
    found = {name: kind.simpleString() for name, kind in column_types(json.dumps(TYPES)).items()}
    assert found == {
        "id": "bigint", "price": "decimal(20,3)", "at": "timestamp", "day": "date", "ratio": "double",
        "state": "string", "before": "string", "raw": "binary", "tags": "string", "counts": "string",
        "either": "string", "home": "string", "work": "string",
    }  # fmt: skip
    more = {
        "flag": "boolean", "small": "int", "half": "float", "blob": "bytes", "two": "Two",
        "uuid": {"type": "string", "logicalType": "uuid"}, "big": DECIMAL | {"precision": 39},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "instant": {"type": "long", "logicalType": "timestamp-millis"},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "odd": {"type": "long", "logicalType": "strange"}, "wrapped": {"type": {"type": "int"}},
        "nothing": "null", "packed": {
            "type": "fixed", "name": "P", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2,
        },
    }  # fmt: skip
    two = {"name": "first", "type": {"type": "fixed", "name": "Two", "size": 2}}
    schema = {
        "type": "record",
        "name": "M",
        "fields": [two, *({"name": n, "type": t} for n, t in more.items())],
    }
    found = {name: kind.simpleString() for name, kind in column_types(json.dumps(schema)).items()}
    assert found == {
        "first": "binary", "flag": "boolean", "small": "int", "half": "float", "blob": "binary",
        "two": "binary", "uuid": "string", "big": "string", "local": "timestamp_ntz",
        "instant": "timestamp", "clock": "string", "odd": "bigint", "wrapped": "int",
        "nothing": "string", "packed": "decimal(9,2)",
    }  # fmt: skip
    assert column_types('"string"') == {}


def table(**declared: Any) -> TableConfig:
    return TableConfig.model_validate({"source": "shop", "entity": "item", "keys": ["id"]} | declared)


def texts_of(types: dict[str, T.DataType]) -> dict[str, str]:
    return {name: kind.simpleString() for name, kind in types.items()}


NAME = TableName("shop", "item")
INT, LONG, TEXT = T.IntegerType(), T.LongType(), T.StringType()


def test_types_widen_between_versions_and_text_in_a_table_stays_text() -> None:
    versions: list[dict[str, T.DataType]] = [
        {"id": INT, "n": T.FloatType()},
        {"id": LONG, "n": T.DoubleType()},
    ]
    assert texts_of(described_types(NAME, table(), versions, {})) == {"id": "bigint", "n": "double"}
    held = {"id": TEXT, "n": T.DoubleType()}
    assert texts_of(described_types(NAME, table(), versions, held)) == {"id": "string", "n": "double"}
    with pytest.raises(IncompatibleTypeError):
        described_types(NAME, table(), [{"n": LONG}, {"n": TEXT}], {})
    for without in (table(types={"n": "string"}), table(columns={"exclude": ["n"]})):
        assert described_types(NAME, without, [{"n": LONG}, {"n": TEXT}], {}) == {}


def resolved(
    columns: dict[str, T.DataType], existing: dict[str, T.DataType], **declared: Any
) -> dict[str, str]:
    """The types of a table's columns after a batch of rows in Avro."""
    shape = LineShape(place="t:0", columns=tuple(columns.items()), described=True)
    (looked,) = line_shapes([(LandedFile("kafka://x/0-9/t:0", 1, 1), "changes")], [shape])
    source: Any = SimpleNamespace(control=lambda _: frozenset(), options={"changes": CsvOptions()})
    found = resolve_columns(NAME, table(**declared), source, [looked], existing)
    assert found.base64
    return texts_of(dict(found.types))


def test_columns_of_a_table_have_the_types_of_the_schema_unless_others_are_declared() -> None:
    rows: dict[str, T.DataType] = {"id": INT, "raw": T.BinaryType(), "price": T.DecimalType(9, 2)}
    assert resolved(rows, {}) == {"id": "int", "raw": "binary", "price": "decimal(9,2)"}
    assert resolved(rows, {}, types={"id": "long", "raw": "string"}) == {
        "id": "bigint", "raw": "string", "price": "decimal(9,2)",
    }  # fmt: skip
    held = {"id": LONG, "raw": TEXT, "stars": INT}
    # A column that no record of the batch has keeps its type.
    assert resolved(rows | {"stars": T.NullType()}, held) == {
        "id": "bigint", "raw": "string", "stars": "int", "price": "decimal(9,2)",
    }  # fmt: skip
