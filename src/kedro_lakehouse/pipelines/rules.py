"""The rules of a table, as kedro-viz shows them beside its nodes."""

from __future__ import annotations

import warnings
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

from kedro.utils import KedroExperimentalWarning

from kedro_lakehouse.changes.contract import TableContract

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro.pipeline.preview_contract import TextPreview

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import Role, TableName


def with_contract(function: Callable[..., Any], name: TableName, table: TableConfig) -> Callable[..., Any]:
    """A node's function that is given the contract of a table."""
    return update_wrapper(partial(function, contract=TableContract.of(name, table)), function)


def rules_of(name: TableName, table: TableConfig, role: Role) -> Callable[[], TextPreview]:
    """The ``preview_fn`` of a table's node; nothing is read before it is shown."""
    # Kedro says once a process that previews of nodes may change: no user of this package can act on it.
    warnings.filterwarnings(
        "ignore", message="The 'preview_fn' feature is experimental", category=KedroExperimentalWarning
    )
    return partial(rules, name, table, role)


def rules(name: TableName, table: TableConfig, role: Role) -> TextPreview:
    """The declaration of a table, and the rows and the last commit of the stored table that a node fills."""
    import yaml
    from kedro.pipeline.preview_contract import TextPreview

    from kedro_lakehouse.monitoring.table_status import summary_of
    from kedro_lakehouse.project import active_project

    found = summary_of(active_project().bind(name), role)
    holds = "nothing yet"
    if found is not None:
        holds = f"{found.rows:,} rows" + (f", batch {found.batch}" if found.batch else "")
        holds += f", {found.committed:%Y-%m-%d %H:%M:%S} UTC" if found.committed else ""
    declared = yaml.safe_dump(table.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    return TextPreview(content=f"{name.with_suffix(role)}: {holds}\n\n{declared}")
