"""What the dialects share: the columns of a table, the choice of them, and the window of a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.errors import did_you_mean
from kedro_lakehouse.pulls.errors import InexactFault, SourceChangedFault, TerminalFault
from kedro_lakehouse.pulls.protocol import CrawledEntity, Entity, EntityColumn, window_begin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.pulls.protocol import Pull, Since

MAX_DIGITS: Final = 38
"""The digits that a decimal here holds."""
OVERLAP: Final = "Write `late: {overlap: 10 min}` under `pull`, longer than any transaction."
"""The remedy where open transactions are not known."""
ASKED_ONCE: Final = (
    "It was asked once, so that no account is locked. Correct `connection` in sources.yml, the user and "
    "password in credentials.yml, or the user's rights."
)
"""The remedy where a server refuses who asks."""
SURE: Final = timedelta(seconds=1)
"""So much before the oldest open transaction a window ends: one that begins right now is not seen yet."""


@dataclass(frozen=True, kw_only=True)
class SqlColumn:
    """A column of a table: how it is selected, and what becomes of the selected values."""

    name: str
    type: str
    nullable: bool
    select: str
    """The expression of the select list."""
    exact: Callable[[Any], Any] | None = None
    """Makes the landed Arrow column of the selected one; raises ArrowInvalid if a value does not fit."""
    fetched: str = "string"
    """The name of Arrow's type of the selected values, where they come as objects of Python."""
    is_carried: bool = True
    """Whether its values arrive as they are; a table is not pulled with a column of which that is not so."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What bounds a window: the server's time, and when the oldest open transaction began, if there is one.

    ``fault`` says why the latter is not known; it matters only to a window that needs it.
    """

    now: str
    oldest: str | None = None
    fault: TerminalFault | None = None


class SqlTable:
    """What is declared about one table of a database."""

    def __init__(self, config: SqlSourceConfig, table: TableConfig) -> None:
        """Take the declarations."""
        self.config, self.table = config, table
        self.pull = cast("SqlPullConfig", config.pull_of(table))
        self.mode = config.mode_of(table)
        self.schema, _, self.entity = table.entity.rpartition(".")

    def chosen(self, columns: Sequence[SqlColumn]) -> list[SqlColumn]:
        """The columns that are read.

        Raises:
            TerminalFault: There is no such table, or it lacks a column that the declaration names.
            InexactFault: The values of a column would change on their way.
        """
        if not columns:
            raise TerminalFault(
                f"there is no table {self.table.entity}, or no right to see it",
                "Correct `entity` in tables.yml, or grant the right to read it.",
            )
        names = [column.name for column in columns]
        named = (*self.pull.fields, *self.pull.as_text, *filter(None, [self.pull.cursor]))
        for name in named:
            if name not in names:
                near = did_you_mean(name, names)
                raise TerminalFault(f"the table has no column {name}", f"Correct it in `pull`.{near}")
        wanted = {*self.pull.fields, *self.table.keys, *filter(None, [self.pull.cursor])}
        found = [column for column in columns if not self.pull.fields or column.name in wanted]
        for column in found:
            if not column.is_carried:
                cast = "" if column.name in self.pull.as_text else _cast_named(column)
                raise InexactFault(
                    f"the column {column.name} has the type {column.type}, which is not carried exactly",
                    f"{cast}Name the other columns in `pull: {{fields: [...]}}`.",
                )
        return found

    def require_time(self, columns: Sequence[SqlColumn], kinds: tuple[str, ...], example: str) -> None:
        """Refuse a cursor that is no time.

        Args:
            kinds: How the names of the database's types of times begin.
            example: Types that the remedy names.

        Raises:
            TerminalFault: It is of another type.
        """
        cursor = next((column for column in columns if column.name == self.pull.cursor), None)
        if cursor is not None and not cursor.type.startswith(kinds):
            raise TerminalFault(
                f"the cursor {cursor.name} is a {cursor.type}, and a window needs a time",
                f"Name a column of type {example}, or use `mode: full`.",
            )

    def where(self, pull: Pull, name: str, at: Callable[[str], str]) -> str:
        """The condition of the rows in a pull's window, as the end of a query; empty where all rows are read.

        Args:
            name: The quoted cursor.
            at: Writes a time in the database's SQL.
        """
        if self.mode != "incremental":
            return ""
        assert pull.to is not None  # noqa: S101 - a window of a database has an end
        before = f"{name} < {at(pull.to)}"
        # A row without a cursor is in no window; the first pull shows it, and it goes to quarantine.
        if pull.from_ is None:
            return f" WHERE {before} OR {name} IS NULL"
        return f" WHERE {name} >= {at(pull.from_)} AND {before}"

    def entity_of(self, columns: Sequence[SqlColumn], keys: Sequence[str], rows: int | None) -> Entity:
        """What the database's catalog says."""
        return Entity(
            columns=tuple(EntityColumn(name=c.name, type=c.type, nullable=c.nullable) for c in columns),
            keys=tuple(keys),
            rows=rows,
        )

    def window(self, since: Since, bound: Bound) -> tuple[str | None, str] | None:
        """The window of the next pull, in UTC; None if nothing can have come since the last one.

        Args:
            since: What the sealed pulls say.
            bound: What was asked before the state that is read: rows that come later are in no window yet.

        Raises:
            SourceChangedFault: The server's time is before the end of the last window.
            TerminalFault: The window needs to know the open transactions, and the server does not tell.
        """
        end = datetime.fromisoformat(bound.now)
        if since.to is not None and end < datetime.fromisoformat(since.to):
            raise SourceChangedFault(f"its time has gone back from {since.to} to {bound.now}")
        if self.waits_for_transactions:
            if bound.fault is not None:
                raise bound.fault
            end = min([end, *([datetime.fromisoformat(bound.oldest)] if bound.oldest else [])]) - SURE
        if since.to is not None and end <= datetime.fromisoformat(since.to):
            return None
        begin = since.to if self.waits_for_transactions else window_begin(since, self.pull)
        return begin, end.astimezone(UTC).isoformat()

    @property
    def asks_for_transactions(self) -> bool:
        """Whether open transactions are asked for: for this table, or for others that share its state."""
        return self.config.one_state or (self.mode == "incremental" and self.waits_for_transactions)

    @property
    def waits_for_transactions(self) -> bool:
        """Whether a window ends before the oldest open transaction: the default where they are known."""
        if self.pull.late is None:
            return self.config.tells_transactions
        return self.pull.late == "open_transactions"


