"""Declarations of convert.yml: plain files that become Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, refuse
from kedro_lakehouse.config.history import ColumnName  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.loading import entries, table_name
from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.config.tables import (  # noqa: TC001 - pydantic reads them at run time
    PartitionExpression,
    SparkType,
)
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import ROLES, TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kedro_lakehouse.config.sources import TableProblem

CONVERT_FILE: Final = "convert.yml"


class ConvertConfig(Declaration):
    """One Iceberg table that is made from files; files that come later are added by the next run."""

    path: Name
    """Folder of the files, with those below it."""
    pattern: Name = "*"
    """Pattern of the files' base names."""
    file_format: Literal["parquet", "csv"] = "parquet"
    """Format of the files."""
    mode: Literal["copy", "in_place"] = "copy"
    """Whether rows are written anew, or parquet files become the table's own where they lie: maintenance and
    `drop` may then delete them.
    """
    csv: CsvOptions = CsvOptions()
    """CSV options; a header is expected."""
    types: Mapping[ColumnName, SparkType] = {}
    """Spark type of CSV columns; the others are text."""
    partition_by: tuple[PartitionExpression, ...] = ()
    """Partitions, as in tables.yml."""
    sort_by: Names = ()
    """Columns that rows are sorted by within a file."""
    properties: Mapping[Name, str] = {}
    """Table properties in Iceberg's own words."""

    @model_validator(mode="after")
    def _in_place_is_possible(self) -> Self:
        if self.mode == "in_place" and self.file_format != "parquet":
            raise refuse("only parquet files can become part of a table", "Use 'copy'.", key="mode")
        if self.mode == "in_place" and self.sort_by:
            raise refuse("files that stay as they are cannot be sorted", "Use 'copy'.", key="sort_by")
        if self.mode == "in_place" and self.properties.get("format-version") == "3":
            problem = "files can be adopted by tables of version 2 only"
            raise refuse(problem, "Use 'copy', or version 2.", key="properties.format-version")
        return self


def load_conversions(
    raw: Mapping[str, Any],
    tables: Collection[TableName],
    property_problem: Callable[[str, str], TableProblem | None],
) -> Mapping[TableName, ConvertConfig]:
    """Return the checked content of a merged convert.yml, by table.

    Args:
        raw: What the file says, merged over the environments.
        tables: The tables that tables.yml declares: none of them can be converted.
        property_problem: What is wrong with a table property of the format of converted tables.

    Raises:
        ConfigurationError: Something is wrong in the file; the first such key is named.
    """
    taken = {str(t.with_suffix(role)) for t in tables for role in ROLES}
    found: dict[TableName, ConvertConfig] = {}
    for text, one in entries(raw, CONVERT_FILE).items():
        name = table_name(text, CONVERT_FILE)
        if text in taken:
            problem, remedy = "a table of tables.yml is stored under this name.", "Choose another name."
            raise ConfigurationError(file=CONVERT_FILE, key=text, problem=problem, remedy=remedy)
        found[name] = config = validated(ConvertConfig, one, CONVERT_FILE, text)
        for wrong in filter(None, starmap(property_problem, config.properties.items())):
            raise ConfigurationError(
                file=CONVERT_FILE, key=f"{text}.{wrong.key}", problem=wrong.problem, remedy=wrong.remedy
            )
    return found
