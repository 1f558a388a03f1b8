"""Register the tables that a commit changed in the Glue Data Catalog, if they are stored at a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.events import OP
from kedro_lakehouse.formats.glue import GlueTable, register_table
from kedro_lakehouse.formats.hudi.timeline import TABLE_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role
    from kedro_lakehouse.ops.report import CommitReport

_ROLES: Final[Mapping[str, Sequence[Role]]] = {
    "ingestion": ("changes", "quarantine"),
    "current": ("current",),
    "history": ("history",),
    "archive": ("archive",),
}


def tell_glue(table: LakeTable, report: CommitReport) -> None:
    """Register the tables that a commit changed in the Glue Data Catalog, with their present columns.

    Does nothing if catalog ``lake`` is not Glue, or if the catalog itself stores the table, as it does with
    Iceberg's tables.

    Guarantees:
        Idempotent: a table that is registered again with the same facts gets no new version.

    Raises:
        AwsRefusedError: Glue refuses the call; the commit stays unrecorded, so the next run calls again.
    """
    table_format = table.format
    provider = table_format.capabilities.glue_provider
    if provider is None or not table.environment.catalog.is_glue:
        return
    for role in _ROLES.get(report.stage, ()):
        stored = table.stored(role)
        state = table_format.state(stored)
        if state is None:
            continue
        merges = state.properties.get(TABLE_TYPE) == "MERGE_ON_READ"
        register_table(
            GlueTable(
                name=stored,
                provider="hudi_mor" if merges else provider,
                columns={column: kind.simpleString() for column, kind in state.columns.items()},
                location=f"{table.environment.lakehouse}/warehouse/{stored.namespace}/{stored.table}",
                partition_by=_partitions(table, role),
            )
        )


def _partitions(table: LakeTable, role: Role) -> Sequence[str]:
    if role == "changes":
        return (OP,)
    return table.config.partition_by if role == "current" else ()
