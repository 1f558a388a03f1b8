"""Declarations of tables.yml: what a table keeps, and how it is built from its source."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, RelativePath, refuse
from kedro_lakehouse.errors import did_you_mean
from kedro_lakehouse.names import RESERVED_COLUMNS, is_reserved_column

# What the fixed interface has and this version has not yet: the one list of it.
PLANNED_TABLE_KEYS: Final = frozenset(
    {
        "derive",
        "ignore_null",
        "unset_marker",
        "on_invalid",
        "valid_from",
        "delete_scope",
        "changes_retention",
        "schema_policy",
        "expectations",
        "subject",
        "personal",
        "public",
    }
)
PLANNED_HISTORY_KEYS: Final = frozenset({"view"})
PLANNED_TABLE_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "format": frozenset({"delta", "hudi"}),
    "write": frozenset({"append", "replace"}),
    "hard_deletes": frozenset({"tombstone"}),
}

QUARANTINE_REASONS: Final = frozenset(
    {
        "malformed",
        "unknown_op",
        "null_key",
        "null_sequence",
        "incompatible_type",
        "duplicate_key",
        "key_mismatch",
        "too_late",
    }
)

_SIMPLE_TYPES: Final = frozenset(
    {
        "string",
        "boolean",
        "byte",
        "tinyint",
        "short",
        "smallint",
        "int",
        "integer",
        "long",
        "bigint",
        "float",
        "real",
        "double",
        "decimal",
        "dec",
        "numeric",
        "date",
        "timestamp",
        "timestamp_ntz",
        "timestamp_ltz",
        "binary",
    }
)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NESTED = re.compile(r"(?:array|map|struct)<[a-z0-9_<>(),: ]+>", re.IGNORECASE)
_MAX_PRECISION: Final = 38
_TRANSFORM = re.compile(
    r"(?:(?:years?|months?|days?|hours?|identity)\(\s*\w+\s*\)|(?:bucket|truncate)\(\s*[1-9]\d*\s*,\s*\w+\s*\))"
)


def _spark_type(text: str) -> str:
    name = text.strip()
    if name.lower() in _SIMPLE_TYPES or (_NESTED.fullmatch(name) and name.count("<") == name.count(">")):
        return name
    if decimal := _DECIMAL.fullmatch(name.lower()):
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if 1 <= precision <= _MAX_PRECISION and scale <= precision:
            return name
    near = did_you_mean(name.split("(")[0], _SIMPLE_TYPES)
    raise refuse(
        f"the text is not a type of Spark.{near}", "Write for example bigint, decimal(10,2) or array<string>."
    )


def _partition(text: str) -> str:
    if not re.search(r"[(),]", text) or _TRANSFORM.fullmatch(text):
        return text
    raise refuse(
        "the text is neither a column nor a transform of one",
        "Use a column, years(c), months(c), days(c), hours(c), bucket(n, c) or truncate(n, c).",
    )


def _initial_valid_from(value: object) -> object:
    if value in ("event", "epoch") or type(value) is dt.date:
        return value
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError:
        problem = "the value is neither 'event' nor 'epoch' nor a date"
        raise refuse(problem, "Write a date as 2022-07-01.") from None


def _history(value: object) -> object:
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


def _not_reserved(name: str) -> str:
    if is_reserved_column(name):
        allowed = ", ".join(sorted(RESERVED_COLUMNS))
        raise refuse(f"the column name '{name}' is reserved", f"Choose a name that is none of: {allowed}.")
    return name


def _check_name(name: str) -> str:
    if name in QUARANTINE_REASONS:
        raise refuse("a check may not have the name of a built-in quarantine reason", "Choose another name.")
    return name


ColumnName = Annotated[Name, AfterValidator(_not_reserved)]
CheckName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\z"), AfterValidator(_check_name)]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+\z")]


class ColumnChoice(Declaration):
    """Some of the columns: exactly these, or all but these."""

    include: Names | None = Field(None, min_length=1, description="The columns, and no others.")
    exclude: Names | None = Field(None, min_length=1, description="All columns but these.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.include is None) == (self.exclude is None):
            raise refuse(
                "exactly one of 'include' and 'exclude' is needed", "Give one of them, or remove the key."
            )
        return self


class HistoryConfig(Declaration):
    """What of a table's history is kept; without ``track`` every column but the keys is tracked."""

    planned_keys: ClassVar[frozenset[str]] = PLANNED_HISTORY_KEYS

    track: ColumnChoice | None = Field(None, description="Columns whose change opens a new version.")

    @property
    def track_include(self) -> tuple[str, ...] | None:
        """The tracked columns, where they are declared."""
        return self.track.include if self.track else None

    @property
    def track_exclude(self) -> tuple[str, ...] | None:
        """The columns that are not tracked, where they are declared."""
        return self.track.exclude if self.track else None


