"""Expectations about single rows, as column expressions."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.errors import MissingColumnError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.config.expectations import ExpectationConfig


def types_of(frame: DataFrame) -> dict[str, T.DataType]:
    """The types of a frame's columns."""
    return {f.name: f.dataType for f in frame.schema.fields}


def require_columns(table: object, expectations: Iterable[ExpectationConfig], names: Iterable[str]) -> None:
    """Raise an error where expectations name columns that are not there.

    Raises:
        MissingColumnError: An expectation names a column that the table does not have.
    """
    found = list(names)
    needed = [e for e in expectations if e.type != "expect_column_to_exist"]
    missing = [c for e in needed for c in e.columns if c not in found]
    if missing:
        raise MissingColumnError(
            table=table, missing=missing, found=found, place="the table, for expectations"
        )


def counts(expectation: ExpectationConfig) -> Column:
    """Whether a row counts: one with a null in the columns counts only if the expectation is about nulls."""
    if expectation.type.endswith("_null"):
        return F.lit(True)
    return reduce(and_, [_col(c).isNotNull() for c in expectation.columns])


def fails(expectation: ExpectationConfig, types: Mapping[str, T.DataType]) -> Column:
    """Whether a row fails an expectation of nature row; never null.

    A row with a null value can only fail an expectation about nulls.

    Returns:
        A boolean column; what cannot be compared (a text where a number is expected) fails.
    """
    complies = _CONDITIONS[expectation.type](expectation, types)
    return counts(expectation) & ~F.coalesce(complies, F.lit(False))


def within(value: Column, expectation: ExpectationConfig, kind: T.DataType | None = None) -> Column:
    """Whether a value lies between the ends that an expectation declares."""
    complies = F.lit(True)
    if expectation.min_value is not None:
        low = literal(expectation.min_value, kind)
        complies &= value > low if expectation.strict_min else value >= low
    if expectation.max_value is not None:
        high = literal(expectation.max_value, kind)
        complies &= value < high if expectation.strict_max else value <= high
    return complies


def comparable_value(name: str, kind: T.DataType, ends: Iterable[object]) -> Column:
    """A column as it is compared with declared ends: text is read as a number where the ends are numbers."""
    numbers = [e for e in ends if isinstance(e, int | float)]
    if isinstance(kind, T.StringType) and numbers:
        return F.expr(f"try_cast({quote(name)} as double)")
    return _col(name)


def literal(value: Any, kind: T.DataType | None) -> Column:
    """A declared value; text is read as a date or time where the column holds those."""
    if isinstance(value, str) and isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType):
        return F.lit(value).cast(kind)
    return F.lit(value)


def _col(name: str) -> Column:
    return F.col(quote(name))


def _in_set(expectation: ExpectationConfig, types: Mapping[str, T.DataType]) -> Column:
    name, values = expectation.columns[0], expectation.value_set or ()
    if isinstance(types[name], T.StringType):
        return _col(name).isin(*map(str, values))
    return _col(name).isin(*[literal(value, types[name]) for value in values])


def _between(expectation: ExpectationConfig, types: Mapping[str, T.DataType]) -> Column:
    name, ends = expectation.columns[0], (expectation.min_value, expectation.max_value)
    return within(comparable_value(name, types[name], ends), expectation, types[name])


def _pair(expectation: ExpectationConfig, _: Mapping[str, T.DataType]) -> Column:
    first, second = map(_col, expectation.columns)
    return first >= second if expectation.or_equal else first > second


def _length(expectation: ExpectationConfig) -> Column:
    return F.char_length(_col(expectation.columns[0]))


_CONDITIONS: dict[str, Callable[[ExpectationConfig, Mapping[str, T.DataType]], Column]] = {
    "expect_column_values_to_not_be_null": lambda e, _: _col(e.columns[0]).isNotNull(),
    "expect_column_values_to_be_null": lambda e, _: _col(e.columns[0]).isNull(),
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": lambda e, t: ~_in_set(e, t),
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_match_regex": lambda e, _: _col(e.columns[0]).rlike(e.regex or ""),
    "expect_column_values_to_not_match_regex": lambda e, _: ~_col(e.columns[0]).rlike(e.regex or ""),
    "expect_column_value_lengths_to_be_between": lambda e, _: within(_length(e), e),
    "expect_column_value_lengths_to_equal": lambda e, _: _length(e) == F.lit(e.value),
    "expect_column_pair_values_a_to_be_greater_than_b": _pair,
    "expect_column_pair_values_to_be_equal": lambda e, _: _col(e.columns[0]) == _col(e.columns[1]),
}
