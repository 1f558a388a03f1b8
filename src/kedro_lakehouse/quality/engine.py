"""Great Expectations: its Spark engine for what no aggregation answers, and the suite as its objects."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.quality.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.expectations import ExpectationConfig


def great_expectations() -> Any:
    """Import Great Expectations, which takes seconds, without its telemetry and progress bars.

    Raises:
        UnsupportedError: It is not installed.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    try:
        import great_expectations as gx
    except ImportError as error:
        raise UnsupportedError(
            what="Great Expectations is not installed.",
            remedy="Install the extra: `pip install 'kedro-lakehouse[quality]'`.",
        ) from error
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return gx


def answer_by_engine(expectations: Sequence[ExpectationConfig], rows: DataFrame) -> list[Result]:
    """Let Great Expectations validate a frame; in the order of the expectations.

    Only verdicts and counts are kept of what it returns: its observed values may be values of rows.
    """
    if not expectations:
        return []
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    # Its default keeps the whole frame in memory.
    source = context.data_sources.add_spark("lake", persist=False)
    batches = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("whole")
    batch = batches.get_batch(batch_parameters={"dataframe": rows})
    found = []
    for expectation in expectations:
        kwargs = {k: v for k, v in expectation.kwargs.items() if v is not None}
        judged = batch.validate(native(gx, expectation.type, kwargs), result_format="BASIC")
        if judged.exception_info.get("raised_exception") or any(
            isinstance(v, dict) and v.get("raised_exception") for v in judged.exception_info.values()
        ):
            raise UnsupportedError(
                what=f"Great Expectations cannot judge {expectation.title}.",
                remedy="Check its columns and their types.",
            )
        found.append(_result(expectation, judged.success, judged.result))
    return found


def native(gx: Any, kind: str, kwargs: dict[str, Any]) -> Any:
    """An expectation as Great Expectations' own object."""
    words = "".join(part.capitalize() for part in kind.split("_"))
    return getattr(gx.expectations, words)(**kwargs)


def _result(expectation: ExpectationConfig, success: bool, told: dict[str, Any]) -> Result:  # noqa: FBT001
    return Result(
        expectation=expectation, success=bool(success), engine="great_expectations",
        elements=told.get("element_count"), unexpected=told.get("unexpected_count"),
    )  # fmt: skip
