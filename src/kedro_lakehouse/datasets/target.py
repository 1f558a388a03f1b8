"""What saving a current or history table does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.commits.target import commit_target
from kedro_lakehouse.datasets.view import check_view, ensure_view

if TYPE_CHECKING:
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


def commit_pending(project: Project, name: TableName, kind: Kind, pending: Any, token: BatchToken) -> None:
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
    if kind == "history":
        check_view(project, name, pending)
    commit_target(project, name, kind, pending, token)
    if kind == "history":
        ensure_view(project, name)
