"""Columns, types, keys and orders that do not fit a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors.base import TableError, did_you_mean, listed, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_DECLARED_IN: Final = dict.fromkeys(("expectations", "partition_by", "sort_by"), "tables.yml") | {
    "op_column": "sources.yml"
}
"""The file of each key that names columns and is no key of all tables."""


class MissingColumnError(TableError):
    """A column that is needed is not in the source or the frame."""

    code = "MISSING_COLUMN"
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
        _, _, wanted = (self.place or "").partition(", for ")
        if file := _DECLARED_IN.get(wanted):
            return what, f"Correct {wanted} in {file}, or the source; then `kedro run`."
        if len(self.found) == 1 and (other := next((c for c in ",;|\t" if c in self.found[0]), "")):
            return (
                what,
                f"If {other!r} separates columns, say so by csv.delimiter in sources.yml; then `kedro run`.",
            )
        return what, self.advice


class ReservedColumnError(TableError):
    """A source column has a name of the framework."""

    code = "RESERVED_COLUMN"
    columns: Sequence[str]
    summary = "Table {table} has source columns with reserved names: {columns}."
    advice = (
        "Give them other names by 'rename' in tables.yml, or leave them out by 'columns'; then `kedro run`."
    )


DECLARED_THERE: Final = "tables.yml"
"""The place of a type that was declared, and not found in data."""


class IncompatibleTypeError(TableError):
    """A column arrives with a type that the table's type cannot be widened to."""

    code = "INCOMPATIBLE_TYPE"
    column: str
    existing: str
    incoming: str
    place: str = "the incoming data"
    reason: str = ""
    summary = "Table {table}, column {column}: the table has {existing}, {place} has {incoming}."
    advice = (
        "Nothing was written. Correct the source, then `kedro run`; or declare a type that holds both under "
        "'types' in tables.yml, then `kedro lakehouse rebuild {table} --from-landing`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return the two types, and what the format cannot do where that is the reason."""
        what, advice = super().sentences()
        if self.place == DECLARED_THERE:
            advice = (
                "Nothing was written. Restore the type in tables.yml, or run "
                f"`kedro lakehouse rebuild {shown(str(self.table))} --from-landing`."
            )
        return what + (f" {shown(self.reason)}." if self.reason else ""), advice


class SchemaFixedError(TableError):
    """A batch would change the columns of a table whose declaration keeps them as they are."""

    code = "SCHEMA_FIXED"
    columns: Sequence[str]
    place: str
    summary = "Table {table} has 'schema_policy: fixed', and {place} would add or widen: {columns}."
    advice = (
        "Nothing was written. Declare them under 'types' in tables.yml, leave them out by 'columns', "
        "or use 'schema_policy: evolve'; then `kedro run`."
    )


class DriftError(TableError):
    """What is declared is not what the table was built with."""

    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"


class KeySchemaDriftError(DriftError):
    """The declared keys are not those that the table was built with."""

    code = "KEY_SCHEMA_DRIFT"
    summary = "Table {table} was built with the keys {existing}; now declared: {declared}."
    advice = "Restore 'keys' in tables.yml, or run `kedro lakehouse rebuild {name} --from-landing`."


class SequenceTypeDriftError(DriftError):
    """The order's fields or types are not those that the table was built with."""

    code = "SEQUENCE_TYPE_DRIFT"
    summary = "Table {table} was built with the order {existing}; now: {declared}."
    advice = "Restore the source's order columns, or run `kedro lakehouse rebuild {name} --from-landing`."


class TrackHistoryDriftError(DriftError):
    """The tracked columns are not those that the history was built with."""

    code = "TRACK_HISTORY_DRIFT"
    summary = "Table {table} has a history that was built to track {existing}; now declared: {declared}."
    advice = "Restore 'history.track' in tables.yml, or run `kedro lakehouse rebuild {name}`."


class FoldRuleDriftError(DriftError):
    """The rules for ties and for values not sent are not those that the table was folded with."""

    code = "FOLD_RULE_DRIFT"
    summary = "Table {table} was folded with {existing}; now declared: {declared}."
    advice = (
        "Restore 'on_tie', 'ignore_null' and 'unset_marker' in tables.yml, or run "
        "`kedro lakehouse rebuild {name}`."
    )
