"""Functions as nodes take them, and nodes of tables, beside which kedro-viz shows the table's rules."""

from __future__ import annotations

import warnings
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

from kedro.pipeline import Node
from kedro.utils import KedroExperimentalWarning

from kedro_lakehouse.changes.contract import TableContract

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro.pipeline.preview_contract import TextPreview

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import Role, TableName


def bound(function: Callable[..., Any], **given: object) -> Callable[..., Any]:
    """A node's function with some arguments given, under its own name, by which Kedro shows it.

    It has no annotations: Kedro looks them up to find types of parameters, which no node of ours has, and
    would warn that it does not know Spark's types, which are imported only where Spark is used.
    """
    taken = update_wrapper(partial(function, **given), function)
    taken.__annotations__ = {}
    return taken


def table_node(  # noqa: PLR0913 - a node's parts
    function: Callable[..., Any],
    name: TableName,
    table: TableConfig,
    role: Role,
    *,
    inputs: list[str],
    outputs: str | list[str],
    verb: str,
    pipeline: str,
) -> Node:
    """The node of a table that fills its stored table of this role; ``function`` is given the contract."""
    # Kedro says once a process that previews of nodes may change: no user of this package can act on it.
    warnings.filterwarnings(
        "ignore", message="The 'preview_fn' feature is experimental", category=KedroExperimentalWarning
    )
    return Node(
        bound(function, contract=TableContract.of(name, table)),
        inputs=inputs,
        outputs=outputs,
        name=verb,
        namespace=str(name),
        preview_fn=partial(rules, name, table, role),
        tags=[pipeline, *table.tags],
    )


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
