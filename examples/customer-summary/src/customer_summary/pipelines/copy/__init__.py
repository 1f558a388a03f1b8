"""Copy the summary to parquet, once it is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def own_columns(summary: DataFrame) -> DataFrame:
    """The rows without the columns of the framework."""
    return summary.select("customer_id", "name", "order_count")


def create_pipeline() -> Pipeline:
    """One node, which runs after the commit of the summary's current table."""
    return Pipeline(
        [
            Node(
                own_columns,
                "salesdb.customer_summary.current",
                "customer_summary_parquet",
                name="copy_customer_summary",
            )
        ]
    )
