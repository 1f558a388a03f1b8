"""Answer a query by Spark: every format, and the views beside histories."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import CATALOG, ROLES, SPARK_CATALOG
from kedro_lakehouse.ops.failures import files_went, message_of
from kedro_lakehouse.query.answer import READINGS, Answer, files_went_each_time
from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.query.lake import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.formats.base import Capabilities
    from kedro_lakehouse.project import Project

_T = TypeVar("_T")
_TEXTS: Final = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


def spark_batches(project: Project, text: str, *, limit: int | None) -> pa.RecordBatchReader:
    """The same answer as Arrow's batches, one row more than ``limit`` where there are more."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    def taken(frame: Any) -> list[pa.RecordBatch]:
        first = frame if limit is None else frame.limit(limit + 1)
        batches: list[pa.RecordBatch] = first._collect_as_arrow()  # noqa: SLF001 - Spark 3.5 lacks ``toArrow``
        return batches

    frame, found = _asked(project, text, taken)
    schema = found[0].schema if found else to_arrow_schema(frame.schema)
    return pa.RecordBatchReader.from_batches(schema, found)


def _frame(project: Project, text: str) -> DataFrame:
    """The answer as a lazy frame."""
    from kedro_lakehouse.session.query import answer

    usual = _catalog_of(project.capabilities(project.default_format))
    named = _register(project)
    elsewhere = {name: whole for name, whole in named.items() if not whole.startswith(f"{usual}.")}
    asked = _with_archives(project, text)
    return answer(project.spark_conf, asked, catalog=usual, elsewhere=elsewhere, known=sorted(named))


def _asked(project: Project, text: str, take: Callable[[DataFrame], list[_T]]) -> tuple[DataFrame, list[_T]]:
    """The answer as a lazy frame, and what is taken of it; asked again where files went meanwhile."""

    def once() -> tuple[DataFrame, list[_T]]:
        frame = _frame(project, text)
        return frame, take(frame)

    with _gives_up():
        for _ in range(READINGS - 1):
            try:
                return once()
            except Exception as error:
                if not files_went(error):
                    raise
        return once()


@contextmanager
def _gives_up() -> Iterator[None]:
    """Turn what Spark says while it runs a query into an error of it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if files_went(error):
            raise files_went_each_time() from error
        raise QueryError(
            problem=f"Spark gave up while it ran the query: {message_of(error)}.",
            remedy="A value may not fit its type: try_cast gives NULL where cast fails.",
        ) from error


def spark_answer(project: Project, text: str, *, limit: int | None) -> Answer:
    """Answer one query over the tables as they are now. Starts Spark.

    Raises:
        UnsupportedError: It is not one query that only reads, or Spark cannot understand it.
        QueryError: It fails while it runs.
    """
    from pyspark.sql import types as T

    frame, rows = _asked(project, text, lambda f: f.collect() if limit is None else f.take(limit + 1))
    fields = frame.schema.fields
    numeric = [f.name for f in fields if isinstance(f.dataType, T.NumericType)]
    values = [[_zoned(v, f.dataType) for v, f in zip(row, fields, strict=True)] for row in rows]
    cut = limit is not None and len(values) > limit
    return Answer(columns=[f.name for f in fields], numbers=numeric, rows=values[:limit], cut=cut)


def _register(project: Project) -> dict[str, str]:
    """Give the tables and views of other formats than Iceberg the names that the query may use.

    Returns:
        For the name ``ns.table`` of each table and view, also one that is not there yet, its whole name.
    """
    from kedro_lakehouse.commits.history_view import ensure_view
    from kedro_lakehouse.formats.view import view_name

    found: dict[str, str] = {}
    for name, config in project.declarations.tables.items():
        table = project.bind(name)
        names = [str(table.stored(role)) for role in ROLES]
        if config.history and config.history.view:
            names.append(str(view_name(name, config.history.view)))
        found |= {n: f"{_catalog_of(table.format.capabilities)}.{n}" for n in names}
        if table.in_catalog:
            continue
        for role in ROLES:
            if table.state(role) is not None:
                table.format.sql(table.stored(role))
        ensure_view(table)
    return found


def _with_archives(project: Project, text: str) -> str:
    """The query with the views that show a table with its archive, where it names such: they are made now."""
    from kedro_lakehouse.operations.lifetimes import rows_of_both

    for whole, (name, _) in together(project).items():
        view = f"{name.namespace}__{name.table}_all"
        prefix = rf"(?:`?(?:{CATALOG}|{SPARK_CATALOG})`?\.)?"
        path = rf"{prefix}`?{name.namespace}`?\.`?{name.table}_all`?"
        named = re.compile(rf"(?<![\w.`]){path}(?![\w`])", re.IGNORECASE)
        parts = _TEXTS.split(text)  # every other part is a text in quotes, which names no table
        replaced = [named.sub(f"global_temp.{view}", p) if i % 2 == 0 else p for i, p in enumerate(parts)]
        if replaced == parts:
            continue
        table = project.bind(name)
        if table.state("current") is None:
            raise UnsupportedError(
                what=f"The table '{whole}' holds nothing yet.",
                remedy="Run `kedro run` after its files have landed.",
            )
        rows_of_both(table).createOrReplaceGlobalTempView(view)
        text = "".join(replaced)
    return text


def _catalog_of(capabilities: Capabilities) -> str:
    return CATALOG if capabilities.in_catalog else SPARK_CATALOG


def _zoned(value: Any, kind: T.DataType) -> Any:
    """A value as the other engine gives it: Spark's rows are dicts, its times are UTC, not the machine's."""
    from pyspark.sql import types as T

    if value is None:
        return None
    if isinstance(kind, T.TimestampType) and isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(kind, T.StructType):
        return {f.name: _zoned(v, f.dataType) for v, f in zip(value, kind.fields, strict=True)}
    if isinstance(kind, T.ArrayType):
        return [_zoned(v, kind.elementType) for v in value]
    if isinstance(kind, T.MapType):
        return {_zoned(k, kind.keyType): _zoned(v, kind.valueType) for k, v in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value
