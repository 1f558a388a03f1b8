"""A validator for any catalog entry whose data is a Spark frame: Kedro's ``validator:``, with quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.config.expectations import ExpectationConfig
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame


class ExpectationsValidator:
    """Validates a Spark frame by expectations, before it is saved or after it is loaded.

    Without ``quarantine`` a failing expectation fails the dataset (with Kedro's ``severity: warn`` it is only
    reported). With it, rows that fail are written to that table of the lake, with the expectations that they
    fail, and the rows that pass are returned; an expectation that no single row can fail still fails the
    dataset. The quarantine table holds the failing rows of the last validation: validating the same data
    twice leaves it as it is.

    Example:
        In catalog.yml::

            orders:
              type: spark.SparkDatasetV2
              filepath: data/01_raw/orders.parquet
              file_format: parquet
              validator:
                class: kedro_lakehouse.datasets.ExpectationsValidator
                on: load
                options:
                  expectations:
                    - {type: expect_column_values_to_not_be_null, column: id}
                  quarantine: staging.orders_failed
    """

    def __init__(self, *, expectations: Sequence[Mapping[str, Any]], quarantine: str | None = None) -> None:
        """Check the expectations; nothing is read.

        Raises:
            ValueError: An expectation is not valid, or needs a table of the lake.
        """
        self._expectations = [ExpectationConfig.model_validate(dict(e)) for e in expectations]
        self._quarantine = TableName.parse(quarantine) if quarantine else None
        from kedro_lakehouse.quality.answers import ANSWERED

        answered = {*ANSWERED, "engine"}
        if beyond := [e.type for e in self._expectations if e.nature not in answered]:
            raise ValueError(f"{beyond[0]} needs a table of the lake; declare it in tables.yml.")

    def validate(self, data: DataFrame) -> DataFrame:
        """The rows that comply.

        Raises:
            DataValidationError: Expectations fail, and no quarantine takes the rows; it holds no row value.
            MissingColumnError: An expectation names a column that the frame does not have.
            UnsupportedError: The data is no Spark frame.
        """
        from kedro_lakehouse.datasets.validation import complying

        return complying(data, self._expectations, self._quarantine)
