"""Declarations of sources.yml and tables.yml, as frozen typed models."""

from kedro_lakehouse.config.base import Declaration, refuse
from kedro_lakehouse.config.loading import Declarations, load_declarations
from kedro_lakehouse.config.sources import (
    CsvByLoad,
    CsvOptions,
    DmsSourceConfig,
    ExtractSourceConfig,
    ExtractTime,
    FileSourceConfig,
    SourceConfig,
)
from kedro_lakehouse.config.tables import ColumnChoice, HistoryConfig, TableConfig

__all__ = [
    "ColumnChoice",
    "CsvByLoad",
    "CsvOptions",
    "Declaration",
    "Declarations",
    "DmsSourceConfig",
    "ExtractSourceConfig",
    "ExtractTime",
    "FileSourceConfig",
    "HistoryConfig",
    "SourceConfig",
    "TableConfig",
    "load_declarations",
    "refuse",
]
