"""Declarations of sources.yml and tables.yml, as frozen typed models."""

from kedro_lakehouse.config.base import Declaration, refuse
from kedro_lakehouse.config.columns import ColumnIndexConfig, EvaluationConfig, EvaluationThresholds
from kedro_lakehouse.config.expectations import ExpectationConfig, SuiteConfig, SuiteExpectationConfig
from kedro_lakehouse.config.history import ColumnChoice, HistoryConfig, HistoryViewConfig, ValidFromConfig
from kedro_lakehouse.config.loading import Declarations, load_declarations
from kedro_lakehouse.config.sources import (
    ChangesSourceConfig,
    CsvByLoad,
    CsvOptions,
    DebeziumSourceConfig,
    DmsSourceConfig,
    ExtractSourceConfig,
    ExtractTime,
    FileSourceConfig,
    SourceConfig,
)
from kedro_lakehouse.config.tables import DeriveConfig, TableConfig

__all__ = [
    "ChangesSourceConfig",
    "ColumnChoice",
    "ColumnIndexConfig",
    "CsvByLoad",
    "CsvOptions",
    "DebeziumSourceConfig",
    "Declaration",
    "Declarations",
    "DeriveConfig",
    "DmsSourceConfig",
    "EvaluationConfig",
    "EvaluationThresholds",
    "ExpectationConfig",
    "ExtractSourceConfig",
    "ExtractTime",
    "FileSourceConfig",
    "HistoryConfig",
    "HistoryViewConfig",
    "SourceConfig",
    "SuiteConfig",
    "SuiteExpectationConfig",
    "TableConfig",
    "ValidFromConfig",
    "load_declarations",
    "refuse",
]
