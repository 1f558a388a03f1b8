"""Kedro datasets: the only place where Kedro meets storage."""

from kedro_lakehouse.datasets.column_index import (
    ColumnSignaturesDataset,
    ColumnStudiesDataset,
    ColumnTablesDataset,
)
from kedro_lakehouse.datasets.landing import LandingDataset
from kedro_lakehouse.datasets.pending import PendingDataset
from kedro_lakehouse.datasets.published import PublishedDataset
from kedro_lakehouse.datasets.record import ChangesDataset, QuarantineDataset
from kedro_lakehouse.datasets.table import TableDataset
from kedro_lakehouse.datasets.trim import RetentionDataset

__all__ = [
    "ChangesDataset",
    "ColumnSignaturesDataset",
    "ColumnStudiesDataset",
    "ColumnTablesDataset",
    "LandingDataset",
    "PendingDataset",
    "PublishedDataset",
    "QuarantineDataset",
    "RetentionDataset",
    "TableDataset",
]
