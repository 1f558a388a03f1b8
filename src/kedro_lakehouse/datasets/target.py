"""What saving a current or history table does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.datasets.merge import MergeCommit
from kedro_lakehouse.datasets.plain import PlainCommit
from kedro_lakehouse.datasets.refold import must_refold, refold
from kedro_lakehouse.datasets.token import BatchToken
from kedro_lakehouse.datasets.view import check_view, ensure_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


def commit_pending(project: Project, name: TableName, kind: Kind, pending: DataFrame) -> None:
    """Plan the pending events against a table's current or history and commit what changes.

    After a history's commit the view beside it is as declared. A table that a rollback holds stays as it is.
    """
    state = project.format_of(name).state(name.with_suffix(kind))
    if state is not None and state.is_held:
        logger.warning(
            "%s %s: held since its rollback; `kedro lakehouse rollback %s --release` lets it go on",
            name, kind, name,
        )  # fmt: skip
        return
    table = project.table(name)
    contract = TableContract.of(name, table)
    if kind == "history":
        check_view(project, name, pending)
    if must_refold(project, name, kind):
        refold(project, name, kind, upto=BatchToken.of(pending).batch)
    else:
        plain = PlainCommit(project, name, table, contract) if table.write != "merge" else None
        (plain or MergeCommit(project, name, table, contract, kind)).run(pending, BatchToken.of(pending))
    if kind == "history":
        ensure_view(project, name)
