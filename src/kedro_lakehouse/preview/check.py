"""Check a project: every mistake in all of its files at once, without a JVM and without writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kedro_lakehouse.preview.credentials import missing_credentials
from kedro_lakehouse.preview.formats import unwritable_tables
from kedro_lakehouse.preview.mistakes import Mistake, placed
from kedro_lakehouse.preview.places import unreachable_catalog, unreachable_places
from kedro_lakehouse.preview.sql import wrong_sql
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What was looked at, and all that is wrong of it, by file and line."""

    environment: str
    mistakes: Sequence[Mistake]
    tables: int
    sources: int
    queries: int
    """How many conditions and queries in SQL were parsed."""


def check_project(
    conf_source: str, env: str | None, *, reach: bool = False, spark: bool = False
) -> tuple[Project, Checked]:
    """Look for mistakes in all files of an environment.

    Args:
        conf_source: The configuration's folder.
        env: The environment.
        reach: Whether streams, databases, services and buckets are asked too, not local folders alone.
        spark: Whether Spark's own parser and analyser look at the SQL too: that starts a JVM.

    Raises:
        ConfigurationError: There is no such environment.
    """
    project, wrong = Project.checked(conf_source, env)
    found = [placed(project, error) for error in wrong]
    found += missing_credentials(project)
    found += unwritable_tables(project)
    found += unreachable_places(project, reach=reach)
    of_catalog = unreachable_catalog(project) if reach else []
    found += of_catalog
    queries, of_sql = wrong_sql(project, reach=reach and not of_catalog)
    found += of_sql
    if spark:
        from kedro_lakehouse.preview.spark_sql import refused_by_spark

        # What sqlglot has found is said once.
        known = {(one.file, one.line) for one in of_sql}
        found += [one for one in refused_by_spark(project) if (one.file, one.line) not in known]
    declarations = project.declarations
    return project, Checked(
        environment=project.env,
        mistakes=sorted(dict.fromkeys(found)),
        tables=len(declarations.tables),
        sources=len(declarations.sources),
        queries=queries,
    )
