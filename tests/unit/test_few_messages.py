"""Debezium's messages that are decoded without Spark: what their values mean, and what is left to Spark."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from harness.debezium import AS_NUMBERS, NUMBERS_MEAN, every_postgres, mysql_bytes
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION
from kedro_lakehouse.decoders.debezium import DebeziumDecoder, DebeziumLayout
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import Columns
from kedro_lakehouse.formats.ddl import storable

pytestmark = pytest.mark.unit

SOURCE = {"connector": "postgresql", "lsn": 5, "ts_ms": 1000}
LAYOUT = DebeziumLayout(table="shop.t")
NESTED = (T.ArrayType, T.MapType, T.StructType)


def lines(*texts: str | None, keys: list[str | None] | None = None) -> pa.Table:
    """Messages of one partition."""
    places = pa.array(["t:0"] * len(texts))
    position = pa.StructArray.from_arrays([places, pa.array(range(len(texts)))], ["file", "row"])
    values = [pa.array(texts, pa.string()), pa.array(keys or [None] * len(texts), pa.string())]
    return pa.Table.from_arrays([*values, position, places], names=["value", "key", POSITION, "__file"])


def decoded(
    given: pa.Table, types: dict[str, T.DataType] | None = None, **columns: Any
) -> list[dict[str, Any]]:
    """The events of messages; without ``types`` in those that their schemas declare."""
    decoder = DebeziumDecoder()
    shapes = decoder.discover_few(given, LAYOUT)
    if types is None:
        types = {n: storable(k) for s in shapes for n, k in s.columns if not n.startswith("__")}
    return decoder.decode_few(given, shapes, LAYOUT, Columns(types=types, **columns), ("id",)).to_pylist()


def described(facts: list[tuple[str, dict[str, Any], Any, Any]], row: dict[str, Any]) -> str:
    """A message with its schema, as Kafka Connect writes it."""
    block = {"type": "struct", "optional": True, "fields": [field | {"field": n} for n, field, _, _ in facts]}
    schema = {"type": "struct", "fields": [block | {"field": "before"}, block | {"field": "after"}]}
    payload = {"op": "c", "before": None, "after": row, "source": SOURCE, "ts_ms": 2000}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))


@pytest.mark.parametrize("facts", [every_postgres(), mysql_bytes()], ids=["postgres", "mysql"])
def test_a_value_of_each_of_debeziums_types(facts: list[tuple[str, dict[str, Any], Any, Any]]) -> None:
    shapes = DebeziumDecoder().discover_few(lines(described(facts, {})), LAYOUT)
    nested = {name for name, kind in shapes[0].columns if isinstance(kind, NESTED)}
    means = {name: meaning for name, _, _, meaning in facts if name not in nested}
    row = {name: value for name, _, value, _ in facts if name in means}
    (event,) = decoded(lines(described(facts, row)))
    assert {name: event.get(name) for name in means} == means
    assert len(means) > 30


def test_decimals_that_are_sent_as_numbers() -> None:
    row = {name: value for name, value in AS_NUMBERS.items() if name not in ("nums", "pair")}
    (event,) = decoded(lines(described(every_postgres(), row)))
    assert {name: event[name] for name in row} == {name: NUMBERS_MEAN[name] for name in row}


TYPES: dict[str, T.DataType] = {"id": T.LongType(), "v": T.StringType(), "day": T.DateType()}


def envelope(op: str, after: Any = None, before: Any = None, **source: Any) -> str:
    value = {"op": op, "before": before, "after": after, "source": SOURCE | source, "ts_ms": 2000}
    return json.dumps(value)


def test_each_kind_of_change() -> None:
    texts = [
        envelope("r", {"id": 1, "v": "s", "day": 20455}, ts_us=2_000_001),
        envelope("u", {"id": 2, "v": "__debezium_unavailable_value"}, {"id": 1}, lsn=6),
        None,
        envelope("d", None, {"id": 2, "v": "gone"}, lsn=7),
        envelope("d", lsn=8),
        envelope("t", lsn=9),
    ]
    keys = [None, None, '{"id": 1}', '{"id": 2}', '{"schema": {}, "payload": {"id": 3}}', None]
    found = decoded(lines(*texts, keys=keys), TYPES)
    assert [(e["_op"], e["id"], e["_order"]["lsn"], e["_position"]["row"]) for e in found] == [
        ("upsert", 1, 5, 0), ("upsert", 2, 6, 1), ("delete", 2, 7, 3), ("delete", 3, 8, 4),
        ("truncate", None, 9, 5),
    ]  # fmt: skip
    assert [e["__before"] for e in found] == [None, {"id": 1}, None, None, None]
    assert [e["_unset"] for e in found] == [None, ["v"], None, None, None]
    assert found[0]["day"] == dt.date(2026, 1, 2)
    assert found[0]["_time"] == dt.datetime(1970, 1, 1, 0, 0, 2, 1, dt.UTC)


@pytest.mark.parametrize(
    "text",
    [
        "no json", "{}", envelope("x", {"id": 1}), envelope("c", {"id": None}), envelope("c", {"id": "x"}),
        envelope("c", {"id": 1, "v": [1]}), envelope("c", [1]), envelope("c", {"id": 1}, lsn=None),
        envelope("c", {"id": 1}, connector="mongodb"), envelope("c", {"id": 1}, ts_ms="x"),
        '{"id": 1, "__op": "c"}', '{"ts_ms": 5}', envelope("c", {"id": 1}).replace('"v"', '"id"') + "x",
    ],
)  # fmt: skip
def test_what_only_spark_knows_is_left_to_it(text: str) -> None:
    good = envelope("c", {"id": 1})
    assert len(decoded(lines(good), TYPES)) == 1
    with pytest.raises(NotPlainError):
        decoded(lines(good, text), TYPES)


def test_a_key_that_is_not_that_of_the_row_is_left_to_spark() -> None:
    with pytest.raises(NotPlainError):
        decoded(lines(envelope("c", {"id": 1}), keys=['{"id": 2}']), TYPES)
    with pytest.raises(NotPlainError):
        decoded(lines(envelope("c", {"id": 1}), keys=['{"schema": null, "payload": null}']), TYPES)
