"""Kedro datasets: the only place where Kedro meets storage.

The dataset classes import Spark when they load or save, not before: a catalog is built, drawn and previewed
without it. The work of loads and saves is done by other packages, such as ``ingestion``, ``commits`` and
``operations``.
"""

from kedro_lakehouse.datasets.changes import ChangesDataset, QuarantineDataset
from kedro_lakehouse.datasets.column_index import (
    ColumnSignaturesDataset,
    ColumnStudiesDataset,
    ColumnTablesDataset,
)
from kedro_lakehouse.datasets.data_docs import DataDocsDataset, QualityResultsDataset
from kedro_lakehouse.datasets.discovery import (
    DiscoveredDataset,
    DiscoveryReportDataset,
    FoundDatasetsDataset,
    KnownDatasetsDataset,
    RegisteredTablesDataset,
)
from kedro_lakehouse.datasets.erasure import ErasureDataset, ErasureRequestsDataset
from kedro_lakehouse.datasets.landing import LandingDataset
from kedro_lakehouse.datasets.maintenance import ConvertedDataset, MaintenanceDataset, RetentionDataset
from kedro_lakehouse.datasets.quality import (
    FreshnessDataset,
    LastCommitAgeDataset,
    QualityDataset,
    SuiteQualityDataset,
    SuiteTablesDataset,
    UnvalidatedDataset,
)
from kedro_lakehouse.datasets.table import PendingDataset, PublishedDataset, TableDataset
from kedro_lakehouse.datasets.validator import ExpectationsValidator

UnjudgedDataset, AgeDataset = UnvalidatedDataset, LastCommitAgeDataset  # their former names, for catalogs

__all__ = [
    "AgeDataset",
    "ChangesDataset",
    "ColumnSignaturesDataset",
    "ColumnStudiesDataset",
    "ColumnTablesDataset",
    "ConvertedDataset",
    "DataDocsDataset",
    "DiscoveredDataset",
    "DiscoveryReportDataset",
    "ErasureDataset",
    "ErasureRequestsDataset",
    "ExpectationsValidator",
    "FoundDatasetsDataset",
    "FreshnessDataset",
    "KnownDatasetsDataset",
    "LandingDataset",
    "LastCommitAgeDataset",
    "MaintenanceDataset",
    "PendingDataset",
    "PublishedDataset",
    "QualityDataset",
    "QualityResultsDataset",
    "QuarantineDataset",
    "RegisteredTablesDataset",
    "RetentionDataset",
    "SuiteQualityDataset",
    "SuiteTablesDataset",
    "TableDataset",
    "UnjudgedDataset",
    "UnvalidatedDataset",
]
