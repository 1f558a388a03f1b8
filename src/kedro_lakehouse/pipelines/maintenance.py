"""Pipeline ``maintenance``: single events are kept for a time only, and files are put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


def plan_retention(_changes: DataFrame, *, keep: dt.timedelta) -> dt.timedelta:
    """Plan to keep the single events of a change log for a time; older ones become one for each key."""
    return keep


def plan_maintenance(
    *_compacted: object, thresholds: Callable[[], TableMaintenanceConfig]
) -> TableMaintenanceConfig:
    """Plan to maintain a table by the thresholds of maintenance.yml, once its change log is compacted."""
    return thresholds()


def create_pipeline(project: Project) -> Pipeline:
    """Change logs with a ``changes_retention`` are compacted, then the files of every table are maintained.

    Tables that were converted have no change log. The project's own come as one more, in the namespace
    ``ops``.
    """
    nodes = []
    for name, table in project.declarations.tables.items():
        keep = table.changes_retention
        if keep:
            nodes.append(_compact(name, table, keep))
        nodes.append(_maintain(project, str(name), [f"{name}.retention"] if keep else [], table.tags))
    nodes += [_maintain(project, str(name), [], ()) for name in project.conversions]
    return Pipeline([*nodes, _maintain(project, "ops.tables", [], ())])


def _compact(name: TableName, table: TableConfig, keep: dt.timedelta) -> Node:
    return Node(
        bound(plan_retention, keep=keep),
        inputs=f"{name}.changes",
        outputs=f"{name}.retention",
        name="trim",
        namespace=str(name),
        tags=["maintenance", *table.tags],
    )


def _maintain(project: Project, name: str, inputs: list[str], tags: tuple[str, ...]) -> Node:
    return Node(
        # The file is read when the node runs: a mistake in it stops no other pipeline.
        bound(plan_maintenance, thresholds=lambda: project.maintenance.of(name)),
        inputs=inputs or None,
        outputs=f"{name}.maintenance",
        name="maintain",
        namespace=name,
        tags=["maintenance", *tags],
    )
