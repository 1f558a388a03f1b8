"""What the dialects share: the columns of a table, the choice of them, and the window of a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.errors import did_you_mean
from kedro_lakehouse.pulls.errors import InexactFault, SourceChangedFault, TerminalFault
from kedro_lakehouse.pulls.protocol import Entity, EntityColumn, window_begin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.pulls.protocol import Since

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
        if not self.pull.fields:
            return list(columns)
        wanted = {*self.pull.fields, *self.table.keys, *filter(None, [self.pull.cursor])}
        return [column for column in columns if column.name in wanted]

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
        """Whether a window ends before the oldest open transaction: the default."""
        return self.pull.late in (None, "open_transactions")


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
                f"Read it as text: `pull: {{as_text: [{column.name}]}}`, and give its type in `types`.",
            ) from error
    return pa.table(made, names=[column.name for column in columns])
