"""What an expectations validator does with a Spark frame: validate it, and quarantine failing rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.validation import CheckFailure, DataValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import all_of
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.names import OWN_FORMAT
from kedro_lakehouse.project import active_project
from kedro_lakehouse.quality.answers import ANSWERED, OF_ROWS, answer, failing_rows
from kedro_lakehouse.quality.conditions import fails, require_columns, types_of
from kedro_lakehouse.quality.engine import answer_by_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.quality.results import Result


def complying(
    data: object, expectations: Sequence[ExpectationConfig], quarantine: TableName | None
) -> DataFrame:
    """Return the rows of a frame that comply; write the others to the quarantine table, if one is given.

    Raises:
        DataValidationError: Expectations fail, and no quarantine takes the rows; it holds no row value.
        MissingColumnError: An expectation names a column that the frame does not have.
        UnsupportedError: The data is no Spark frame.
    """
    if not isinstance(data, DataFrame):
        raise UnsupportedError(
            what=f"A validator of Spark frames was given a {type(data).__name__}.",
            remedy="Declare it on a dataset that gives a Spark frame.",
        )
    require_columns("validated", expectations, data.columns)
    answered = [e for e in expectations if e.nature in ANSWERED]
    results = answer(answered, data)
    results += answer_by_engine([e for e in expectations if e.nature == "engine"], data)
    failed = [r for r in results if not r.success]
    if not failed:
        return data
    if quarantine is None or any(r.expectation.nature not in OF_ROWS for r in failed):
        raise DataValidationError("; ".join(map(_message, failed)), failures=[_failure(r) for r in failed])
    return _set_aside(quarantine, data, [r.expectation for r in failed])


def _set_aside(quarantine: TableName, data: DataFrame, failed: Sequence[ExpectationConfig]) -> DataFrame:
    """Replace the rows of the quarantine table by the failing rows, and return the other rows."""
    reasons, marked = _mark(data, failed)
    lake = active_project().format(OWN_FORMAT)
    lake.create(quarantine, {"_reasons": T.ArrayType(T.StringType()), "_raw": T.StringType()}, Layout())
    bad = marked.where(F.size(reasons) > 0)
    raw = F.to_json(F.struct(*[F.col(f"`{c}`") for c in data.columns]))
    bad.select(reasons.alias("_reasons"), raw.alias("_raw")).writeTo(quarantine.sql).overwrite(F.lit(True))
    return marked.where(F.size(reasons) == 0).select(*[F.col(f"`{c}`") for c in data.columns])


def _mark(data: DataFrame, failed: Sequence[ExpectationConfig]) -> tuple[Column, DataFrame]:
    """A column with the expectations that a row fails, and the frame to which the column belongs."""
    titles, types = [], types_of(data)
    for number, expectation in enumerate(failed):
        if expectation.nature == "row":
            titles.append(F.when(fails(expectation, types), F.lit(expectation.title)))
            continue
        mark = f"__shared{number}"
        groups = failing_rows(expectation, data).select(*[F.col(f"`{c}`") for c in expectation.columns])
        values = groups.distinct().withColumn(mark, F.lit(True))
        values = values.select(
            *[F.col(f"`{c}`").alias(f"{mark}_{i}") for i, c in enumerate(expectation.columns)], mark
        )
        same = all_of(
            F.col(f"`{c}`").eqNullSafe(F.col(f"{mark}_{i}")) for i, c in enumerate(expectation.columns)
        )
        data = data.join(values, same, "left")
        titles.append(F.when(F.col(mark), F.lit(expectation.title)))
    return F.filter(F.array(*titles), lambda reason: reason.isNotNull()), data


def _message(result: Result) -> str:
    if result.unexpected is None:
        return f"{result.expectation.title} fails"
    return f"{result.unexpected} of {result.elements} rows fail {result.expectation.title}"


def _failure(result: Result) -> CheckFailure:
    """A failed check as Kedro reports it, without examples, which would be row values."""
    return CheckFailure(
        message=_message(result),
        check=result.expectation.type,
        column=result.expectation.column,
        failure_count=result.unexpected or 0,
    )
