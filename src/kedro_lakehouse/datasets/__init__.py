"""Kedro datasets: the only place where Kedro meets storage.

The dataset classes import Spark when they load or save, not before: a catalog is built, drawn and previewed
without it. What loads and saves do stands in the modules beside them.
"""

from kedro_lakehouse.datasets.landing import LandingDataset
from kedro_lakehouse.datasets.pending import PendingDataset
from kedro_lakehouse.datasets.published import PublishedDataset
from kedro_lakehouse.datasets.record import ChangesDataset, QuarantineDataset
from kedro_lakehouse.datasets.retention import RetentionDataset
from kedro_lakehouse.datasets.table import TableDataset

__all__ = [
    "ChangesDataset",
    "LandingDataset",
    "PendingDataset",
    "PublishedDataset",
    "QuarantineDataset",
    "RetentionDataset",
    "TableDataset",
]
