"""The results of a validation: figures, never a value of a row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.config.expectations import ExpectationConfig

Engine = Literal["aggregation", "metadata", "great_expectations"]
_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Result:
    """One expectation's answer.

    ``elements`` counts the rows that it applies to (without nulls), ``unexpected`` those that fail;
    ``observed`` is a count, an age in seconds or a fraction; never a minimum or a mean, which may be a
    row's own value.
    """

    expectation: ExpectationConfig
    success: bool
    engine: Engine
    elements: int | None = None
    unexpected: int | None = None
    observed: float | None = None

    def row(self) -> dict[str, Any]:
        """Its part of a row of ``lake.ops.quality_results``."""
        asked = self.expectation
        return vars(self) | {
            "expectation": asked.title,
            "type": asked.type,
            "kwargs": json.dumps(asked.kwargs, sort_keys=True),
            "severity": asked.severity,
        }


def of_rows(
    expectation: ExpectationConfig, elements: int, unexpected: int, engine: Engine = "aggregation"
) -> Result:
    """The answer of an expectation that counts rows; ``mostly`` is the fraction that must comply."""
    allowed = (1 - (1.0 if expectation.mostly is None else expectation.mostly)) * elements
    return Result(
        expectation=expectation,
        success=unexpected <= allowed + _TOLERANCE,
        engine=engine,
        elements=elements,
        unexpected=unexpected,
    )


def of_number(expectation: ExpectationConfig, number: float, engine: Engine = "metadata") -> Result:
    """The answer of an expectation about one number, such as how many rows a table has."""
    low, high = expectation.min_value, expectation.max_value
    complies = expectation.value is None or number == expectation.value
    if low is not None:
        complies &= number > float(low) if expectation.strict_min else number >= float(low)  # type: ignore[arg-type]
    if high is not None:
        complies &= number < float(high) if expectation.strict_max else number <= float(high)  # type: ignore[arg-type]
    return Result(expectation=expectation, success=complies, engine=engine, observed=float(number))


def last_validations(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of each suite's newest validation, sorted by suite and expectation."""
    kept = sorted(rows, key=lambda row: row["judged_at"])
    newest = {row["suite"]: row["judged_at"] for row in kept}
    last = [row for row in kept if row["judged_at"] == newest[row["suite"]]]
    return sorted(last, key=lambda row: (row["suite"], row["expectation"]))
