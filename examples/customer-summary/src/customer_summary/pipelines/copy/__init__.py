"""Copy the summary to parquet, once it is published."""

from __future__ import annotations

from typing import Any

from kedro.pipeline import Node, Pipeline


def own_columns(summary: Any) -> Any:
    """The rows of Spark's frame without the columns of the framework, as a frame of pandas."""
    return summary.select("customer_id", "name", "order_count").toPandas()


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
