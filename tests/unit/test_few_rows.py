"""Few rows of a stream, read without Spark: what is read, and what is left to Spark."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION
from kedro_lakehouse.decoders.changes import ChangesDecoder, ChangesLayout
from kedro_lakehouse.decoders.few_rows import row_of, rows_here, value_of
from kedro_lakehouse.decoders.lines import RowLines
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import Columns

pytestmark = pytest.mark.unit

UTC = dt.UTC


def lines(*texts: str | None) -> pa.Table:
    """Lines of one partition."""
    places = pa.array(["in:0"] * len(texts))
    return pa.table({"value": pa.array(texts, pa.string()), "__file": places})


def test_values_are_the_texts_that_were_sent() -> None:
    text = '{"a": 1, "b": 1.50, "c": "x\\u00e9", "d": true, "e": null, "f": 1E5}'
    assert row_of(text) == {"a": "1", "b": "1.50", "c": "x\u00e9", "d": "true", "e": None, "f": "1E5"}


@pytest.mark.parametrize(
    "text",
    [
        None, "", "7", "[]", "[{}]", '{"a": 1} x', "{'a': 1}", '{"a": 1, "a": 2}', '{"a": {}}', '{"a": [1]}',
        '{"a": NaN}', '{"a": -0}', '{"a": 1000000000000000000}', '{"a": "\\ud800"}', '{"a": "\ue000#1"}',
        '{"a": "\\ue000#1"}', "\ufeff{}", '{"' + "n" * 1001 + '": 1}', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_only_spark_knows_is_left_to_it(text: str | None) -> None:
    with pytest.raises(NotPlainError):
        row_of(text)
    with pytest.raises(NotPlainError):
        rows_here(lines('{"a": 1}', text), {"a": T.StringType()})


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("-7", T.LongType(), -7),
        ("2147483647", T.IntegerType(), 2**31 - 1),
        ("1.50", T.DecimalType(5, 2), Decimal("1.50")),
        ("0.1", T.DoubleType(), 0.1),
        ("1.5E3", T.DoubleType(), 1500.0),
        ("0.1", T.FloatType(), struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("false", T.BooleanType(), False),
        ("2024-02-29", T.DateType(), dt.date(2024, 2, 29)),
        ("2026-01-31T01:02:03.5+02:00", T.TimestampType(), dt.datetime(2026, 1, 30, 23, 2, 3, 500_000, UTC)),
        ("2026-01-31 01:02:03", T.TimestampType(), dt.datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)),
        ("2026-01-31 01:02:03", T.TimestampNTZType(), dt.datetime(2026, 1, 31, 1, 2, 3)),  # noqa: DTZ001
        (None, T.LongType(), None),
    ],
)
def test_plain_texts_become_values(text: str | None, kind: T.DataType, value: Any) -> None:
    assert value_of(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" 7", T.LongType()), ("7.0", T.LongType()), ("2147483648", T.IntegerType()),
        ("1.505", T.DecimalType(5, 2)),
        ("1234.5", T.DecimalType(5, 2)), ("1e400", T.DoubleType()), ("16777217", T.FloatType()),
        ("TRUE", T.BooleanType()),
        ("2026-02-29", T.DateType()), ("2026-1-5", T.DateType()), ("2026-01-31T24:00:00", T.TimestampType()),
        ("2026-01-31 01:02", T.TimestampType()), ("2026-01-31T01:02:03Z", T.TimestampNTZType()),
        ("9999-12-31T23:59:59-14:00", T.TimestampType()),
    ],
)  # fmt: skip
def test_other_texts_are_left_to_spark(text: str, kind: T.DataType) -> None:
    with pytest.raises(NotPlainError):
        value_of(text, kind)


def test_types_that_are_not_read_here_are_left_to_spark() -> None:
    for kind in (T.BinaryType(), T.ArrayType(T.StringType())):
        with pytest.raises(NotPlainError):
            rows_here(lines('{"a": null}'), {"a": kind})


def test_names_of_fields_are_found_also_where_values_are_nested() -> None:
    (shape,) = RowLines().discover_few(lines('{"b": 1}', '{"a": {"x": 1}, "c": null}'))
    assert (shape.place, [name for name, _ in shape.columns]) == ("in:0", ["a", "b", "c"])
    with pytest.raises(NotPlainError):
        RowLines().discover_few(lines('{"b": 1}', "{"))


def decoded(*texts: str, op: str | None = None, **columns: Any) -> list[dict[str, Any]]:
    """Rows as ``ChangesDecoder`` decodes them without Spark."""
    places = pa.array(["in:0"] * len(texts))
    position = pa.StructArray.from_arrays([places, pa.array(range(len(texts)))], ["file", "row"])
    given = lines(*texts).append_column(POSITION, position)
    layout = ChangesLayout(op=op, mapping={"+": "upsert", "-": "delete"})
    shapes = RowLines().discover_few(given)
    found = ChangesDecoder().decode_few(given, shapes, layout, Columns(**columns), ("id",))
    return cast("list[dict[str, Any]]", found.to_pylist())


def test_few_rows_become_events() -> None:
    first, second = decoded(
        '{"id": 1, "old": "a", "what": "+"}', '{"id": 2, "new": "b", "what": "?"}',
        op="what", types={"id": T.LongType(), "new": T.StringType()}, rename={"old": "new"},
        control=frozenset({"what"}),
    )  # fmt: skip
    assert first == {
        "id": 1, "new": "a", "_op": "upsert", "_order": {"file_name": "in:0", "row_number": 0},
        "_position": {"file": "in:0", "row": 0}, "_raw": None, "__malformed": False, "__failed": [],
    }  # fmt: skip
    assert (second["new"], second["_op"], second["_order"]["row_number"]) == ("b", None, 1)
    (plain,) = decoded('{"id": 1}', types={"id": T.LongType()})
    assert plain["_op"] == "upsert"


def test_an_operation_that_is_no_text_and_a_pattern_are_left_to_spark() -> None:
    with pytest.raises(NotPlainError):
        decoded('{"id": 1, "n": 1}', op="n", types={"id": T.LongType(), "n": T.LongType()})
    with pytest.raises(NotPlainError):
        decoded('{"id": 1, "d": "1.2.2026"}', types={"d": T.DateType()}, date_format="d.M.yyyy")
