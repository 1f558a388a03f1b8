"""Declarations of a history: what is tracked, from when versions are valid, how a view shows them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, refuse
from kedro_lakehouse.errors import InvalidNameError
from kedro_lakehouse.names import TableName, is_reserved_column

_DURATION = re.compile(r"(\d+)\s*(?:(day|hour|minute|second|week)s?|([dhswm]|min))")
_SHORT = {"d": "day", "h": "hour", "min": "minute", "m": "minute", "s": "second", "w": "week"}


def not_reserved(name: str) -> str:
    """Return a column's name, unless the framework has it."""
    if is_reserved_column(name):
        raise refuse(
            f"the column name '{name}' is reserved", "Choose a name that is not one of the framework's."
        )
    return name


def _view_name(text: str) -> str:
    try:
        TableName.parse(text if "." in text else f"x.{text}")
    except InvalidNameError as error:
        raise refuse(f"the view's name {error.problem}", "Write for example dim_customer.") from error
    return text


def _open_end(value: object) -> object:
    return None if value == "none" else value  # a null in YAML means that the key is not written


def _valid_from(value: object) -> object:
    if value == "extract_time":
        return {}
    return {"column": value} if isinstance(value, str) else value


def any_case(pattern: str) -> str:
    """A pattern without flags whose letters stand for large ones as well.

    Example:
        >>> any_case("days?")
        '[Dd][Aa][Yy][Ss]?'
    """
    return re.sub(
        r"(\\.|\[\w+\]|\(\?:)|([a-z])",
        lambda found: found[1] or f"[{found[2].upper()}{found[2]}]",
        pattern,
    ).replace("[dhswm]", "[dhswmDHSWM]")


def parse_duration(value: object) -> object:
    """Return a duration written as text, such as '90 days', as a timedelta, and anything else as it is.

    Example:
        >>> parse_duration("90 days").days, parse_duration("25h").total_seconds()
        (90, 90000.0)
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise refuse("the duration is not a number with a unit", "Write for example '90 days' or '12 hours'.")
    unit = match[2] or _SHORT[match[3]]
    return dt.timedelta(**{f"{unit}s": int(match[1])})


ColumnName = Annotated[Name, AfterValidator(not_reserved)]


class ColumnChoice(Declaration):
    """Some of the columns: exactly these, or all but these."""

    include: Names | None = None
    """The columns, and no others."""
    exclude: Names | None = Field(None, min_length=1)
    """All columns but these."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.include is None) == (self.exclude is None):
            raise refuse(
                "exactly one of 'include' and 'exclude' is needed", "Give one of them, or remove the key."
            )
        return self


class HistoryViewConfig(Declaration):
    """A view beside the history, with the names and intervals that its readers are used to."""

    name: Annotated[Name, AfterValidator(_view_name)]
    """Name of the view, in the table's namespace."""
    surrogate_key: Name | None = None
    """Column with a stable 64-bit key of each version; it is stored in the history."""
    columns: Mapping[Name, Name] = {}
    """Source columns to show, as {column: name in the view}; default: all, as they are."""
    effective_from: Name = "effective_from"
    """Name of the start of a version."""
    effective_to: Name = "effective_to"
    """Name of the end of a version."""
    is_current: Name | None = None
    """Name of the flag of open versions; default: not shown."""
    open_end: Annotated[
        dt.date | None, BeforeValidator(_open_end, json_schema_input_type=dt.date | Literal["none"])
    ] = dt.date(9999, 12, 31)
    """End of open versions; `none`: null."""
    end: Literal["exclusive", "inclusive"] = "exclusive"
    """Whether a version's end is its successor's start, or the last moment before."""
    grain: Literal["timestamp", "date"] = "timestamp"
    """`date`: the last version of a day stands for that day."""


class HistoryConfig(Declaration):
    """What of a table's history is kept; without ``track`` every column but keys and order is tracked."""

    track: ColumnChoice | None = None
    """Columns whose change opens a new version."""
    view: HistoryViewConfig | None = None
    """A view beside the history."""

    @property
    def track_include(self) -> tuple[str, ...] | None:
        """The tracked columns, where they are declared."""
        return self.track.include if self.track else None

    @property
    def track_exclude(self) -> tuple[str, ...] | None:
        """The columns that are not tracked, where they are declared."""
        return self.track.exclude if self.track else None


class ValidFromConfig(Declaration):
    """From when a version of an extracted row is valid; without a column: from the extract's time."""

    column: Name | None = None
    """Column with the start; null stands for the extract's time."""
    updated_at: Name | None = None
    """Column with the row's last change: only a newer value makes a version."""

    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        if self.column and self.updated_at:
            raise refuse("'column' and 'updated_at' exclude each other", "Give one of them.")
        return self

    @property
    def source(self) -> str | None:
        """The column with the time, if there is one."""
        return self.column or self.updated_at


ValidFrom = Annotated[
    ValidFromConfig, BeforeValidator(_valid_from, json_schema_input_type=ValidFromConfig | str)
]
_WRITTEN: Final = r"^\s*\d+\s*(?:(?:day|hour|minute|second|week)s?|[dhswm]|min)\s*$"
Duration = Annotated[
    dt.timedelta,
    BeforeValidator(
        parse_duration, json_schema_input_type=Annotated[str, Field(pattern=any_case(_WRITTEN))] | float
    ),
]


def seconds_of(text: str) -> float:
    """The seconds of a length of time such as '10 s'.

    Raises:
        ValueError: The text is none.
    """
    return TypeAdapter(Duration).validate_python(text).total_seconds()
