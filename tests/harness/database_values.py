"""A table of each database with every type and its extremes, and what is expected of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Final

POSTGRES_VALUES: Final = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN price AS numeric(10, 2) CHECK (value >= 0);
CREATE TABLE value_types (
    id int PRIMARY KEY, small smallint, big bigint, n numeric, d numeric(38, 10), p price, r real,
    f double precision, flag boolean, t text, c char(5), b bytea, day date, at timestamptz, local timestamp,
    clock time, clock_zone timetz, span interval, j json, jb jsonb, u uuid, address inet, spread int4range,
    list int[], grid int[][], m money, feeling mood, bits bit(3)
);
INSERT INTO value_types VALUES (
    1, -32768, 9223372036854775807, 12345678901234567890123456789012345678901234567890.123456789,
    9999999999999999999999999999.0123456789, 1.10, 16777216, 1.7976931348623157e308, true, E'é\\n', 'ab',
    '\\x00ff', '9999-12-31', '2024-01-31 06:00:00.123456+05', '1582-10-04 00:00:00', '24:00',
    '23:59:59.999999+02', '1 year 2 days', '{"a": 1.10}', '{"a": 1.10}',
    '123e4567-e89b-12d3-a456-426655440000', '10.0.0.1/8', '[1,5)', '{1,NULL}', '{{1,2},{3,4}}', '12.34', 'ok',
    '101'
);
INSERT INTO value_types (id) VALUES (2);
"""
POSTGRES_EXPECTED: Final = {
    "id": 1, "small": -32768, "big": 9223372036854775807,
    "n": "12345678901234567890123456789012345678901234567890.123456789",
    "d": Decimal("9999999999999999999999999999.0123456789"), "p": Decimal("1.10"), "r": 16777216.0,
    "f": 1.7976931348623157e308, "flag": True, "t": "é\n", "c": "ab   ", "b": b"\x00\xff",
    "day": dt.date(9999, 12, 31), "at": dt.datetime(2024, 1, 31, 1, 0, 0, 123456, dt.UTC),
    "local": dt.datetime.fromisoformat("1582-10-04"), "clock": "24:00:00", "clock_zone": "23:59:59.999999+02",
    "span": "1 year 2 days", "j": '{"a": 1.10}', "jb": '{"a": 1.10}',
    "u": "123e4567-e89b-12d3-a456-426655440000", "address": "10.0.0.1/8", "spread": "[1,5)",
    "list": "[1,null]", "grid": "[[1,2],[3,4]]", "m": "12.34", "feeling": "ok", "bits": "101",
}  # fmt: skip
MARIADB_VALUES: Final = """
CREATE TABLE value_types (
    id int PRIMARY KEY, tiny tinyint, big bigint unsigned, wide decimal(65, 10), d decimal(38, 10), r float,
    f double, least decimal(38, 30), t text CHARACTER SET latin1, c char(5), b blob, fixed varbinary(3),
    day date, at timestamp(6) NULL, local datetime(6), clock time, y year, bits bit(8), all_bits bit(64),
    feeling enum('sad', 'ok'), several set('a', 'b'), j json, u uuid
);
INSERT INTO value_types VALUES (
    1, -128, 18446744073709551615, 12345678901234567890.5, 9999999999999999999999999999.0123456789, 16777216,
    1.7976931348623157e308, -1e-30, 'é', 'ab', x'00ff', x'00', '9999-12-31', '2024-01-31 06:00:00.123456',
    '1582-10-04 00:00:00', '-838:59:59', 2155, b'101', 18446744073709551615, 'ok', 'a,b', '{"a": 1.10}',
    '123e4567-e89b-12d3-a456-426655440000'
);
INSERT INTO value_types (id) VALUES (2);
"""
MARIADB_EXPECTED: Final = {
    "id": 1, "tiny": -128, "big": Decimal(18446744073709551615), "wide": "12345678901234567890.5000000000",
    "d": Decimal("9999999999999999999999999999.0123456789"), "r": 16777216.0, "f": 1.7976931348623157e308,
    "least": Decimal("-1e-30"), "t": "é", "c": "ab", "b": b"\x00\xff", "fixed": b"\x00",
    "day": dt.date(9999, 12, 31),
    "at": dt.datetime(2024, 1, 31, 6, 0, 0, 123456, dt.UTC), "local": dt.datetime.fromisoformat("1582-10-04"),
    "clock": "-838:59:59", "y": 2155, "bits": 5, "all_bits": Decimal(18446744073709551615), "feeling": "ok",
    "several": "a,b", "j": '{"a": 1.10}', "u": "123e4567-e89b-12d3-a456-426655440000",
}  # fmt: skip
H2_VALUES: Final = """
CREATE USER PULLER PASSWORD 'pulled-well';
CREATE SCHEMA SALES;
CREATE TABLE SALES.ALL_TYPES (
    ID INT PRIMARY KEY, C CHAR(5), V VARCHAR(20), CL CLOB, BI BINARY(3), BL BLOB, FLAG BOOLEAN, TINY TINYINT,
    SMALL SMALLINT, BIG BIGINT, N NUMERIC(38, 10), WIDE NUMERIC(60, 20), R REAL, D DOUBLE PRECISION,
    DF DECFLOAT(34), D8 DATE, T TIME(9), TZ TIME(6) WITH TIME ZONE, AT TIMESTAMP(6),
    ATZ TIMESTAMP(6) WITH TIME ZONE, AT9 TIMESTAMP(9), U UUID, SPAN INTERVAL DAY TO SECOND,
    FEELING ENUM('sad', 'ok'), J JSON, A INT ARRAY
);
INSERT INTO SALES.ALL_TYPES VALUES (
    1, 'ab', 'é', 'clob é', X'0001FF', X'00FF', TRUE, -128, -32768, 9223372036854775807,
    9999999999999999999999999999.0123456789, 1234567890123456789012345678901234567890.12345678901234567890,
    16777216, 1.7976931348623157e308, 1.10, '9999-12-31', TIME '23:59:59.123456789',
    TIME WITH TIME ZONE '23:59:59.999999+02', TIMESTAMP '1582-10-04 00:00:00.123456',
    TIMESTAMP WITH TIME ZONE '2024-01-31 06:00:00.123456+05', TIMESTAMP '2024-01-31 06:00:00.123456789',
    '123e4567-e89b-12d3-a456-426655440000', INTERVAL '1 2:03:04' DAY TO SECOND, 'ok', JSON '{"a": 1.10}',
    ARRAY[1, NULL]
);
INSERT INTO SALES.ALL_TYPES (ID) VALUES (2);
CREATE VIEW SALES.CAST_TYPES AS
SELECT ID, C, V, CL, BI, BL, FLAG, TINY, SMALL, BIG, N, WIDE, R, D, DF, D8, T, TZ, AT, ATZ, AT9, U,
    CAST(SPAN AS VARCHAR) AS SPAN, CAST(FEELING AS VARCHAR) AS FEELING, CAST(J AS VARCHAR) AS J
FROM SALES.ALL_TYPES;
GRANT SELECT ON SCHEMA SALES TO PULLER;
"""
H2_EXPECTED: Final = {
    "ID": 1, "C": "ab   ", "V": "é", "CL": "clob é", "BI": b"\x00\x01\xff", "BL": b"\x00\xff", "FLAG": True,
    "TINY": -128, "SMALL": -32768, "BIG": 9223372036854775807,
    "N": Decimal("9999999999999999999999999999.0123456789"),
    "WIDE": "1234567890123456789012345678901234567890.12345678901234567890", "R": "1.6777216E7",
    "D": 1.7976931348623157e308, "DF": "1.1", "D8": dt.date(9999, 12, 31), "T": "23:59:59.123456789",
    "TZ": "23:59:59.999999+02", "AT": dt.datetime.fromisoformat("1582-10-04T00:00:00.123456"),
    "ATZ": dt.datetime(2024, 1, 31, 1, 0, 0, 123456, dt.UTC), "AT9": "2024-01-31 06:00:00.123456789",
    "U": bytes.fromhex("123e4567e89b12d3a456426655440000"), "SPAN": "INTERVAL '1 02:03:04' DAY TO SECOND",
    # H2 itself shortens 1.10 and the JSON.
    "FEELING": "ok", "J": '{"a":1.10}',
}  # fmt: skip
