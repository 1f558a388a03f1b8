"""Answer a table's expectations together: one aggregation for all, with one more for each uniqueness."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kedro_lakehouse.names import quote
from kedro_lakehouse.quality.conditions import comparable_value, counts, fails, types_of, within
from kedro_lakehouse.quality.results import Result, of_number, of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.config.expectations import ExpectationConfig

_ROWS, _ELEMENTS, _UNEXPECTED, _COMPLIES = "rows", "elements", "unexpected", "complies"
_FIGURES: Final = {"min": F.min, "max": F.max, "mean": F.avg, "sum": F.sum}
ANSWERED: Final = frozenset({"row", "unique", "aggregate", "count"})
"""The natures of expectations that an aggregation answers, without another engine."""
OF_ROWS: Final = frozenset({"row", "unique"})
"""The natures of expectations that single rows can fail."""


def answer(
    expectations: Sequence[ExpectationConfig], rows: DataFrame, whole: DataFrame | None = None
) -> list[Result]:
    """Answer expectations in one Spark action; in their order.

    Args:
        rows: The rows to validate.
        whole: The table that ``rows`` are a part of, where they are only a part: uniqueness asks
            whether another row of it has the same values.

    Schema:
        rows, whole: the columns that the expectations name.
    """
    if not expectations:
        return []
    asked = F.count(F.lit(1)).alias(_ROWS)
    answers = rows.agg(asked, *[c for i, e in enumerate(expectations) for c in _figures(i, e, rows)])
    for i, e in enumerate(expectations):
        if e.nature == "unique":
            answers = answers.crossJoin(_repeats(i, e, rows, whole))
    found = answers.collect()[0].asDict()
    return [_result(i, e, found) for i, e in enumerate(expectations)]


def _figures(number: int, expectation: ExpectationConfig, rows: DataFrame) -> list[Column]:
    types = types_of(rows)
    if expectation.nature == "row":
        return [
            F.count(F.when(counts(expectation), 1)).alias(f"{_ELEMENTS}{number}"),
            F.count(F.when(fails(expectation, types), 1)).alias(f"{_UNEXPECTED}{number}"),
        ]
    if expectation.nature == "aggregate":
        name, kind = expectation.columns[0], types[expectation.columns[0]]
        ends = (expectation.min_value, expectation.max_value)
        figure = _FIGURES[expectation.type.split("_")[2]](comparable_value(name, kind, ends))
        # Without rows there is no figure, and the expectation is met.
        complies = F.coalesce(within(figure, expectation, kind), F.lit(True))
        return [complies.alias(f"{_COMPLIES}{number}")]
    return []


def repeated(
    expectation: ExpectationConfig, rows: DataFrame, whole: DataFrame | None = None
) -> tuple[DataFrame, list[str]]:
    """Count how many rows of a table have each combination of values in the expectation's columns.

    Schema:
        returns: ``v0``, ``v1``, … (the expectation's columns) + ``n``, where n > 1 for shared values.
            Rows whose values are all null are left out; the names of the value columns come second.
    """
    names = [f"v{i}" for i in range(len(expectation.columns))]

    def values(frame: DataFrame) -> DataFrame:
        chosen = [F.col(quote(c)).alias(n) for c, n in zip(expectation.columns, names, strict=True)]
        any_told = reduce(or_, [F.col(n).isNotNull() for n in names], F.lit(False))
        return frame.select(*chosen).where(any_told)

    near = values(rows)
    if whole is not None:
        touched = near.distinct().select(*[F.col(n).alias(f"t{n}") for n in names])
        same = reduce(and_, [F.col(n).eqNullSafe(F.col(f"t{n}")) for n in names], F.lit(True))
        near = values(whole).join(touched, same, "left_semi")
    return near.groupBy(*names).agg(F.count(F.lit(1)).alias("n")), names


def _repeats(
    number: int, expectation: ExpectationConfig, rows: DataFrame, whole: DataFrame | None
) -> DataFrame:
    groups, _ = repeated(expectation, rows, whole)
    return groups.agg(
        F.coalesce(F.sum("n"), F.lit(0)).alias(f"{_ELEMENTS}{number}"),
        F.coalesce(F.sum(F.when(F.col("n") > 1, F.col("n"))), F.lit(0)).alias(f"{_UNEXPECTED}{number}"),
    )


def _result(number: int, expectation: ExpectationConfig, found: dict[str, Any]) -> Result:
    if expectation.nature == "count":
        return of_number(expectation, found[_ROWS], "aggregation")
    if expectation.nature == "aggregate":
        complies = bool(found[f"{_COMPLIES}{number}"])
        return Result(expectation=expectation, success=complies, engine="aggregation", elements=found[_ROWS])
    return of_rows(expectation, found[f"{_ELEMENTS}{number}"], found[f"{_UNEXPECTED}{number}"])


def failing_rows(
    expectation: ExpectationConfig, rows: DataFrame, whole: DataFrame | None = None
) -> DataFrame:
    """The rows that fail an expectation of nature row or unique: of shared values every row that has them.

    Returns:
        A lazy frame of the columns of ``rows``.
    """
    if expectation.nature == "row":
        return rows.where(fails(expectation, types_of(rows)))
    groups, names = repeated(expectation, rows, whole)
    pairs = zip(expectation.columns, names, strict=True)
    same = reduce(and_, [F.col(quote(c)).eqNullSafe(F.col(n)) for c, n in pairs], F.lit(True))
    return rows.join(groups.where(F.col("n") > 1).drop("n"), same, "left_semi")
