"""Pipeline ``quality``: published tables, and suites across tables, are validated by their expectations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.commits.published import NothingToValidate, ValidationPlan, snapshots_as_text, titles_of
from kedro_lakehouse.ops.store import PUBLISHED
from kedro_lakehouse.pipelines.rules import bound
from kedro_lakehouse.quality.results import Result, last_validations, of_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.commits.published import Published
    from kedro_lakehouse.config.expectations import ExpectationConfig, SuiteConfig, SuiteExpectationConfig
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def validate_table(
    table: Published | None, *, expectations: Sequence[ExpectationConfig]
) -> ValidationPlan | NothingToValidate:
    """Plan to answer a table's expectations; those that one aggregation answers together."""
    if table is None or table.snapshot is None:
        return NothingToValidate.HERE
    return ValidationPlan(
        snapshots=str(table.snapshot),
        batch=table.batch,
        titles=titles_of(expectations),
        answer=partial(_answers, table, expectations),
    )


def validate_suite(
    *tables: Published | None, expectations: Sequence[SuiteExpectationConfig]
) -> ValidationPlan | NothingToValidate:
    """Plan to answer a suite across tables; there is none as long as one of them was never committed."""
    found = {table.name: table for table in tables if table and table.snapshot is not None}
    if len(found) < len(tables):
        return NothingToValidate.HERE
    return ValidationPlan(
        snapshots=snapshots_as_text(found.values()),
        batch=None,
        titles=titles_of(expectations),
        answer=partial(_suite_answers, found, expectations),
    )


def validate_freshness(table: Published | None, *, expectations: Sequence[ExpectationConfig]) -> list[Result]:
    """Compare the age of a table's last commit with its limits; a table without a commit has no age."""
    if table is None:
        return []
    limits = [(e, e.max_age.total_seconds()) for e in expectations if e.max_age is not None]
    return [
        Result(expectation=e, success=table.age <= s, engine="metadata", observed=table.age)
        for e, s in limits
    ]


def select_last_validations(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each suite the results of its newest validation of what readers see."""
    return last_validations(r for r in results if r["stage"] == PUBLISHED)


def create_pipeline(declarations: Declarations) -> Pipeline:
    """Tables that changed are validated by their expectations, suites where one of their tables changed."""
    nodes = []
    for name, table in declarations.tables.items():
        if _lasting(table.expectations):
            nodes.append(_table_node(name, table))
        nodes += _freshness_nodes(name, table, declarations)
    suites = declarations.suites.items()
    return Pipeline([*nodes, *(_suite_node(n, suite) for n, suite in suites if _lasting(suite.expectations))])


def create_data_docs_pipeline() -> Pipeline:
    """The last validations become Data Docs; apart from ``quality``, for Great Expectations takes seconds."""
    return Pipeline(
        [
            Node(
                bound(select_last_validations),
                inputs="quality_results",
                outputs="data_docs",
                name="render_data_docs",
                namespace="ops",
                tags=["data_docs"],
            )
        ]
    )


def _lasting(expectations: Sequence[ExpectationConfig]) -> tuple[ExpectationConfig, ...]:
    """The expectations of what a commit published; those of its age are validated in every run."""
    return tuple(e for e in expectations if e.nature != "fresh")


def _table_node(name: TableName, table: TableConfig) -> Node:
    return Node(
        bound(validate_table, expectations=_lasting(table.expectations)),
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
            bound(validate_freshness, expectations=expectations),
            inputs=f"{name}.published",
            outputs=f"{name}.freshness",
            name="judge_freshness",
            namespace=str(name),
            # A table that fails in every run must become stale: see runners.ALWAYS.
            tags=["quality", "always", *table.tags],
        )
    ]


def _suite_node(name: str, suite: SuiteConfig) -> Node:
    return Node(
        bound(validate_suite, expectations=_lasting(suite.expectations)),
        inputs=[f"{table}.published" for table in suite.tables],
        outputs=f"ops.{name}.suite_quality",
        name=f"judge_{name}",
        namespace="ops",
        tags=["quality"],
    )


def _suite_answers(
    tables: Mapping[str, Published], expectations: Sequence[SuiteExpectationConfig]
) -> list[Result]:
    from kedro_lakehouse.quality.across import answer_reference

    results: list[Result] = []
    for name, table in tables.items():
        results += _answers(table, [e for e in expectations if e.table == name])
    for e in expectations:
        if e.nature == "reference":
            results.append(answer_reference(e, tables[e.table].rows, tables[str(e.other_table)].rows))
        elif e.nature == "other_count":
            difference = tables[e.table].rows.count() - tables[str(e.other_table)].rows.count()
            same = difference == 0
            results.append(Result(expectation=e, success=same, engine="aggregation", observed=difference))
    return results


def _answers(table: Published, expectations: Sequence[ExpectationConfig]) -> list[Result]:
    from kedro_lakehouse.quality.answers import ANSWERED, answer
    from kedro_lakehouse.quality.conditions import require_columns
    from kedro_lakehouse.quality.engine import answer_by_engine

    answered = [e for e in expectations if e.nature in ANSWERED]
    rows = table.rows
    require_columns(table.name, expectations, rows.columns)
    results = answer(answered, rows)
    results += answer_by_engine([e for e in expectations if e.nature == "engine"], rows)
    for e in (e for e in expectations if e.nature == "drift"):
        # The first commit of a table changed nothing that there was.
        first = Result(expectation=e, success=True, engine="metadata")
        results.append(first if table.change is None else of_number(e, table.change))
    return results
