"""Column lineage by our own declarations: from which columns each column is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.view import HistoryView

Direct = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
Indirect = Literal["FILTER", "GROUP_BY", "JOIN", "SORT", "WINDOW"]

_ORDER: Final = "_order"
_TIME: Final = "_time"
_OP: Final = "_op"
_SAME_IN_CHANGES: Final = {
    "_order_from": _ORDER,
    "_order_to": _ORDER,
    "_order_last": _ORDER,
    "effective_from": _TIME,
}
_MADE_FROM: Final = {"effective_to": (_TIME,), "is_current": (_OP,), "_tombstone": (_OP,)}


@dataclass(frozen=True, order=True)
class InputColumn:
    """A column of an input, by the input's alias, and how it is used, in OpenLineage's words."""

    source: str
    column: str
    how: Direct | Indirect
    masked: bool = False


@dataclass(frozen=True)
class ColumnLineage:
    """The columns from which each column is made, and those that decide on the rows as a whole.

    A column that is made from none (a constant, a file's name) is not among ``columns``.
    """

    columns: Mapping[str, Sequence[InputColumn]]
    rows: Sequence[InputColumn] = field(default=())


def changes_lineage(  # noqa: PLR0913 - what a record is made of
    table: TableConfig,
    stored: Iterable[str],
    source_columns: Sequence[str],
    *,
    order: Sequence[str],
    time: str | None,
    source: str,
) -> ColumnLineage:
    """The lineage of the change log, from the landed files' columns.

    Args:
        table: The declaration: its ``rename`` and ``types`` decide.
        stored: The columns of the change log.
        source_columns: The columns that the landed files had.
        order: The fields of ``_order``, of which some are named as columns of the source.
        time: The table's column, or else the source's, with the time of an event.
        source: The alias of the landed files; a reference's is its stored name.
    """
    values = [column for column in stored if not is_reserved_column(column)]

    def made_of(column: str) -> list[InputColumn]:
        # A column that a source adds of its own (a log position, a commit time) is converted, not copied.
        as_it_is = column in values and column not in table.types
        how: Direct = "IDENTITY" if as_it_is else "TRANSFORMATION"
        return [InputColumn(source, s, how) for s in source_columns if table.rename.get(s, s) == column]

    found = {column: made_of(column) for column in values} | _looked_up(table, values, made_of)
    found[_ORDER] = [i for word in order for i in made_of(word)]
    found[_TIME] = made_of(time) if time else []
    return ColumnLineage({column: inputs for column, inputs in found.items() if inputs})


def _looked_up(
    table: TableConfig, stored: Sequence[str], made_of: Callable[[str], list[InputColumn]]
) -> dict[str, list[InputColumn]]:
    """The columns that come from references: from these, by the columns that events are looked up by."""
    found: dict[str, list[InputColumn]] = {}
    for entry in table.enrich:
        keys = [InputColumn(one.source, one.column, "JOIN") for name in entry.on for one in made_of(name)]
        for column, name in entry.columns.items():
            if name in stored:
                found[name] = [InputColumn(str(entry.stored), column, "IDENTITY"), *keys]
    return found


def target_lineage(table: TableConfig, stored: Iterable[str], *, source: str) -> ColumnLineage:
    """The lineage of a current or history table, from the change log by keys and order."""

    def one(column: str, how: Direct | Indirect, *, masked: bool = False) -> InputColumn:
        return InputColumn(source, column, how, masked)

    found: dict[str, list[InputColumn]] = {}
    for column in stored:
        if column in _SAME_IN_CHANGES:
            found[column] = [one(_SAME_IN_CHANGES[column], "IDENTITY")]
        elif column in _MADE_FROM:
            found[column] = [one(c, "TRANSFORMATION") for c in _MADE_FROM[column]]
        elif column == "_surrogate_key":
            found[column] = [one(c, "TRANSFORMATION", masked=True) for c in (*table.keys, _ORDER)]
        elif column == _ORDER or not is_reserved_column(column):
            found[column] = [one(column, "IDENTITY")]
    if table.write != "merge":
        return ColumnLineage(found)
    grouped = [one(key, "GROUP_BY") for key in table.keys]
    return ColumnLineage(found, [*grouped, one(_ORDER, "SORT"), one(_OP, "FILTER")])


def view_lineage(view: HistoryView, *, source: str) -> ColumnLineage:
    """The lineage of a history's view, from the history's columns."""

    def one(column: str, how: Direct | Indirect) -> list[InputColumn]:
        return [InputColumn(source, column, how)]

    found = {name: one(column, "IDENTITY") for name, column in view.shown.items()}
    found[view.start] = one("effective_from", "TRANSFORMATION" if view.by_day else "IDENTITY")
    plain_end = not (view.by_day or view.inclusive or view.open_end)
    found[view.end] = one("effective_to", "IDENTITY" if plain_end else "TRANSFORMATION")
    if view.flag:
        found[view.flag] = one("is_current", "IDENTITY")
    rows: list[InputColumn] = []
    if view.by_day or view.inclusive:
        rows += [*one("effective_from", "FILTER"), *one("effective_to", "FILTER")]
    if view.tombstones:
        rows += one("_tombstone", "FILTER")
    return ColumnLineage(found, rows)
