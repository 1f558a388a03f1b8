"""Nodes of quality: frames in, answers out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.commits.published import NothingToValidate, Published, ValidationPlan
    from kedro_lakehouse.config.expectations import ExpectationConfig, SuiteExpectationConfig
    from kedro_lakehouse.quality.results import Result


def validate_table(
    table: Published | None, *, expectations: Sequence[ExpectationConfig]
) -> ValidationPlan | NothingToValidate:
    """Plan to answer a table's expectations; those that one aggregation answers together."""
    from kedro_lakehouse.commits.published import NothingToValidate, ValidationPlan, titles_of

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
    from kedro_lakehouse.commits.published import (
        NothingToValidate,
        ValidationPlan,
        snapshots_as_text,
        titles_of,
    )

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
    from kedro_lakehouse.quality.results import Result

    if table is None:
        return []
    limits = [(e, e.max_age.total_seconds()) for e in expectations if e.max_age is not None]
    return [
        Result(expectation=e, success=table.age <= s, engine="metadata", observed=table.age)
        for e, s in limits
    ]


def select_last_validations(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each suite the results of its newest validation of what readers see."""
    from kedro_lakehouse.ops.store import PUBLISHED
    from kedro_lakehouse.quality.results import last_validations

    return last_validations(r for r in results if r["stage"] == PUBLISHED)


def _suite_answers(
    tables: Mapping[str, Published], expectations: Sequence[SuiteExpectationConfig]
) -> list[Result]:
    from kedro_lakehouse.quality.across import answer_reference
    from kedro_lakehouse.quality.results import Result

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
    from kedro_lakehouse.quality.results import Result, of_number

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
