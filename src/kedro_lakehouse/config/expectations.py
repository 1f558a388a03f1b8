"""Declarations of expectations: what a table's rows must be like, in Great Expectations' own words."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.errors import did_you_mean

Nature = Literal[
    "row", "unique", "aggregate", "count", "drift", "reference", "other_count", "fresh", "engine"
]


@dataclass(frozen=True)
class Kind:
    """What a type of expectation takes, and by what it is answered.

    row: a condition on each row. unique: no two rows share values. aggregate: one figure of a column.
    count: the number of rows. drift: how the last commit changed it. reference, other_count: another
    table. fresh: the age of the last commit. engine: Great Expectations' own Spark engine.
    """

    nature: Nature
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


_BETWEEN: Final = ("strict_min", "strict_max")
_ENDS: Final = ("min_value", "max_value")

KINDS: Final[Mapping[str, Kind]] = {
    "expect_column_values_to_not_be_null": Kind("row", ("column",), ("mostly",)),
    "expect_column_values_to_be_null": Kind("row", ("column",), ("mostly",)),
    "expect_column_values_to_be_in_set": Kind("row", ("column", "value_set"), ("mostly",)),
    "expect_column_values_to_not_be_in_set": Kind("row", ("column", "value_set"), ("mostly",)),
    "expect_column_values_to_be_between": Kind("row", ("column",), ("mostly", *_BETWEEN), _ENDS),
    "expect_column_values_to_match_regex": Kind("row", ("column", "regex"), ("mostly",)),
    "expect_column_values_to_not_match_regex": Kind("row", ("column", "regex"), ("mostly",)),
    "expect_column_value_lengths_to_be_between": Kind("row", ("column",), ("mostly", *_BETWEEN), _ENDS),
    "expect_column_value_lengths_to_equal": Kind("row", ("column", "value"), ("mostly",)),
    "expect_column_pair_values_a_to_be_greater_than_b": Kind(
        "row", ("column_A", "column_B"), ("or_equal", "mostly")
    ),
    "expect_column_pair_values_to_be_equal": Kind("row", ("column_A", "column_B"), ("mostly",)),
    "expect_column_values_to_be_unique": Kind("unique", ("column",), ("mostly",)),
    "expect_compound_columns_to_be_unique": Kind("unique", ("column_list",), ("mostly",)),
    "expect_column_min_to_be_between": Kind("aggregate", ("column",), _BETWEEN, _ENDS),
    "expect_column_max_to_be_between": Kind("aggregate", ("column",), _BETWEEN, _ENDS),
    "expect_column_mean_to_be_between": Kind("aggregate", ("column",), _BETWEEN, _ENDS),
    "expect_column_sum_to_be_between": Kind("aggregate", ("column",), _BETWEEN, _ENDS),
    "expect_table_row_count_to_be_between": Kind("count", (), _BETWEEN, _ENDS),
    "expect_table_row_count_to_equal": Kind("count", ("value",)),
    "expect_table_row_count_change_to_be_between": Kind("drift", (), (), _ENDS),
    "expect_table_to_be_fresh": Kind("fresh", ("max_age",)),
    "expect_column_values_to_be_in_other_table": Kind(
        "reference", ("column_list", "other_table"), ("other_column_list", "mostly")
    ),
    "expect_table_row_count_to_equal_other_table": Kind("other_count", ("other_table",)),
    "expect_column_to_exist": Kind("engine", ("column",)),
    "expect_column_values_to_be_of_type": Kind("engine", ("column", "type_")),
    "expect_column_distinct_values_to_be_in_set": Kind("engine", ("column", "value_set")),
    "expect_column_distinct_values_to_contain_set": Kind("engine", ("column", "value_set")),
    "expect_column_distinct_values_to_equal_set": Kind("engine", ("column", "value_set")),
    "expect_column_most_common_value_to_be_in_set": Kind("engine", ("column", "value_set")),
    "expect_column_unique_value_count_to_be_between": Kind("engine", ("column",), _BETWEEN, _ENDS),
    "expect_column_proportion_of_unique_values_to_be_between": Kind("engine", ("column",), _BETWEEN, _ENDS),
    "expect_column_median_to_be_between": Kind("engine", ("column",), _BETWEEN, _ENDS),
    "expect_column_stdev_to_be_between": Kind("engine", ("column",), _BETWEEN, _ENDS),
}
"""Every type that can be declared; a type of nature engine needs the extra `quality`."""

ACROSS: Final[frozenset[Nature]] = frozenset({"reference", "other_count"})
_WHOLE: Final[frozenset[Nature]] = frozenset({"aggregate", "count", "drift", "engine"})
_COMMON: Final = ("type", "severity", "scope")
_HOW: Final = frozenset({*_COMMON, "table"})

Scalar = bool | int | float | dt.datetime | dt.date | str


def _type(name: str) -> str:
    if name not in KINDS:
        near = did_you_mean(name, KINDS)
        raise refuse(f"there is no expectation '{name}'.{near}", "The reference page lists them.")
    return name


class ExpectationConfig(Declaration):
    """One expectation of a table; keys that it shares with Great Expectations have its names."""

    type: Annotated[Name, AfterValidator(_type), Field(json_schema_extra={"enum": list(KINDS)})]
    """Type of the expectation."""
    severity: Literal["block", "warn"] = "warn"
    """`block`: validated before readers see a commit; `warn`: reported after it."""
    scope: Literal["rows", "table"] = "rows"
    """What `block` reads: the rows that a commit writes, or the whole table."""
    column: Name | None = None
    """The column."""
    column_list: tuple[Name, ...] = ()
    """Columns that are taken together."""
    column_A: Name | None = None  # noqa: N815 - GX's name
    """The first of two columns."""
    column_B: Name | None = None  # noqa: N815 - GX's name
    """The second of two columns."""
    mostly: float | None = Field(None, gt=0, le=1)
    """Fraction of the rows that must comply."""
    value_set: tuple[Scalar, ...] | None = None
    """Allowed (or forbidden) values."""
    value: int | None = Field(None, ge=0)
    """The number that is expected."""
    min_value: Scalar | None = None
    """Least value; of a change of rows a fraction."""
    max_value: Scalar | None = None
    """Greatest value; of a change of rows a fraction."""
    strict_min: bool | None = None
    """Whether `min_value` itself is excluded."""
    strict_max: bool | None = None
    """Whether `max_value` itself is excluded."""
    regex: Name | None = None
    """Regular expression (Java's) that is looked for in a value."""
    or_equal: bool | None = None
    """Whether equal values comply too."""
    type_: Name | None = None
    """Spark's type, such as IntegerType."""
    max_age: Duration | None = None
    """Greatest age of the last commit, as `2 days`."""
    other_table: Name | None = None
    """The table that is compared with."""
    other_column_list: tuple[Name, ...] = ()
    """Columns of the other table; default: those of `column_list`."""

    @property
    def nature(self) -> Nature:
        """By what the expectation is answered."""
        return KINDS[self.type].nature

    @property
    def kwargs(self) -> dict[str, Any]:
        """What the expectation says beside its type: Great Expectations' kwargs."""
        said = self.model_dump(exclude_defaults=True, exclude=set(_HOW), mode="json")
        return {k: v for k, v in said.items() if v is not None}

    @property
    def title(self) -> str:
        """The expectation as one line, which also distinguishes it from the others of its table."""
        said = ", ".join(f"{k}={json.dumps(v)}" for k, v in sorted(self.kwargs.items()))
        return f"{self.type}({said})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its table that it speaks of."""
        one = (self.column, self.column_A, self.column_B)
        return (*[c for c in one if c is not None], *self.column_list)

    @model_validator(mode="after")
    def _keys_of_its_type(self) -> Self:
        kind, given = KINDS[self.type], self.model_fields_set - _HOW
        allowed = (*kind.needs, *kind.takes, *kind.one_of)
        if stray := sorted(given - set(allowed)):
            near = did_you_mean(stray[0], allowed)
            raise refuse(
                f"'{stray[0]}' is not a key of {self.type}.{near}",
                f"Allowed: {', '.join((*_COMMON, *allowed))}.",
                key=stray[0],
            )
        if missing := [key for key in kind.needs if key not in given]:
            raise refuse(f"{self.type} needs '{missing[0]}'", "Add the key.", key=missing[0])
        if kind.one_of and not given & set(kind.one_of):
            raise refuse(f"{self.type} needs {' or '.join(kind.one_of)}", "Add one.", key=kind.one_of[0])
        return self

    @model_validator(mode="after")
    def _may_block(self) -> Self:
        if self.severity == "warn":
            return self
        if self.nature == "fresh":
            raise refuse("a commit that is about to happen is fresh", "Use `severity: warn`.", key="severity")
        if self.nature in _WHOLE and self.scope != "table":
            problem = f"{self.type} speaks of the whole table, so it can block only with `scope: table`"
            raise refuse(problem, "Add `scope: table`: each commit then reads the whole table.", key="scope")
        return self


def of_one_table(expectation: ExpectationConfig) -> ExpectationConfig:
    """Refuse an expectation that looks at another table."""
    if expectation.nature in ACROSS:
        raise refuse(
            f"{expectation.type} looks at another table, and tables commit independently",
            "Declare it in a suite of expectations.yml.",
            key="type",
        )
    return expectation


class SuiteExpectationConfig(ExpectationConfig):
    """One expectation of a suite across tables."""

    table: Name
    """The table that the expectation speaks of."""

    @model_validator(mode="after")
    def _cannot_block(self) -> Self:
        if self.severity == "block":
            raise refuse(
                "a suite across tables cannot block: tables commit independently",
                f"Use `warn`, or declare it under `expectations` of {self.table} in tables.yml.",
                key="severity",
            )
        return self

    @model_validator(mode="after")
    def _as_many_columns(self) -> Self:
        if self.other_column_list and len(self.other_column_list) != len(self.column_list):
            raise refuse("the two lists of columns differ in length", "Pair them.", key="other_column_list")
        return self

    @property
    def title(self) -> str:
        """The expectation as one line, with its table."""
        return f"{self.table}: {super().title}"


class SuiteConfig(Declaration):
    """A suite of expectations across tables."""

    expectations: tuple[SuiteExpectationConfig, ...] = Field(min_length=1)
    """The expectations; validated when one of their tables changed."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that the suite looks at."""
        named = [t for e in self.expectations for t in (e.table, e.other_table) if t is not None]
        return tuple(dict.fromkeys(named))
