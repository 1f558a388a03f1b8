"""Kedro datasets: the only place where Kedro meets storage.

The dataset classes import Spark when they load or save, not before: a catalog is built, drawn and previewed
without it. What loads and saves do stands in the modules beside them.
"""

from kedro_lakehouse.datasets.column_index import (
    ColumnSignaturesDataset,
    ColumnStudiesDataset,
    ColumnTablesDataset,
)
from kedro_lakehouse.datasets.convert import ConvertedDataset
from kedro_lakehouse.datasets.data_docs import DataDocsDataset, QualityResultsDataset
from kedro_lakehouse.datasets.freshness import AgeDataset, FreshnessDataset
from kedro_lakehouse.datasets.judged import QualityDataset, UnjudgedDataset
from kedro_lakehouse.datasets.landing import LandingDataset
from kedro_lakehouse.datasets.maintenance import MaintenanceDataset
from kedro_lakehouse.datasets.pending import PendingDataset
from kedro_lakehouse.datasets.published import PublishedDataset
from kedro_lakehouse.datasets.record import ChangesDataset, QuarantineDataset
from kedro_lakehouse.datasets.retention import RetentionDataset
from kedro_lakehouse.datasets.suites import SuiteQualityDataset, SuiteTablesDataset
from kedro_lakehouse.datasets.table import TableDataset
from kedro_lakehouse.datasets.validator import ExpectationsValidator

__all__ = [
    "AgeDataset",
    "ChangesDataset",
    "ColumnSignaturesDataset",
    "ColumnStudiesDataset",
    "ColumnTablesDataset",
    "ConvertedDataset",
    "DataDocsDataset",
    "ExpectationsValidator",
    "FreshnessDataset",
    "LandingDataset",
    "MaintenanceDataset",
    "PendingDataset",
    "PublishedDataset",
    "QualityDataset",
    "QualityResultsDataset",
    "QuarantineDataset",
    "RetentionDataset",
    "SuiteQualityDataset",
    "SuiteTablesDataset",
    "TableDataset",
    "UnjudgedDataset",
]
