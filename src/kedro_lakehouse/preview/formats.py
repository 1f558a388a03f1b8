"""Tables that this environment cannot write as they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.errors import LakehouseError, SparkLineError, UnknownPluginError
from kedro_lakehouse.preview.mistakes import Mistake, at, of_error
from kedro_lakehouse.session.catalog import catalog_properties

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project


def unwritable_tables(project: Project) -> list[Mistake]:
    """A mistake for each format that the environment does not load, and for what a format cannot hold."""
    found, refused = list[Mistake](), set[str]()
    try:
        catalog_properties(project.spark_conf)
    except LakehouseError as error:
        found.append(of_error(project, error, "spark.yml", "spark.sql.catalog.lake.type"))
    for name in project.declarations.tables:
        table = project.bind(name)
        key = f"{name}.format" if table.config.format else str(name)
        try:
            project.format(table.format_name)
        except UnknownPluginError:
            continue  # it was found while the declarations were read
        except SparkLineError as error:
            return [of_error(project, error, "spark.yml", "spark.kedro_lakehouse.line")]
        except LakehouseError as error:
            if table.format_name not in refused:
                found.append(of_error(project, error, "tables.yml", key))
            refused.add(table.format_name)
            continue
        found += _beyond(project, table, key)
    return found


def _is_whole(project: Project, table: LakeTable) -> bool:
    """Whether the source, or all tables that the table is made from, are declared as they should."""
    declared = {str(name) for name in project.declarations.tables}
    has_origin = table.declared_source is not None or table.config.derive is not None
    return has_origin and declared.issuperset(table.config.tables_read)


def _beyond(project: Project, table: LakeTable, key: str) -> list[Mistake]:
    """What the planner of a run refuses, beyond the format itself."""
    from kedro_lakehouse.ingestion.landing import planner_of

    try:
        _ = table.format
        if _is_whole(project, table):
            planner_of(table)
            if table.is_pulled:
                table.open_pulled()
    except LakehouseError as error:
        if getattr(error, "file", "") == "credentials.yml":
            return []
        return [of_error(project, error, "tables.yml", key)]
    except ImportError as error:
        problem = f"the package {error.name} is not installed, which its source needs."
        remedy = "Install the extra of its type of source: see docs/index.md."
        return [at(project, "tables.yml", f"{table}.source", problem, remedy)]
    return []
