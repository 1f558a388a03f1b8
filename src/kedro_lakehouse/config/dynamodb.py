"""Declaration of a source of type dynamodb: tables of Amazon DynamoDB, pulled whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from kedro_lakehouse.config.base import Name  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.sources import TableProblem

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig


class DynamoSourceConfig(PulledSourceConfig):
    """Tables of Amazon DynamoDB; a table's `entity` is its name there.

    `credentials` may hold arguments of boto3's client, such as `endpoint_url`; default: those of the machine
    or the job.
    """

    lands: ClassVar[Literal["parquet", "json"]] = "json"

    region: Name | None = None
    """Region of AWS; default: that of the machine or the job."""
    page: int = Field(1_000, ge=1)
    """Most items that one answer holds; DynamoDB itself ends each at 1 MB."""

    def place_of(self, table: TableConfig) -> str:
        """The region, where it is declared, and the table."""
        return f"dynamodb://{self.region or 'default'}/{table.entity}"

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """Items have no time of their change."""
        if self.mode_of(table) == "incremental":
            return TableProblem(
                key="pull.mode",
                problem="DynamoDB does not tell when an item was last changed.",
                remedy="Use `full`, or follow its stream by a source of type kinesis.",
            )
        return super().table_problem(table)
