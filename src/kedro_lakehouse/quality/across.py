"""Referential integrity: rows of one table whose values no row of another has."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.names import quote
from kedro_lakehouse.quality.results import Result, of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.expectations import SuiteExpectationConfig


def answer_reference(expectation: SuiteExpectationConfig, rows: DataFrame, other: DataFrame) -> Result:
    """Count the rows whose values are not among those of the other table; one Spark action.

    As in SQL's foreign keys a row with a null among the values refers to nothing, and is not counted.

    Schema:
        rows: ``column_list``; other: ``other_column_list``, by default the same names.
    """
    here = expectation.column_list
    there = expectation.other_column_list or here
    names = [f"v{i}" for i in range(len(here))]
    complete = reduce(and_, [F.col(quote(name)).isNotNull() for name in here], F.lit(True))
    refers = rows.where(complete).select(
        *[F.col(quote(c)).alias(n) for c, n in zip(here, names, strict=True)]
    )
    known = other.select(*[F.col(quote(c)).alias(n) for c, n in zip(there, names, strict=True)]).distinct()
    found = (
        refers.groupBy(*names)
        .agg(F.count(F.lit(1)).alias("n"))
        .join(known.withColumn("known", F.lit(True)), names, "left")
        .agg(
            F.coalesce(F.sum("n"), F.lit(0)).alias("elements"),
            F.coalesce(F.sum(F.when(F.col("known").isNull(), F.col("n"))), F.lit(0)).alias("unexpected"),
        )
        .collect()[0]
    )
    return of_rows(expectation, found["elements"], found["unexpected"])