def tables_in(rows: Sequence[Sequence[Any]]) -> list[CrawledEntity]:
    """The tables that a catalog lists, without names that hold a dot: ``entity`` cannot say them.

    Args:
        rows: Schema, whether that is the connection's, name, whether it is a view, and id or None.
    """
    return [
        CrawledEntity(
            name=str(name) if int(is_own) else f"{schema}.{name}",
            also=(f"{schema}.{name}",) if int(is_own) else (),
            kind="view" if int(is_view) else "table",
            id="" if own_id is None else str(own_id),
        )
        for schema, is_own, name, is_view, own_id in rows
        if "." not in str(name)
    ]


def sees_no_transactions(grant: str) -> TerminalFault:
    """The fault of a window whose user may not see when others' transactions began.

    Args:
        grant: The sentence that names the missing right.
    """
    return TerminalFault("its user may not see when others' transactions began", f"{grant} Or: {OVERLAP}")


def quoted(name: str, marks: str = '""') -> str:
    """A name between the dialect's marks, of which the last is doubled in the name.

    Example:
        >>> quoted("a]b", "[]")
        '[a]]b]'
    """
    return f"{marks[0]}{name.replace(marks[1], 2 * marks[1])}{marks[1]}"


def literal(text: str) -> str:
    """A text in SQL, for databases in which a backslash is a character like others."""
    return "'" + text.replace("'", "''") + "'"


def to_decimal(found: Any, *, digits: tuple[int, int]) -> Any:
    """Texts of numbers as decimals of this precision and scale; raises ArrowInvalid if one does not fit."""
    import pyarrow as pa

    # Arrow reads a text of 39 digits into 128 bits without an error, and wrong.
    return found.cast(pa.decimal256(76, digits[1])).cast(pa.decimal128(*digits))


def to_time(found: Any, *, has_zone: bool = False) -> Any:
    """Texts of times as times in microseconds, with a zone in UTC; raises ArrowInvalid if one does not fit.

    A text may end with zeros after the microseconds, and have a blank before its zone.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    short = pc.replace_substring_regex(found, r"(\.\d{6})0+", r"\1")
    if not has_zone:
        return short.cast(pa.timestamp("us"))
    return pc.replace_substring_regex(short, r" ([+-]\d\d:\d\d)$", r"\1").cast(pa.timestamp("us", "UTC"))


def to_type(found: Any, *, to: pa.DataType) -> Any:
    """The same values in another type; raises ArrowInvalid if one does not fit."""
    return found.cast(to)


def iso(text: str) -> str:
    """A time in UTC as a database writes it, as ISO 8601."""
    return f"{datetime.fromisoformat(text.strip()).isoformat()}+00:00"


def made_exact(batch: pa.RecordBatch, columns: Sequence[SqlColumn]) -> pa.Table:
    """The landed form of selected rows.

    Raises:
        InexactFault: A column holds a value that its type here cannot hold.
    """
    import pyarrow as pa

    made = []
    for column, found in zip(columns, batch.columns, strict=True):
        if isinstance(found.type, pa.BaseExtensionType):
            found = found.storage  # noqa: PLW2901
        try:
            made.append(column.exact(found) if column.exact else found)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InexactFault(
                f"a value of the column {column.name} ({column.type}) does not fit its type here",
                f"{_cast_named(column)}Give its type in `types`.",
            ) from error
    return pa.table(made, names=[column.name for column in columns])


def _cast_named(column: SqlColumn) -> str:
    return f"Read it as text: `pull: {{as_text: [{column.name}]}}`. "
