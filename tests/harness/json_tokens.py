"""JSON values that readers may take for one thing or another, and rows in a form that can be compared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

TOKENS = (
    "null", "true", "false", "0", "-0", "7", "-1", "32767", "32768", "2147483647", "2147483648",
    "-2147483648", "999999999999999999", "1000000000000000000", "9223372036854775808", "01", "1.", ".5",
    "+1", "1.5", "-1.50", "1.505", "-0.0", "0.1", "12345678.99", "123456789.9", "1e3", "1E400", "1.5e-7",
    "123456789012345.123456789012345",
    "0.30000000000000004", "NaN", "Infinity", "-Infinity", "{}", "[]",
    '{"a": 1.5}', "[1, 2.50]", '{"a": 1, "a": 2}', "'x'", "word", '""', '" "', '"7"', '" 7 "', '"7.0"',
    '"-0"', '"1e3"',
    '"NaN"', '"inf"', '"1.5f"', '"5d"', '"TRUE"', '"t"', '"yes"', '"true"', '"false"', '"007"',
    '"2026-01-31"', '"2026-02-29"', '"2024-02-29"', '"2026-1-5"', '"0001-01-01"', '"1582-10-10"',
    '"9999-12-31"', '"2026-01-31 "', '"20260131"', '"2026-01-31T"', '"2026-01-31T01:02:03"',
    '"2026-01-31 23:59:59.999999"', '"2026-01-31T24:00:00"', '"2026-01-31T23:59:60"',
    '"2026-01-31T01:02:03Z"', '"2026-01-31T01:02:03.5+02:00"', '"2026-01-31T01:02:03.1234567Z"',
    '"2026-01-31T01:02:03-14:59"', '"2026-01-31T01:02:03 Europe/Berlin"', '"2026-01-31T01:02"',
    '"0001-01-01T00:00:00+05:00"', '"1883-11-18T12:00:00Z"', '"T01:02:03"', '"epoch"', '"a\\"b\\\\c\\/d\\n"',
    '"\\u00e9\\ud83d\\ude00"', '"\\ud800"', '"\\ue000#1"', '"\ue000#1"', '"\u00e9 \U0001f600"', '"a\tb"',
    '"\\x"', '"\\u00"', '"x', '"{\\"a\\": 1.5}"', '"[1.5]"', '"  1.5"', '"\u00a0"',
)  # fmt: skip


def listed(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows with days and moments as numbers: Spark knows some that Python does not."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_temporal(field.type):
            counted = rows[field.name].cast(pa.int32() if pa.types.is_date32(field.type) else pa.int64())
            rows = rows.set_column(number, field.name, counted)
    return rows.to_pylist()
