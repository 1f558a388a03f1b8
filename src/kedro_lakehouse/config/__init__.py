"""Declarations of sources.yml and tables.yml, as frozen typed models.

Here are the models that plug-ins subclass or fill in; all others are in the modules.
"""

from kedro_lakehouse.config.base import Declaration
from kedro_lakehouse.config.sources import (
    CsvOptions,
    DmsSourceConfig,
    ExtractTime,
    FileSourceConfig,
    SourceConfig,
)
from kedro_lakehouse.config.tables import TableConfig

__all__ = [
    "CsvOptions",
    "Declaration",
    "DmsSourceConfig",
    "ExtractTime",
    "FileSourceConfig",
    "SourceConfig",
    "TableConfig",
]
