"""Great Expectations' Spark engine, for the expectations that no aggregation answers."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import UnsupportedError, require
from kedro_lakehouse.quality.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.expectations import ExpectationConfig


_NUMBER: Final = "number"


def great_expectations() -> Any:
    """Import Great Expectations, which takes seconds, without its telemetry and progress bars.

    Raises:
        UnsupportedError: It is not installed.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    what = "This needs Great Expectations"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own deprecated parts, not ours
        gx = require("great_expectations", what=what, install="'kedro-lakehouse[quality]'")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return gx


def answer_by_engine(expectations: Sequence[ExpectationConfig], rows: DataFrame) -> list[Result]:
    """Let Great Expectations validate a frame; in the order of the expectations.

    Of its results only success and counts are used: its observed values may be values of rows.
    """
    if not expectations:
        return []
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    # By default it caches the whole frame.
    source = context.data_sources.add_spark("lake", persist=False)
    batches = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("whole")
    batch = batches.get_batch(batch_parameters={"dataframe": rows})
    suite = gx.ExpectationSuite(name="declared")
    for number, expectation in enumerate(expectations):
        name = "".join(part.capitalize() for part in expectation.type.split("_"))
        native = getattr(gx.expectations, name)
        suite.add_expectation(native(**expectation.kwargs, meta={_NUMBER: number}))
    outcome = batch.validate(suite, result_format="BASIC")
    by_number = {r.expectation_config.meta[_NUMBER]: r for r in outcome.results}
    return [_result(e, by_number[i]) for i, e in enumerate(expectations)]


def _result(expectation: ExpectationConfig, outcome: Any) -> Result:
    exception = outcome.exception_info
    raised = [exception, *(v for v in exception.values() if isinstance(v, dict))]
    if any(one.get("raised_exception") for one in raised):
        raise UnsupportedError(
            what=f"Great Expectations cannot validate {expectation.title}.",
            remedy="Check its columns and their types.",
        )
    return Result(
        expectation=expectation,
        success=bool(outcome.success),
        engine="great_expectations",
        elements=outcome.result.get("element_count"),
        unexpected=outcome.result.get("unexpected_count"),
    )