class TableConfig(Declaration):
    """One table: its source, its keys, and what is kept of it."""

    planned_keys: ClassVar[frozenset[str]] = PLANNED_TABLE_KEYS
    planned_values: ClassVar[Mapping[str, frozenset[str]]] = PLANNED_TABLE_VALUES

    source: Name = Field(description="Name of a source in sources.yml.")
    entity: RelativePath = Field(
        "", description="Folder of the table below the source; default: the table's name."
    )
    keys: Annotated[Names, AfterValidator(lambda names: tuple(map(_not_reserved, names)))] = Field(
        (), description="Columns that identify a row; needed by `write: merge`."
    )
    write: Literal["merge"] = Field("merge", description="How a batch is applied: `merge`, by key.")
    order_by: Names = Field(
        (), description="Columns that say which of two events is later; default: the source's."
    )
    effective_time: Name | None = Field(
        None, description="Column with the time an event took effect; default: the source's commit time."
    )
    current: bool = Field(default=True, description="Whether the current table is kept.")
    history: Annotated[HistoryConfig | None, BeforeValidator(_history)] = Field(
        None, description="Whether versions are kept: false, true, or {track: {include | exclude: [...]}}."
    )
    columns: ColumnChoice | None = Field(
        None, description="Source columns that are kept; default: all but control."
    )
    types: Mapping[ColumnName, Annotated[Name, AfterValidator(_spark_type)]] = Field(
        {}, description="Spark type of columns, where the files do not tell it."
    )
    rename: Mapping[Name, ColumnName] = Field({}, description="New names of source columns, as {old: new}.")
    on_tie: Literal["delete_wins", "upsert_wins", "fail"] = Field(
        "delete_wins", description="Which event wins where key and order are equal."
    )
    max_invalid_fraction: float = Field(
        1.0, ge=0, le=1, description="Fraction of invalid events that fails a batch."
    )
    initial_valid_from: Annotated[
        Literal["event", "epoch"] | dt.date, BeforeValidator(_initial_valid_from)
    ] = Field("event", description="Start of the first load's versions: `event`, `epoch` or a date.")
    hard_deletes: Literal["close", "ignore"] = Field(
        "close",
        description="What becomes of a key that an extract lacks: `close` deletes it, `ignore` keeps it.",
    )
    max_delete_fraction: float = Field(
        0.3, ge=0, le=1, description="Fraction of rows that an extract may delete; judged from 100 rows on."
    )
    allow_empty_extract: bool = Field(
        default=False, description="Whether an extract without rows is applied."
    )
    checks: Mapping[CheckName, Name] = Field(
        {},
        description="SQL conditions that each row must meet, as {name: condition}; others are quarantined.",
    )
    format: Literal["iceberg"] = Field("iceberg", description="Table format.")
    partition_by: tuple[Annotated[Name, AfterValidator(_partition)], ...] = Field(
        (), description="Partitions of the table: columns, or transforms such as days(ts) and bucket(8, id)."
    )
    sort_by: Names = Field((), description="Columns that rows are sorted by within a file.")
    properties: Mapping[Name, str] = Field(
        {}, description="Properties of the table, in the format's own words."
    )
    tags: tuple[Tag, ...] = Field((), description="Kedro tags of the table's nodes.")

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if not self.keys:
            raise refuse("'write: merge' needs at least one key", "List the key columns.", key="keys")
        dropped = {name.lower() for name in (self.columns and self.columns.exclude) or ()}
        if gone := [key for key in self.keys if key.lower() in dropped]:
            raise refuse(
                f"the key column '{gone[0]}' is excluded", "Keep every key column.", key="columns.exclude"
            )
        return self

    @model_validator(mode="after")
    def _renames_are_clear(self) -> Self:
        spelled: dict[str, str] = {}
        for old, new in self.rename.items():
            if spelled.setdefault(new.lower(), new) != new:
                problem = f"'{new}' and '{spelled[new.lower()]}' differ only in case"
                raise refuse(problem, "Write the shared name in one way.", key=f"rename.{old}")
        return self
