"""Values of every MySQL and PostgreSQL type as Debezium writes them, and what each of them means.

The meanings are worked out by hand from Debezium's and Kafka Connect's documents, and from the SQL that the
fixtures' authors inserted.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from decimal import Decimal
from typing import Any

from harness.fixtures import records

FLINK = "flink_cdc/debezium-data-schema-"
TIME, DATA = "io.debezium.time.", "io.debezium.data."
Fact = tuple[str, dict[str, Any], Any, Any]


def with_schema(fields: list[dict[str, Any]], row: dict[str, Any], source: dict[str, Any]) -> str:
    block = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [block | {"field": "before"}, block | {"field": "after"}]}
    payload = {"op": "c", "before": None, "after": row, "source": source, "ts_ms": 2000}
    return json.dumps({"schema": schema, "payload": payload})


def described(facts: list[Fact], source: dict[str, Any], *others: dict[str, Any]) -> str:
    """A message of documented fields and wire values; others hold some of the fields only."""
    fields = [f | {"field": n} for n, f, _, _ in facts]
    rows = [{n: w for n, _, w, _ in facts}, *others]
    return "\n".join(with_schema(fields, r, source) for r in rows)


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type]


def zoneless(*parts: int) -> dt.datetime:
    return utc(*parts).replace(tzinfo=None)


def wkb_points(*points: tuple[float, float]) -> bytes:
    return struct.pack("<I", len(points)) + b"".join(struct.pack("<dd", *p) for p in points)


def wkb(kind: int, *parts: bytes) -> bytes:
    """Well-known binary, little-endian: its type, the number of its parts unless it has none, its parts."""
    return struct.pack("<BI", 1, kind) + b"".join(parts)


def shape(kind: int, *parts: bytes) -> bytes:
    return wkb(kind, struct.pack("<I", len(parts)), *parts)


POINT = wkb(1, struct.pack("<dd", 1, 1))
SQUARE = shape(3, wkb_points((1, 1), (2, 1), (2, 2), (1, 2), (1, 1)))
SHAPES = {
    "geometry": SQUARE,
    "linestring": wkb(2, wkb_points((3, 0), (3, 3), (3, 5))),
    "polygon": SQUARE,
    "multipoint": shape(4, POINT, wkb(1, struct.pack("<dd", 2, 2))),
    "multiline": shape(
        5, wkb(2, wkb_points((1, 1), (2, 2), (3, 3))), wkb(2, wkb_points((4, 4), (5, 5)))
    ),
    "multipolygon": shape(
        6, shape(3, wkb_points((0, 0), (10, 0), (10, 10), (0, 10), (0, 0))),
        shape(3, wkb_points((5, 5), (7, 5), (7, 7), (5, 7), (5, 5))),
    ),
    "geometrycollection": shape(
        7, wkb(1, struct.pack("<dd", 10, 10)), wkb(1, struct.pack("<dd", 30, 30)),
        wkb(2, wkb_points((15, 15), (20, 20))),
    ),
}  # fmt: skip
AT_ONE = {"x": 1.0, "y": 1.0, "wkb": POINT, "srid": None}
EVERY_MYSQL: dict[str, Any] = {
    "_id": 1, "pt": Decimal("1.1"), "_bit1": True, "_bit": b"\xc7\x07" + bytes(6),
    "_tinyint1": 1, "_boolean": 1, "_bool": 0,
    "_tinyint": 1, "_tinyint_unsigned": 2, "_tinyint_unsigned_zerofill": 3,
    "_smallint": 1000, "_smallint_unsigned": 2000, "_smallint_unsigned_zerofill": 3000,
    "_mediumint": 100000, "_mediumint_unsigned": 200000, "_mediumint_unsigned_zerofill": 300000,
    "_int": 1000000, "_int_unsigned": 2000000, "_int_unsigned_zerofill": 3000000,
    "_bigint": 10000000000, "_bigint_unsigned": Decimal(20000000000),
    "_bigint_unsigned_zerofill": Decimal(30000000000), "_serial": Decimal(40000000000),
    "_float": 1.5, "_float_unsigned": 2.5, "_float_unsigned_zerofill": 3.5,
    "_real": 1.000001, "_real_unsigned": 2.000002, "_real_unsigned_zerofill": 3.000003,
    "_double": 1.000011, "_double_unsigned": 2.000022, "_double_unsigned_zerofill": 3.000033,
    "_double_precision": 1.000111, "_double_precision_unsigned": 2.000222,
    "_double_precision_unsigned_zerofill": 3.000333,
    "_numeric": Decimal("12345.11"), "_numeric_unsigned": Decimal("12345.22"),
    "_numeric_unsigned_zerofill": Decimal("12345.33"),
    # decimal(40, 3): more digits than a decimal of Spark or Iceberg has.
    "_fixed": "123456789876543212345678987654321.110",
    "_fixed_unsigned": "123456789876543212345678987654321.220",
    "_fixed_unsigned_zerofill": "123456789876543212345678987654321.330",
    "_decimal": Decimal(11111), "_decimal_unsigned": Decimal(22222),
    "_decimal_unsigned_zerofill": Decimal(33333),
    "_big_decimal": Decimal("2222222222222222300000001111.1234567890"),
    "_date": dt.date(2023, 3, 23), "_datetime": zoneless(2023, 3, 23, 14, 30, 5),
    "_datetime3": zoneless(2023, 3, 23, 14, 30, 5, 123000),
    "_datetime6": zoneless(2023, 3, 23, 14, 30, 5, 123456),
    "_datetime_p": zoneless(2023, 3, 24, 14, 30), "_datetime_p2": zoneless(2023, 3, 24, 14, 30, 5, 120000),
    "_timestamp": utc(2023, 3, 23, 22, 0, 10, 123456), "_timestamp0": utc(2023, 3, 23, 7, 10),
    "_char": "Paimon", "_varchar": "Apache Paimon", "_tinytext": "Apache Paimon MySQL TINYTEXT Test Data",
    "_text": "Apache Paimon MySQL Test Data", "_mediumtext": "Apache Paimon MySQL MEDIUMTEXT Test Data",
    "_longtext": "Apache Paimon MySQL Long Test Data",
    "_bin": b"bytes" + bytes(5), "_varbin": b"more bytes", "_tinyblob": b"TINYBLOB type test data",
    "_blob": b"BLOB type test data", "_mediumblob": b"MEDIUMBLOB type test data",
    "_longblob": b"LONGBLOB  bytes test data",
    "_json": '{"a": "b"}', "_enum": "value1", "_year": 2023, "clock": "10:13:23", "_set": "a,b",
    "_point": AT_ONE, **{f"_{n}": {"wkb": w, "srid": None} for n, w in SHAPES.items()},
}  # fmt: skip


def mysql_bytes() -> list[Fact]:
    """The schema that MySQL's connector documents for the fixture's types, its values and their meaning."""
    values = json.loads(records(f"{FLINK}exclude.json")[0])["after"]
    point = {"name": DATA + "geometry.Point", "type": "struct", "fields": [
        {"field": "x", "type": "double"}, {"field": "y", "type": "double"},
        {"field": "wkb", "type": "bytes"}, {"field": "srid", "type": "int32"}]}  # fmt: skip
    polygon = {"name": DATA + "geometry.Geometry", "type": "struct", "fields": point["fields"][2:]}
    unsigned, largest = decimal_of("0"), Decimal(2**64 - 1)
    facts: list[tuple[str, dict[str, Any], Any]] = [
        ("id", decimal_of("0", "20"), Decimal(1)),
        ("tiny_c", {"type": "int16"}, 127), ("tiny_un_c", {"type": "int16"}, 255),
        ("small_c", {"type": "int16"}, 32767), ("small_un_c", {"type": "int32"}, 65535),
        ("medium_c", {"type": "int32"}, 8388607), ("medium_un_c", {"type": "int32"}, 16777215),
        ("int_c", {"type": "int32"}, 2147483647), ("int_un_c", {"type": "int64"}, 4294967295),
        ("big_c", {"type": "int64"}, 2**63 - 1), ("big_un_c", unsigned, largest),
        ("big_un_z_c", decimal_of("0", "20"), largest), ("varchar_c", {"type": "string"}, "Hello World"),
        ("char_c", {"type": "string"}, "abc"),
        ("real_c", {"type": "float"}, struct.unpack("f", struct.pack("f", 123.102))[0]),
        ("float_c", {"type": "double"}, 123.102), ("double_c", {"type": "double"}, 404.4443),
        ("decimal_c", decimal_of("4", "8"), Decimal("123.4567")),
        ("decimal_un_c", decimal_of("4", "8"), Decimal("123.4568")),
        ("numeric_c", decimal_of("0", "6"), Decimal(346)),
        ("big_decimal_c", decimal_of("1", "65"), "34567892.1"),
        ("bit1_c", {"type": "boolean"}, False), ("tiny1_c", {"type": "int16"}, 1),
        ("date_c", {"type": "int32", "name": TIME + "Date"}, dt.date(2020, 7, 17)),
        ("time_c", {"type": "int64", "name": TIME + "MicroTime"}, "18:00:22"),
        ("datetime3_c", {"type": "int64", "name": TIME + "Timestamp"},
            zoneless(2020, 7, 17, 18, 0, 22, 123000)),
        ("datetime6_c", {"type": "int64", "name": TIME + "MicroTimestamp"},
            zoneless(2020, 7, 17, 18, 0, 22, 123456)),
        ("timestamp_c", {"type": "string", "name": TIME + "ZonedTimestamp"}, utc(2020, 7, 17, 18, 0, 22)),
        ("file_uuid", {"type": "bytes"}, bytes.fromhex("651aed08390f4893b2f136923e7b7400")),
        ("bit_c", {"type": "bytes", "name": DATA + "Bits", "parameters": {"length": "64"}}, b"\x04" * 8),
        ("text_c", {"type": "string"}, "text"), ("long_blob_c", {"type": "bytes"}, b"\x10"),
        ("year_c", {"type": "int32", "name": TIME + "Year"}, 2021),
        ("enum_c", {"type": "string", "name": DATA + "Enum"}, "red"),
        ("set_c", {"type": "string", "name": DATA + "EnumSet"}, "a,b"),
        ("json_c", {"type": "string", "name": DATA + "Json"}, '{"key1": "value1"}'),
        ("point_c", point, AT_ONE), ("polygon_c", polygon, {"wkb": SQUARE, "srid": None}),
        ("varchar_len0_c", {"type": "string"}, ""),
    ]  # fmt: skip
    return [(n, f, values[n], m) for n, f, m in facts]


def wire(number: int) -> str:
    """A number as Java's BigInteger writes it, in base64."""
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal_of(scale: str, precision: str | None = None) -> dict[str, Any]:
    known = {"connect.decimal.precision": precision} if precision else {}
    name = "org.apache.kafka.connect.data.Decimal"
    return {"name": name, "type": "bytes", "parameters": {"scale": scale} | known}


