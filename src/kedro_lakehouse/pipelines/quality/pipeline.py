"""Pipeline ``quality``: nodes for each table with expectations, and for each suite across tables."""

from __future__ import annotations

from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.quality.nodes import (
    select_last_validations,
    validate_freshness,
    validate_suite,
    validate_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_lakehouse.config.expectations import SuiteConfig, SuiteExpectationConfig
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def create_pipeline(declarations: Declarations) -> Pipeline:
    """Tables that changed are validated by their expectations, suites where one of their tables changed."""
    nodes = []
    for name, table in declarations.tables.items():
        if any(e.nature != "fresh" for e in table.expectations):
            nodes.append(_table_node(name, table))
        nodes += _freshness_nodes(name, table, declarations)
    suites = {
        name: validated
        for name, suite in declarations.suites.items()
        if (validated := tuple(e for e in suite.expectations if e.nature != "fresh"))
    }
    return Pipeline([*nodes, *(_suite_node(n, e, declarations.suites[n]) for n, e in suites.items())])


def create_data_docs_pipeline() -> Pipeline:
    """The last validations become Data Docs; apart from ``quality``, for Great Expectations takes seconds."""
    return Pipeline(
        [
            Node(
                select_last_validations,
                inputs="quality_results",
                outputs="data_docs",
                name="render_data_docs",
                namespace="ops",
                tags=["data_docs"],
            )
        ]
    )


def _table_node(name: TableName, table: TableConfig) -> Node:
    return Node(
        _with(validate_table, tuple(e for e in table.expectations if e.nature != "fresh")),
        inputs=f"{name}.published",
        outputs=f"{name}.quality",
        name="judge",
        namespace=str(name),
        tags=["quality", *table.tags],
    )


def _freshness_nodes(name: TableName, table: TableConfig, declarations: Declarations) -> list[Node]:
    suites = [e for s in declarations.suites.values() for e in s.expectations if e.table == str(name)]
    expectations = tuple(e for e in (*table.expectations, *suites) if e.nature == "fresh")
    if not expectations:
        return []
    return [
        Node(
            _with(validate_freshness, expectations),
            inputs=f"{name}.published",
            outputs=f"{name}.freshness",
            name="judge_freshness",
            namespace=str(name),
            # A table that fails in every run must become stale: see runners.ALWAYS.
            tags=["quality", "always", *table.tags],
        )
    ]


def _suite_node(name: str, expectations: tuple[SuiteExpectationConfig, ...], suite: SuiteConfig) -> Node:
    return Node(
        _with(validate_suite, expectations),
        inputs=[f"{table}.published" for table in suite.tables],
        outputs=f"ops.{name}.suite_quality",
        name=f"judge_{name}",
        namespace="ops",
        tags=["quality"],
    )


def _with(judge: Callable[..., Any], expectations: object) -> Callable[..., Any]:
    return update_wrapper(partial(judge, expectations=expectations), judge)
