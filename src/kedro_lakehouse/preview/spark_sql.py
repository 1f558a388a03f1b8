"""The SQL of all declarations, as Spark's own parser and analyser see it; this starts a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.names import TableName
from kedro_lakehouse.preview.mistakes import Mistake, at, of_error
from kedro_lakehouse.session.query import first_line, mistake_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kedro_lakehouse.ingestion.derived import QueryReader
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

_REMEDY = "Correct it; Spark's reference of SQL lists what it knows."


def refused_by_spark(project: Project) -> list[Mistake]:
    """What Spark refuses: of stored tables by their columns and types, of others by its grammar alone."""
    found = list[Mistake]()
    for name, config in project.declarations.tables.items():
        table = project.bind(name)
        if config.checks:
            found += _wrong_checks(project, table)
        if config.derive is not None:
            found += _wrong_query(project, table, config.derive.sql)
    return found


def _wrong_checks(project: Project, table: LakeTable) -> Iterator[Mistake]:
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    state = table.state("changes")
    fields = [T.StructField(name, kind) for name, kind in (state.columns if state else {}).items()]
    rows = table.session.createDataFrame([], T.StructType(fields))
    for name, text in table.config.checks.items():
        key, said = f"{table}.checks.{name}", _not_parsed(table.session, text)
        try:
            if said is None and state is not None:
                rows.select(~F.expr(f"({text})"))
        except (AnalysisException, ParseException) as error:
            said = first_line(error)
        if said is not None:
            yield at(project, "tables.yml", key, f"Spark refuses the condition: {said}", _REMEDY)


def _not_parsed(session: SparkSession, text: str) -> str | None:
    from pyspark.errors import ParseException

    try:
        session._jsparkSession.sessionState().sqlParser().parseExpression(text)
    except ParseException as error:
        return first_line(error)
    return None


def _wrong_query(project: Project, table: LakeTable, query: str) -> Iterator[Mistake]:
    key, derive = f"{table}.derive.sql", table.config.derive
    if said := mistake_in(table.session, query.strip().rstrip(";")):
        yield at(project, "tables.yml", key, f"Spark refuses the query: {said}", _REMEDY)
        return
    inputs = [table.bind(TableName.parse(name)) for name in (derive.inputs if derive else {}).values()]
    if any(one.state("current") is None for one in inputs):
        return  # their columns are not known yet
    try:
        cast("QueryReader", planner_of(table).reader).analysed()
    except LakehouseError as error:
        yield of_error(project, error, "tables.yml", key)