def every_postgres() -> list[Fact]:
    """Fields as the documentation of Debezium describes them, their wire values, and what they mean."""
    moment = zoneless(2018, 6, 20, 15, 13, 16, 945104)
    return [
        ("id", {"type": "int32"}, 1, 1),
        ("small", {"type": "int16"}, -7, -7), ("big", {"type": "int64"}, 2**63 - 1, 2**63 - 1),
        ("yes", {"type": "boolean"}, True, True), ("real", {"type": "float"}, 0.5, 0.5),
        ("dbl", {"type": "double"}, 404.4443, 404.4443),
        ("num", decimal_of("2", "10"), "//8=", Decimal("-0.01")),
        ("num38", decimal_of("0"), wire(10**38 - 1), Decimal(10**38 - 1)),
        ("neg38", decimal_of("0"), wire(-(10**38) + 1), Decimal(-(10**38) + 1)),
        ("neg65", decimal_of("1", "65"), "/w==", "-0.1"),
        ("big65", decimal_of("30", "65"), wire(-(10**64) - 1), "-" + "1" + "0" * 34 + "." + "0" * 29 + "1"),
        ("uint64", decimal_of("0", "20"), "AP//////////", Decimal(2**64 - 1)),
        ("free", {"name": DATA + "VariableScaleDecimal", "type": "struct", "fields": [
            {"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]},
            {"scale": 4, "value": "EtaH"}, "123.4567"),
        ("day", {"name": TIME + "Date", "type": "int32"}, 17702, dt.date(2018, 6, 20)),
        ("clock", {"name": TIME + "MicroTime", "type": "int64"}, 54_796_945_104, "15:13:16.945104"),
        ("clock_ms", {"name": TIME + "Time", "type": "int32"}, 54_796_000, "15:13:16"),
        ("long_time", {"name": TIME + "MicroTime", "type": "int64"}, -3_020_399_000_000, "-838:59:59"),
        ("ms", {"name": TIME + "Timestamp", "type": "int64"}, 1529507596945,
            moment.replace(microsecond=945000)),
        ("us", {"name": TIME + "MicroTimestamp", "type": "int64"}, 1529507596945104, moment),
        ("ns", {"name": TIME + "NanoTimestamp", "type": "int64"}, 1529507596945104999, moment),
        ("zoned", {"name": TIME + "ZonedTimestamp", "type": "string"}, "2018-06-20T15:13:16.945104+02:00",
            dt.datetime(2018, 6, 20, 13, 13, 16, 945104, tzinfo=dt.UTC)),
        ("zoned_time", {"name": TIME + "ZonedTime", "type": "string"}, "15:13:16Z", "15:13:16Z"),
        ("year", {"name": TIME + "Year", "type": "int32"}, 2021, 2021),
        ("span", {"name": TIME + "MicroDuration", "type": "int64"}, 37091106000000, 37091106000000),
        ("iso", {"name": TIME + "Interval", "type": "string"}, "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
        ("uuid", {"name": DATA + "Uuid", "type": "string"}, "a0ee-11", "a0ee-11"),
        ("doc", {"name": DATA + "Json", "type": "string"}, '{"a": 1.10}', '{"a": 1.10}'),
        ("bits", {"name": DATA + "Bits", "type": "bytes"}, "AwE=", b"\x03\x01"),
        ("raw", {"type": "bytes"}, "3q2+7w==", b"\xde\xad\xbe\xef"),
        ("tags", {"type": "array", "items": {"type": "string"}}, ["a", None], ["a", None]),
        ("days", {"type": "array", "items": {"name": TIME + "Date", "type": "int32"}}, [0, 1],
            [dt.date(1970, 1, 1), dt.date(1970, 1, 2)]),
        ("hstore", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
            {"k": "v"}, [("k", "v")]),
        ("point", {"name": DATA + "geometry.Point", "type": "struct", "fields": [
            {"field": "x", "type": "double"}, {"field": "y", "type": "double"},
            {"field": "wkb", "type": "bytes"}, {"field": "srid", "type": "int32"}]},
            {"x": 1.0, "y": 2.5, "wkb": "AQ==", "srid": None},
            {"x": 1.0, "y": 2.5, "wkb": b"\x01", "srid": None}),
        ("nums", {"type": "array", "items": decimal_of("2", "10")}, ["AQ==", None], [Decimal("0.01"), None]),
        ("pair", {"type": "struct", "fields": [
            decimal_of("1", "5") | {"field": "d"}, {"field": "i", "type": "int32"},
            {"field": "l", "type": "array", "items": {"type": "double"}}]},
            {"d": "/w==", "i": 3, "l": [0.5]}, {"d": Decimal("-0.1"), "i": 3, "l": [0.5]}),
        ("hstore_json", {"name": DATA + "Json", "type": "string"}, '{"k": null}', '{"k": null}'),
        ("inet", {"type": "string"}, "10.0.0.1/8", "10.0.0.1/8"),
        ("tz_late", {"name": TIME + "ZonedTimestamp", "type": "string"}, "2018-06-20T23:30:00Z",
            utc(2018, 6, 20, 23, 30)),
        ("none", {"type": "int64", "optional": True}, None, None),
    ]  # fmt: skip


# The same columns of a converter with decimal.format=NUMERIC: 1234 is a number there, and valid base64.
AS_NUMBERS = {"id": 2, "num": -0.01, "num38": 1234, "big65": 1234, "uint64": 2**64 - 1, "nums": [0.01, 12],
    "pair": {"d": 1234, "i": 4, "l": [1.5, 2]}}  # fmt: skip
NUMBERS_MEAN = {"id": 2, "num": Decimal("-0.01"), "num38": Decimal(1234), "big65": "1234",
    "uint64": Decimal(2**64 - 1), "nums": [Decimal("0.01"), Decimal(12)],
    "pair": {"d": Decimal(1234), "i": 4, "l": [1.5, 2.0]}}  # fmt: skip
