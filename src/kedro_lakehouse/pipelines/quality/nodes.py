"""Nodes of quality: frames in, answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.commits.published import NothingToValidate, Published, Validation
    from kedro_lakehouse.config.expectations import ExpectationConfig, SuiteExpectationConfig
    from kedro_lakehouse.quality.results import Result


def validate_table(
    unjudged: Published | NothingToValidate, *_published: object, expectations: Sequence[ExpectationConfig]
) -> Validation | NothingToValidate:
    """Answer the expectations of a table that changed; those that one aggregation answers together.

    That the table is published is an input for order only.
    """
    from kedro_lakehouse.commits.published import Published, Validation

    if not isinstance(unjudged, Published):
        return unjudged
    return Validation(
        snapshots=str(unjudged.snapshot), batch=unjudged.batch, results=_answers(unjudged, expectations)
    )


def validate_suite(
    tables: Mapping[str, Published] | NothingToValidate,
    *_published: object,
    expectations: Sequence[SuiteExpectationConfig],
) -> Validation | NothingToValidate:
    """Answer a suite across tables of which one changed, table by table."""
    from kedro_lakehouse.commits.published import NothingToValidate, Validation
    from kedro_lakehouse.datasets.quality import snapshots_as_text
    from kedro_lakehouse.quality.across import answer_reference
    from kedro_lakehouse.quality.results import Result

    if isinstance(tables, NothingToValidate):
        return tables
    results: list[Result] = []
    for name, table in tables.items():
        results += _answers(table, [e for e in expectations if e.table == name])
    for e in expectations:
        if e.nature == "reference":
            results.append(answer_reference(e, tables[e.table].rows, tables[str(e.other_table)].rows))
        elif e.nature == "other_count":
            difference = tables[e.table].rows.count() - tables[str(e.other_table)].rows.count()
            results.append(
                Result(expectation=e, success=difference == 0, engine="aggregation", observed=difference)
            )
    snapshots = snapshots_as_text({name: table.snapshot for name, table in tables.items()})
    return Validation(snapshots=snapshots, batch=None, results=results)


def validate_freshness(
    age: float | None, *_published: object, expectations: Sequence[ExpectationConfig]
) -> list[Result]:
    """Compare the age of a table's last commit, in seconds; one that was never committed is not judged."""
    from kedro_lakehouse.quality.results import Result

    if age is None:
        return []
    limits = [(e, e.max_age.total_seconds()) for e in expectations if e.max_age is not None]
    return [Result(expectation=e, success=age <= s, engine="metadata", observed=age) for e, s in limits]


def select_last_validations(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each suite the results of its newest judgement of what readers see."""
    from kedro_lakehouse.ops.store import PUBLISHED
    from kedro_lakehouse.quality.results import last_validations

    return last_validations(r for r in results if r["stage"] == PUBLISHED)


def _answers(table: Published, expectations: Sequence[ExpectationConfig]) -> list[Result]:
    from kedro_lakehouse.quality.answers import ANSWERED, answer
    from kedro_lakehouse.quality.conditions import require_columns
    from kedro_lakehouse.quality.engine import answer_by_engine
    from kedro_lakehouse.quality.results import Result, of_number

    answered = [e for e in expectations if e.nature in ANSWERED]
    require_columns(table.name, expectations, table.rows.columns)
    results = answer(answered, table.rows)
    results += answer_by_engine([e for e in expectations if e.nature == "engine"], table.rows)
    for e in (e for e in expectations if e.nature == "drift"):
        # The first commit of a table changed nothing that there was.
        first = Result(expectation=e, success=True, engine="metadata")
        results.append(first if table.change is None else of_number(e, table.change))
    return results
