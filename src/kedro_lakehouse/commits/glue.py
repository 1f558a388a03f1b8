"""After a commit: the tables at a path that it changed, as the Glue Data Catalog tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.events import OP
from kedro_lakehouse.formats.glue import GlueTable, Provider, register_table
from kedro_lakehouse.formats.hudi.timeline import TABLE_TYPE
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.names import Role
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.project import Project

_ROLES: Final[Mapping[str, Sequence[Role]]] = {
    "ingestion": ("changes", "quarantine"),
    "current": ("current",),
    "history": ("history",),
}
_PROVIDERS: Final[Mapping[str, Provider]] = {"delta": "delta", "hudi": "hudi"}


def tell_glue(project: Project, report: CommitReport) -> None:
    """Register what a commit changed, with its columns as they are now.

    Does nothing where catalog ``lake`` is another one, or holds the table itself, as Iceberg's are.

    Guarantees:
        Idempotent: a table that is told in the same words gets no new version.

    Raises:
        AwsRefusedError: Glue refuses the call; the commit's row is still owed, so the next run calls again.
    """
    name = TableName.parse(report.table)
    table_format = project.format_of(name)
    provider = _PROVIDERS.get(table_format.name)
    if provider is None or not project.catalog.is_glue:
        return
    for role in _ROLES.get(report.stage, ()):
        stored = name.with_suffix(role)
        state = table_format.state(stored)
        if state is None:
            continue
        merges = state.properties.get(TABLE_TYPE) == "MERGE_ON_READ"
        register_table(
            GlueTable(
                name=stored,
                provider="hudi_mor" if merges else provider,
                columns={column: kind.simpleString() for column, kind in state.columns.items()},
                location=f"{project.lakehouse}/warehouse/{stored.namespace}/{stored.table}",
                partition_by=_partitions(project, name, role),
            )
        )


def _partitions(project: Project, name: TableName, role: Role) -> Sequence[str]:
    if role == "changes":
        return (OP,)
    return project.table(name).partition_by if role == "current" else ()
