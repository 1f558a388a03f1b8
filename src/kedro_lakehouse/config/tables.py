"""Declarations of tables.yml: what a table keeps, and how it is built from its source."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, WithJsonSchema, model_validator

from kedro_lakehouse.config.base import Declaration, Name, Names, RelativePath, refuse
from kedro_lakehouse.config.enrich import (
    Enrich,
    columns_for_lookups,
    enriched_columns,
    refuse_unclear,
)
from kedro_lakehouse.config.expectations import ExpectationConfig, of_one_table
from kedro_lakehouse.config.history import (
    ColumnChoice,
    ColumnName,
    Duration,
    HistoryConfig,
    ValidFrom,
    ValidFromConfig,
    any_case,
    not_reserved,
)
from kedro_lakehouse.config.lifetimes import RetentionConfig, tells_no_date
from kedro_lakehouse.config.pulls import PullConfig  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.sql import condition, statement
from kedro_lakehouse.config.subjects import (  # noqa: TC001 - pydantic reads it at run time
    ErasureRequests,
    Subject,
)
from kedro_lakehouse.errors import did_you_mean

SENSITIVE_TAGS: Final = ("personal", "payment")
"""Tags of columns whose values previews, samples and the column index leave out."""
QUARANTINE_REASONS: Final = frozenset(
    {
        "erased_subject",
        "incompatible_schema",
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


def spark_type(text: str) -> str:
    """Return the text of a Spark type, or refuse it."""
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


def partition_expression(text: str) -> str:
    """Return the text of a partition, or refuse it."""
    if not re.search(r"[(),]", text) or _TRANSFORM.fullmatch(text):
        return text
    raise refuse(
        "the text is neither a column nor a transform of one",
        "Use a column, years(c), months(c), days(c), hours(c), bucket(n, c) or truncate(n, c).",
    )


SparkType = Annotated[
    Name,
    AfterValidator(spark_type),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*(?:{any_case('|'.join(sorted(_SIMPLE_TYPES)))}"
            rf"|(?:{any_case('decimal|dec|numeric')})\(\s*\d+\s*(?:,\s*\d+\s*)?\)"
            rf"|(?:{any_case('array|map|struct')})<[A-Za-z0-9_<>(),: ]+>)\s*$",
        }
    ),
]
PartitionExpression = Annotated[
    Name,
    AfterValidator(partition_expression),
    WithJsonSchema({"type": "string", "pattern": rf"^(?:[^(),]+|{_TRANSFORM.pattern})$"}),
]


def takes_column(chosen: ColumnChoice | None, name: str) -> bool:
    """Whether chosen columns have one of that name; without a choice all are there."""
    if chosen is None:
        return True
    return name in chosen.include if chosen.include is not None else name not in (chosen.exclude or ())


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


def _check_name(name: str) -> str:
    if name in QUARANTINE_REASONS:
        raise refuse("a check may not have the name of a built-in quarantine reason", "Choose another name.")
    return name


CheckName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\z"), AfterValidator(_check_name)]
InputAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\z")]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+\z")]


def _delete_scope(value: object) -> object:
    return () if value == "table" else value


def _ignore_null(value: object) -> object:
    return "*" if value is True else () if value is False else value


class DeriveConfig(Declaration):
    """How a table is made from other tables."""

    inputs: Mapping[InputAlias, Name] = Field(min_length=1)
    """Tables that are read, as {name in the SQL: namespace.table}."""
    sql: Annotated[Name, AfterValidator(statement)]
    """A SELECT over the inputs; its rows are the whole table."""
    by_keys_from: int | None = Field(default=None, ge=0)
    """From so many rows of all inputs on, only the keys that a change can touch are computed; default: ten
    thousand, or two million where Spark alone can read the tables (Hudi, Spark 3.5).
    """


class TableConfig(Declaration):
    """One table: its source, its keys, and what is kept of it."""

    source: Name | None = None
    """Name of a source in sources.yml; or see `derive`."""
    entity: RelativePath = ""
    """Folder of the table below the source, or its name there; default: the table's name."""
    derive: DeriveConfig | None = None
    """How the table is made from other tables."""
    keys: Annotated[Names, AfterValidator(lambda names: tuple(map(not_reserved, names)))] = ()
    """Columns that identify a row; needed by `write: merge`."""
    write: Literal["merge", "append", "replace"] = "merge"
    """How a batch is applied: by key; or without keys added to the table, or in its place."""
    order_by: Names = ()
    """Columns that say which of two events is later; default: the source's."""
    effective_time: Name | None = None
    """Column with the time an event took effect; default: the source's commit time."""
    current: bool = True
    """Whether the current table is kept."""
    history: Annotated[
        HistoryConfig | None, BeforeValidator(_history, json_schema_input_type=HistoryConfig | bool)
    ] = None
    """Whether versions are kept: false, true, or {track: {include | exclude: [...]}}."""
    columns: ColumnChoice | None = None
    """Source columns that are kept; default: all but control."""
    types: Mapping[ColumnName, SparkType] = {}
    """Spark type of columns, where the files do not tell it."""
    rename: Mapping[Name, ColumnName] = {}
    """New names of source columns, as {old: new}; if declared later, the table's columns are renamed."""
    ignore_null: Annotated[
        Literal["*"] | Names,
        BeforeValidator(_ignore_null, json_schema_input_type=Literal["*"] | bool | Names),
    ] = ()
    """Columns (`*`: all) in which null means unchanged."""
    unset_marker: str | None = None
    """Text that a column holds where it was not sent: the value stays as it was."""
    on_tie: Literal["delete_wins", "upsert_wins", "fail"] = "delete_wins"
    """Which event wins where key and order are equal."""
    on_invalid: Literal["quarantine", "fail"] = "quarantine"
    """What an invalid event does: it is set aside, or it fails the batch."""
    max_invalid_fraction: float = Field(1.0, ge=0, le=1)
    """Fraction of invalid events that fails a batch."""
    valid_from: ValidFrom = ValidFromConfig()
    """Start of versions from extracts: `extract_time`, a column, or {updated_at: column}."""
    initial_valid_from: Annotated[
        Literal["event", "epoch"] | dt.date,
        BeforeValidator(_initial_valid_from, json_schema_input_type=Literal["event", "epoch"] | dt.date),
    ] = "event"
    """Start of the first load's versions: `event`, `epoch` or a date."""
    hard_deletes: Literal["close", "ignore", "tombstone"] = "close"
    """What becomes of a key that an extract lacks: it is deleted, kept, or deleted with a version that says
    so.
    """
    delete_scope: Annotated[
        Names, BeforeValidator(_delete_scope, json_schema_input_type=Literal["table"] | Names)
    ] = ()
    """Columns whose values an extract must hold before it can delete rows with them; default: an extract
    speaks of the whole table.
    """
    max_delete_fraction: float = Field(0.3, ge=0, le=1)
    """Fraction of the rows in scope that an extract may delete; without the key it is checked from 100 rows
    on.
    """
    allow_empty_extract: bool = False
    """Whether an extract without rows is applied."""
    changes_retention: Duration | None = None
    """How long single events stay in `_changes`, such as `90 days`; default: for ever."""
    enrich: tuple[Enrich, ...] = ()
    """Columns that each event takes from reference tables: see `enrich` below."""
    reenrich: bool = False
    """Whether rows follow a change of a reference that was looked up `as_of: arrival`."""
    schema_policy: Literal["evolve", "fixed"] = "evolve"
    """Whether new columns and wider types are taken over, or refused."""
    checks: Mapping[CheckName, Annotated[Name, AfterValidator(condition)]] = {}
    """SQL conditions that each row must meet, as {name: condition}; others are quarantined."""
    expectations: tuple[Annotated[ExpectationConfig, AfterValidator(of_one_table)], ...] = ()
    """What the table must be like: see `expectations` below."""
    format: Name | None = None
    """Table format, by a name from `kedro lakehouse plugins`; default: the environment's `table_format` in
    globals.yml.
    """
    partition_by: tuple[PartitionExpression, ...] = ()
    """Partitions of the table: columns, or transforms such as days(ts) and bucket(8, id)."""
    sort_by: Names = ()
    """Columns that rows are sorted by within a file."""
    properties: Mapping[Name, str] = {}
    """Properties of the table, in the format's own words."""
    personal: Names = ()
    """Columns with personal data: previews do not show their values, and the column index keeps only their
    formats.
    """
    subject: Subject | None = None
    """The person whom a row is about, for `kedro lakehouse erase`: a column, or see `subject` below."""
    after_erasure: Literal["refuse", "accept"] = "refuse"
    """What becomes of events about a subject that was erased: they are refused, or accepted as new ones."""
    erasure_requests: ErasureRequests = None
    """Whether each row asks that its subject be erased, by the pipeline `erasure`: true, or {due: column}."""
    retention: RetentionConfig | None = None
    """How long rows stay in the current table, and where they go then: see `retention` below."""
    public: Names = ()
    """Columns whose values may be shown in messages and previews, also if personal."""
    payment: Names = ()
    """Columns with payment data: treated as those of `personal`, and masked for roles of grants.yml."""
    column_tags: Mapping[Tag, Names] = {}
    """More tags of columns, as {tag: [columns]}; grants.yml gives them to roles or masks them."""
    pull: SerializeAsAny[PullConfig] | None = None
    """How a source that is asked for its records is asked for this table's: see `pull` below."""
    tags: tuple[Tag, ...] = ()
    """Kedro tags of the table's nodes."""

    @property
    def tagged(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each tag: ``personal``, ``payment``, ``public``, and those of ``column_tags``."""
        own = {"personal": self.personal, "payment": self.payment, "public": self.public}
        more = {tag: (*own.get(tag, ()), *names) for tag, names in self.column_tags.items()}
        return {tag: names for tag, names in (own | more).items() if names}

    @property
    def personal_columns(self) -> frozenset[str]:
        """The columns of whose values the column index keeps none: those tagged personal or payment."""
        return frozenset(name for tag in SENSITIVE_TAGS for name in self.tagged.get(tag, ()))

    @property
    def columns_kept(self) -> frozenset[str] | None:
        """The columns of the table where the declaration lists them all; None where the source decides."""
        if self.columns is None or self.columns.include is None or self.enrich:
            return None
        kept = {*self.columns.include, *self.keys, *self.order_by, *filter(None, [self.effective_time])}
        return frozenset({*(self.rename.get(name, name) for name in kept), *self.rename.values()})

    @property
    def repairs_rows(self) -> bool:
        """Whether a later change of a reference changes rows."""
        return self.reenrich or any(entry.as_of == "event" for entry in self.enrich)

    @property
    def tables_read(self) -> tuple[str, ...]:
        """The other tables that this one is made from: inputs of its query, or references."""
        inputs = self.derive.inputs.values() if self.derive else ()
        return tuple(dict.fromkeys([*inputs, *(entry.table for entry in self.enrich)]))

    @property
    def guards(self) -> str:
        """The declared guards of extracts, as text: if it differs, a refused extract is judged again."""
        named = {"max_delete_fraction", "allow_empty_extract", "hard_deletes", "delete_scope"}
        declared = "declared " if "max_delete_fraction" in self.model_fields_set else ""
        return declared + self.model_dump_json(include=named)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.source is None) == (self.derive is None):
            problem = "exactly one of 'source' and 'derive' is needed"
            has_both = "Remove `source`: a derived table is made from its inputs."
            raise refuse(problem, has_both if self.source else "Name the source.", key="source")
        return self

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if self.write == "merge" and not self.keys:
            raise refuse("'write: merge' needs at least one key", "List the key columns.", key="keys")
        if self.write != "merge" and (self.keys or self.history):
            problem = f"'write: {self.write}' is for tables without keys and without history"
            raise refuse(problem, "Remove `keys` and `history`, or use 'merge'.", key="write")
        dropped = {name.lower() for name in (self.columns and self.columns.exclude) or ()}
        if gone := [key for key in self.keys if key.lower() in dropped]:
            raise refuse(
                f"the key column '{gone[0]}' is excluded", "Keep every key column.", key="columns.exclude"
            )
        return self

    @model_validator(mode="after")
    def _lookups_fit(self) -> Self:
        refuse_unclear(self.enrich)
        if self.enrich and self.derive is not None:
            problem = "a derived table takes columns of other tables by its query"
            raise refuse(problem, "Join the table in `derive.sql`.", key="enrich")
        given, by = enriched_columns(self.enrich), columns_for_lookups(self.enrich)
        for key in ("keys", "order_by", "types", "ignore_null", "effective_time"):
            stated: Any = getattr(self, key) or ()
            about = given + by if key == "ignore_null" else given
            if found := [name for name in about if stated in ("*", name) or name in stated]:
                problem = f"'{found[0]}' is a column of 'enrich', which '{key}' cannot be about"
                raise refuse(problem, f"Name in `{key}` columns of the source alone.", key=key)
        return self

    @model_validator(mode="after")
    def _rows_can_follow_references(self) -> Self:
        if self.reenrich and all(entry.as_of == "event" for entry in self.enrich):
            problem = "'reenrich' is for lookups with 'as_of: arrival', and there is none"
            raise refuse(problem, "Remove `reenrich`, or declare such a lookup.", key="reenrich")
        if self.repairs_rows and self.write != "merge":
            problem = "rows can only follow their reference in a table with keys"
            raise refuse(problem, "Use `as_of: arrival` without `reenrich`.", key="write")
        if self.repairs_rows and self.changes_retention is not None:
            problem = "rows follow their reference by single events, which would be kept for a time only"
            raise refuse(problem, "Use `as_of: arrival` without `reenrich`.", key="changes_retention")
        return self

    @model_validator(mode="after")
    def _requests_name_persons(self) -> Self:
        if self.erasure_requests is not None and (self.subject is None or self.subject.through is not None):
            problem = "a request must name the person in a column of its own"
            raise refuse(problem, "Add `subject: <column>`.", key="erasure_requests")
        if self.erasure_requests is not None and not self.current:
            problem = "requests are read from the current table, and none is kept"
            raise refuse(problem, "Remove `current: false`.", key="erasure_requests")
        return self

    @model_validator(mode="after")
    def _rows_can_grow_old(self) -> Self:
        if self.retention is None:
            return self
        name = self.retention.column
        if not self.current or self.write == "replace":
            problem = "rows grow old in a current table, to which they come by key or one by one"
            raise refuse(problem, "Remove `retention`.", key="retention")
        if self.repairs_rows:
            problem = "rows that follow their reference must all be in the table"
            raise refuse(problem, "Remove `retention`, or use `as_of: arrival` alone.", key="retention")
        if self.derive is not None:
            problem = "the rows of a derived table are those of its query"
            raise refuse(problem, "Write the condition into `derive.sql`.", key="retention")
        if not takes_column(self.columns, name) and name not in self.keys:
            problem = f"the table leaves out the column '{name}'"
            raise refuse(problem, "Keep the column, or name another one.", key="retention.column")
        if (kind := self.types.get(name)) is not None and tells_no_date(kind):
            problem = f"the column '{name}' is declared as {kind}, which tells no date"
            remedy = "Name a column of the type date, timestamp or timestamp_ntz."
            raise refuse(problem, remedy, key="retention.column")
        return self

    @model_validator(mode="after")
    def _something_to_validate(self) -> Self:
        if self.expectations and not self.current and not self.history:
            problem = "the declaration keeps neither a current table nor a history to validate"
            raise refuse(problem, "Remove the expectations.", key="expectations")
        if not self.current and any(e.nature == "drift" for e in self.expectations):
            problem = "a change of the number of rows is one of a current table, and none is kept"
            raise refuse(problem, "Remove the expectation.", key="expectations")
        return self

    @model_validator(mode="after")
    def _renames_are_clear(self) -> Self:
        spelled: dict[str, str] = {}
        for old, new in self.rename.items():
            if spelled.setdefault(new.lower(), new) != new:
                problem = f"'{new}' and '{spelled[new.lower()]}' differ only in case"
                raise refuse(problem, "Write the shared name in one way.", key=f"rename.{old}")
        return self
