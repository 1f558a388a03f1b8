"""The view on a history table: its columns and conditions, as SQL that every engine understands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import ConfigurationError, MissingColumnError, UnsupportedError, listed
from kedro_lakehouse.names import TableName, is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kedro_lakehouse.config.history import HistoryViewConfig
    from kedro_lakehouse.config.tables import TableConfig

# The same names as in changes.history and changes.digest. Those import Spark, which takes half a second
# that a query can do without.
_FROM: Final = "effective_from"
_TO: Final = "effective_to"
_CURRENT: Final = "is_current"
_TOMBSTONE: Final = "_tombstone"
_SURROGATE: Final = "_surrogate_key"

_TIMES: Final = ("timestamp", "timestamp_ntz")
_DATE: Final = "date"


def view_name(table: TableName, config: HistoryViewConfig) -> TableName:
    """The view's full name: in the table's namespace."""
    return TableName(table.namespace, config.name.rpartition(".")[2])


@dataclass(frozen=True, kw_only=True)
class HistoryView:
    """What a view shows of a history table.

    ``shown`` maps each name in the view to the column of the history that it shows unchanged;
    ``by_day`` says that versions start and end with days.
    """

    shown: Mapping[str, str]
    start: str
    end: str
    flag: str | None
    open_end: str | None
    inclusive: bool
    by_day: bool
    tombstones: bool

    @property
    def names(self) -> list[str]:
        """The view's columns, in their order."""
        return [*self.shown, self.start, self.end, *filter(None, [self.flag])]

    def needed(self, names: Collection[str]) -> list[str]:
        """The columns of the history that these columns of the view, and its conditions, are made from."""
        conditions = [_FROM, _TO, *([_TOMBSTONE] if self.tombstones else [])]
        flag = [_CURRENT] if self.flag in names else []
        return [*dict.fromkeys([*(c for n, c in self.shown.items() if n in names), *conditions, *flag])]

    def of_columns(self, columns: Collection[str]) -> HistoryView:
        """The view on a history of which only these columns may be seen.

        Raises:
            UnsupportedError: The times of versions, which bound every row of the view, are not among them.
        """
        if not {_FROM, _TO} <= set(columns):
            raise UnsupportedError(
                what="The view shows when versions begin and end, by a column that is hidden from the role.",
                remedy="Grant that column unmasked, or ask the history.",
            )
        shown = {name: column for name, column in self.shown.items() if column in columns}
        flag = self.flag if _CURRENT in columns else None
        return replace(self, shown=shown, flag=flag)

    def select(self, source: str, quoted: Callable[[str], str], names: Collection[str] | None = None) -> str:
        """The SELECT of the view, or of some of its columns, over a history written as ``source``."""
        start, end = quoted(_FROM), quoted(_TO)
        if self.by_day:
            start, end = f"CAST({start} AS DATE)", f"CAST({end} AS DATE)"
        conditions = []
        if self.by_day or self.inclusive:
            conditions.append(f"({quoted(_TO)} IS NULL OR {start} < {end})")
        if self.tombstones:
            conditions.append(f"NOT COALESCE({quoted(_TOMBSTONE)}, FALSE)")
        parts = {name: quoted(column) for name, column in self.shown.items()}
        parts |= {self.start: start, self.end: self._end(end)}
        if self.flag:
            parts[self.flag] = quoted(_CURRENT)
        listed_parts = [
            f"{text} AS {quoted(name)}" for name, text in parts.items() if names is None or name in names
        ]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(listed_parts)} FROM {source}{where}"  # noqa: S608 - names are quoted

    def _end(self, end: str) -> str:
        if self.inclusive and self.by_day:
            end = f"CAST({end} - INTERVAL '1' DAY AS DATE)"
        elif self.inclusive:
            end = f"{end} - INTERVAL '1' MICROSECOND"
        return f"COALESCE({end}, DATE '{self.open_end}')" if self.open_end else end


def digest_of(definition: str) -> str:
    """A hash of a definition; stored with a view, it shows whether the view was made from it."""
    return hashlib.sha256(definition.encode()).hexdigest()


def plan_view(name: TableName, table: TableConfig, columns: Mapping[str, str]) -> HistoryView:
    """Work out what the view of a table's history shows.

    Args:
        name: The declared table.
        table: Its declaration, with a view.
        columns: The columns of its history, by name, with the text of their types.

    Raises:
        ConfigurationError: Two columns of the view have one name, or its intervals need a date or
            a time and the versions of this history start with something else.
        MissingColumnError: The history lacks a column that is to be shown.
    """
    assert table.history is not None  # noqa: S101 - callers look first
    config = table.history.view
    assert config is not None  # noqa: S101
    values = [c for c in columns if not is_reserved_column(c) and c not in table.keys]
    wanted = [*table.keys, *(c for c in config.columns or values if c not in table.keys)]
    if config.surrogate_key:
        wanted.insert(0, _SURROGATE)
    if missing := [c for c in wanted if c not in columns]:
        raise MissingColumnError(
            table=name.with_suffix("history"),
            missing=missing,
            found=[*table.keys, *values],
            place="history.view",
        )
    named = {c: config.surrogate_key if c == _SURROGATE else config.columns.get(c, c) for c in wanted}
    kind = columns[_FROM]
    _refuse_doubled(name, [*named.values(), config.effective_from, config.effective_to, config.is_current])
    _refuse_arithmetic(name, config, kind)
    return HistoryView(
        shown={str(shown): column for column, shown in named.items()},
        start=config.effective_from,
        end=config.effective_to,
        flag=config.is_current,
        open_end=config.open_end.isoformat() if config.open_end else None,
        inclusive=config.end == "inclusive",
        by_day=config.grain == "date" or (kind == _DATE and config.end == "inclusive"),
        tombstones=_TOMBSTONE in columns,
    )


def _refuse_doubled(name: TableName, shown: Sequence[str | None]) -> None:
    given = [n.lower() for n in shown if n is not None]
    if doubled := sorted({n for n in given if given.count(n) > 1}):
        raise ConfigurationError(
            file="tables.yml",
            key=f"{name}.history.view",
            problem=f"several columns of the view are named {listed(doubled)}.",
            remedy="Give them names of their own by `columns`, `surrogate_key`, `effective_from` or "
            "`effective_to`.",
        )


def _refuse_arithmetic(name: TableName, config: HistoryViewConfig, kind: str) -> None:
    plain = config.grain == "timestamp" and config.end == "exclusive" and config.open_end is None
    if kind in (*_TIMES, _DATE) or plain:
        return
    raise ConfigurationError(
        file="tables.yml",
        key=f"{name}.history.view",
        problem=f"versions of this table start with a {kind}, which is neither a date nor a time.",
        remedy="Declare `effective_time`; or write open_end: none, end: exclusive and grain: timestamp.",
    )
