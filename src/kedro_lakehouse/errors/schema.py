"""Columns, types, keys and orders that do not fit the table."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import TerminalError, did_you_mean, listed, shown


class MissingColumnError(TerminalError):
    """A column that is needed is not in the source or the frame."""

    code = "MISSING_COLUMN"
    table: object
    missing: Sequence[str]
    found: Sequence[str]
    place: str | None = None
    advice = (
        "Correct keys, order_by, effective_time, columns or rename in tables.yml, or the source; then "
        "`kedro run`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return the columns and the place, and the nearest column found."""
        where = f" in {shown(self.place)}" if self.place else ""
        near = did_you_mean(self.missing[0], self.found) if self.missing else ""
        what = f"Table {self.table}: no {listed(self.missing)}{where}; found: {listed(self.found)}.{near}"
        return what, self.advice


class ReservedColumnError(TerminalError):
    """A source column has a name of the framework."""

    code = "RESERVED_COLUMN"
    table: object
    columns: Sequence[str]
    summary = "Table {table} has source columns with reserved names: {columns}."
    advice = (
        "Give them other names by 'rename' in tables.yml, or leave them out by 'columns'; then `kedro run`."
    )


class IncompatibleTypeError(TerminalError):
    """A column arrives with a type that the table's type cannot be widened to."""

    code = "INCOMPATIBLE_TYPE"
    table: object
    column: str
    existing: str
    incoming: str
    place: str = "the incoming data"
    reason: str = ""
    summary = "Table {table}, column {column}: the table has {existing}, {place} has {incoming}."
    advice = (
        "Nothing was written. Declare its type under 'types' in tables.yml, or correct the source; then "
        "`kedro run`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return the two types, and what the format cannot do where that is the reason."""
        what, advice = super().sentences()
        return what + (f" {shown(self.reason)}." if self.reason else ""), advice


class SchemaFixedError(TerminalError):
    """A batch would change the columns of a table whose declaration keeps them as they are."""

    code = "SCHEMA_FIXED"
    table: object
    columns: Sequence[str]
    place: str
    summary = "Table {table} has 'schema_policy: fixed', and {place} would add or widen: {columns}."
    advice = (
        "Nothing was written. Declare them under 'types' in tables.yml, leave them out by 'columns', "
        "or use 'schema_policy: evolve'; then `kedro run`."
    )


class KeySchemaDriftError(TerminalError):
    """The declared keys are not those that the table was built with."""

    code = "KEY_SCHEMA_DRIFT"
    table: object
    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"
    summary = "Table {table} was built with the keys {existing}; now declared: {declared}."
    advice = "Restore 'keys' in tables.yml, or run `kedro lakehouse rebuild {name} --from-landing`."


class SequenceTypeDriftError(TerminalError):
    """The order's fields or types are not those that the table was built with."""

    code = "SEQUENCE_TYPE_DRIFT"
    table: object
    existing: str
    declared: str
    name: object = "TABLE"
    summary = "Table {table} was built with the order {existing}; now: {declared}."
    advice = "Restore the source's order columns, or run `kedro lakehouse rebuild {name} --from-landing`."


class TrackHistoryDriftError(TerminalError):
    """The tracked columns are not those that the history was built with."""

    code = "TRACK_HISTORY_DRIFT"
    table: object
    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"
    summary = "Table {table} has a history that was built to track {existing}; now declared: {declared}."
    advice = "Restore 'history.track' in tables.yml, or run `kedro lakehouse rebuild {name}`."


class FoldRuleDriftError(TerminalError):
    """The rules for ties and for values not sent are not those that the table was folded with."""

    code = "FOLD_RULE_DRIFT"
    table: object
    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"
    summary = "Table {table} was folded with {existing}; now declared: {declared}."
    advice = (
        "Restore 'on_tie', 'ignore_null' and 'unset_marker' in tables.yml, or run "
        "`kedro lakehouse rebuild {name}`."
    )
