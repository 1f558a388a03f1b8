"""Sources that cannot be reached: folders that are not there; where asked, also streams and databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.sources import StreamSourceConfig
from kedro_lakehouse.errors import SourceNotFoundError, SourceUnreachableError
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.ingestion.pulling import pulls_of
from kedro_lakehouse.ops.failures import known
from kedro_lakehouse.preview.known_columns import is_local
from kedro_lakehouse.preview.mistakes import Mistake, at, of_error
from kedro_lakehouse.pulls.errors import SourceFault

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

_AT_ONCE: Final = 8


def unreachable_places(project: Project, *, reach: bool) -> list[Mistake]:
    """A mistake for each table whose source cannot be asked; other machines are asked only if ``reach``."""
    tables = [project.bind(name) for name, one in project.declarations.tables.items() if one.source]
    asked = [one for one in tables if one.declared_source is not None and (reach or is_local(one))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(partial(_mistake, project), asked))
    return list(dict.fromkeys(one for one in found if one is not None))


def unreachable_catalog(project: Project) -> list[Mistake]:
    """A mistake if the catalog of tables cannot be asked."""
    name = next(iter(project.declarations.tables), None)
    try:
        if name is not None:
            project.catalog.find(name)
    except Exception as error:  # noqa: BLE001 - what the client of a service raises is not known here
        key = "spark.sql.catalog.lake.type"
        if found := known(error, project.catalog.place):
            return [of_error(project, found, "spark.yml", key)]
        problem = f"the catalog of tables cannot be asked ({type(error).__name__})."
        return [at(project, "spark.yml", key, problem, "Look at its address and credentials, and at it.")]
    return []


def _mistake(project: Project, table: LakeTable) -> Mistake | None:
    try:
        _ask(table)
    except SourceNotFoundError as error:
        return _lacking(project, table, error)
    except SourceUnreachableError as error:
        return _silent(project, table, f"{error.place}: {error.detail}")
    except Exception as error:  # noqa: BLE001 - what the client of a service raises is not known here
        found = known(error, "")
        if found is None:
            return _silent(project, table, type(error).__name__)
        if getattr(found, "file", "") != "credentials.yml":  # else it is told of the entry itself
            return of_error(project, found, "tables.yml", f"{table}.source")
    return None


def _silent(project: Project, table: LakeTable, said: str) -> Mistake:
    """One mistake of a source that does not answer, however many tables it has."""
    problem = f"it cannot be asked ({said})."
    remedy = "Look at its address and credentials, and at it."
    return at(project, "sources.yml", str(table.config.source), problem, remedy)


def _ask(table: LakeTable) -> None:
    if table.is_pulled:
        pulls, source = pulls_of(table), table.open_pulled()
        try:
            source.describe()
        except SourceFault as fault:
            raise pulls.explained(fault) from fault
        finally:
            source.close()
    elif isinstance(table.source_config, StreamSourceConfig):
        planner_of(table).waiting()
    else:
        table.open_source().files()


def _lacking(project: Project, table: LakeTable, error: SourceNotFoundError) -> Mistake:
    """One mistake of the source where its own folder is not there, else one of the table."""
    source, root = str(table.config.source), table.source_config.path
    if is_local(table) and not Path(root).is_dir():
        problem = f"there is no folder {root}."
        return at(project, "sources.yml", f"{source}.path", problem, "Create it, or correct the path.")
    return of_error(project, error, "tables.yml", f"{table}.entity")
