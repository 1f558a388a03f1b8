"""Guards of full extracts: each extract is checked against the accepted ones before it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.extract import EXTRACT
from kedro_lakehouse.errors import SnapshotDeletesTooManyError, SnapshotEmptyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Row

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.errors import RefusedExtractError
    from kedro_lakehouse.names import TableName

_ROWS_FOR_A_FRACTION: Final = 100
"""With fewer rows in scope, the default limit on the fraction of deletes is not applied."""


@dataclass
class ExtractCounts:
    """The counts of an extract: rows that landed, rows with a key, valid rows, and the changes it would make.

    ``doubled`` counts the keys that several valid rows have.
    ``in_scope`` counts the rows that existed before it in the parts of the table that it covers.
    """

    landed: int = 0
    keyed: int = 0
    rows: int = 0
    doubled: int = 0
    upserts: int = 0
    deletes: int = 0
    stale: int = 0
    in_scope: int = 0


def counts_by_extract(found: Iterable[Row]) -> dict[int, ExtractCounts]:
    """Combine the counts of each extract, by its number."""
    counts: dict[int, ExtractCounts] = {}
    for row in found:
        facts = counts.setdefault(row[EXTRACT], ExtractCounts())
        for field in fields(ExtractCounts):
            value = row[field.name] if field.name in row.asDict() else None
            setattr(facts, field.name, getattr(facts, field.name) + int(value or 0))
    return counts


def add_untouched(counts: dict[int, ExtractCounts], *, before: int) -> None:
    """Count the rows that were not compared because they cannot have changed, as if they had been.

    Args:
        counts: Those of the only extract, over the rows that were compared.
        before: All rows of the table before it.
    """
    facts = counts.setdefault(1, ExtractCounts())
    untouched = before - facts.in_scope
    facts.landed += untouched
    facts.keyed += untouched
    facts.rows += untouched
    facts.in_scope = before


def first_refused(
    counts: Mapping[int, ExtractCounts], names: Sequence[str], table: TableConfig, name: TableName
) -> tuple[int, RefusedExtractError] | None:
    """The first extract that a guard refuses, and why; None where all may be applied.

    Args:
        counts: By the number of the extract, from 1; an extract without rows may be missing.
        names: The extracts' names, in their order.
        table: The declared guards.
        name: The table, for the error.
    """
    limit = table.max_delete_fraction
    rows_for_a_fraction = 1 if "max_delete_fraction" in table.model_fields_set else _ROWS_FOR_A_FRACTION
    for number, extract in enumerate(names, start=1):
        facts = counts.get(number, ExtractCounts())
        if facts.keyed == 0 and (facts.landed > 0 or not table.allow_empty_extract):
            return number, SnapshotEmptyError(table=name, extract=extract)
        lifted = facts.landed == 0 or table.hard_deletes == "ignore"
        if not lifted and facts.in_scope >= rows_for_a_fraction and facts.deletes > limit * facts.in_scope:
            return number, SnapshotDeletesTooManyError(
                table=name, extract=extract, deletes=facts.deletes, rows=facts.in_scope, limit=limit
            )
    return None
