"""Pipeline ``maintenance``: single events are kept for a time only, and files are put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def keep_changes(changes: DataFrame) -> DataFrame:
    """Pass the record of changes on to its retention, whose save trims it."""
    return changes


def begin(*_trimmed: object) -> bool:
    """Tell maintenance that it is its turn; a record that is trimmed is an input for order only."""
    return True


def create_pipeline(declarations: Declarations, converted: Iterable[TableName] = ()) -> Pipeline:
    """Every table's record is trimmed where ``changes_retention`` asks for it, then its files are maintained.

    Tables that were converted have no record. The project's own come as one more, in the namespace ``ops``.
    """
    tables = declarations.tables.items()
    trims = [_compact(name, table) for name, table in tables if table.changes_retention]
    maintained = [
        _maintain(str(name), [f"{name}.retention"] if table.changes_retention else [], table.tags)
        for name, table in tables
    ]
    maintained += [_maintain(str(name), [], ()) for name in converted]
    return Pipeline([*trims, *maintained, _maintain("ops.tables", [], ())])


def _compact(name: TableName, table: TableConfig) -> Node:
    return Node(
        keep_changes,
        inputs=f"{name}.changes",
        outputs=f"{name}.retention",
        name="trim",
        namespace=str(name),
        tags=["maintenance", *table.tags],
    )


def _maintain(name: str, inputs: list[str], tags: tuple[str, ...]) -> Node:
    return Node(
        begin,
        inputs=inputs or None,
        outputs=f"{name}.maintenance",
        name="maintain",
        namespace=name,
        tags=["maintenance", *tags],
    )
