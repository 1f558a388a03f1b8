"""Build a table again: from its record of changes, or, where that cannot serve, from its landed files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.events import EVENT_COLUMNS, ORDER
from kedro_lakehouse.changes.extract import ORDER_TYPE
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.drift import made_for, refuse_drift
from kedro_lakehouse.commits.fold_frames import declares
from kedro_lakehouse.commits.marks import horizon_of
from kedro_lakehouse.commits.target import commit_pending, load_pending, refold
from kedro_lakehouse.errors import LandedFilesGoneError, UnsupportedError
from kedro_lakehouse.names import DROP_ORDER
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.sources.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.project import Project


def declared_kinds(table: TableConfig) -> tuple[Kind, ...]:
    """The targets that a declaration keeps."""
    kept: tuple[tuple[Kind, bool], ...] = (
        ("current", table.current),
        ("history", table.history is not None),
    )
    return tuple(kind for kind, wanted in kept if wanted)


def bring_pending(project: Project, name: TableName) -> None:
    """Bring the targets of a table up to the record, as the pipelines do."""
    for kind in declared_kinds(project.table(name)):
        commit_pending(project, name, kind, *load_pending(project, name, kind))


def refuse_rebuild(project: Project, name: TableName) -> None:
    """Refuse what the record of changes cannot serve, before anything is changed.

    Raises:
        UnsupportedError: Nothing is recorded, the table has no keys, or the record is not whole.
        KeySchemaDriftError, SequenceTypeDriftError: The record was made with other keys or another order.
    """
    table, again = project.table(name), f"Use `kedro lakehouse rebuild {name} --from-landing`."
    record = project.format_of(name).state(name.with_suffix("changes"))
    if record is None or record.batch == 0:
        raise UnsupportedError(what=f"Nothing of {name} is recorded yet.", remedy="Run `kedro run`.")
    if table.write != "merge":
        raise UnsupportedError(what=f"{name} has no keys to fold its record by.", remedy=again)
    if horizon_of(record) is not None and table.history is not None:
        raise UnsupportedError(
            what=f"The record of {name} is trimmed (changes_retention): it does not hold all of the history.",
            remedy=again,
        )
    contract = TableContract.of(name, table)
    order = _declared_order(project, name, table, record)
    refuse_drift(name.with_suffix("changes"), record, contract, {ORDER: order} if order else {})


def rebuild_from_changes(project: Project, name: TableName) -> None:
    """Fold current and history again, each as one commit that keeps its bookmark, then bring what is pending.

    Columns that the declaration no longer keeps leave the record and the targets.
    """
    refuse_rebuild(project, name)
    runner.run(project, name, "ingestion", lambda: _DeclareAnew(project, name))
    for kind in declared_kinds(project.table(name)):
        refold(project, name, kind, declared_anew=True)
    bring_pending(project, name)


class _DeclareAnew(runner.Change):
    """Makes a change log fit the present declaration: its properties, and the columns that it keeps."""

    def __init__(self, project: Project, name: TableName) -> None:
        super().__init__(project, name, name.with_suffix("changes"), step="rebuild")
        self._table = project.table(name)
        self._made_for = made_for(TableContract.of(name, self._table))

    @property
    def batch(self) -> int:
        return 0

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.bookmark is None:
            return True
        fits = all(state.properties.get(k) == v for k, v in self._made_for.items())
        return fits and not self.dropped_columns(state)

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        del stage
        assert state.bookmark is not None  # noqa: S101 - asked for before
        return state.bookmark

    def properties(self, state: TableState) -> Mapping[str, str]:
        del state
        return self._made_for

    def dropped_columns(self, state: TableState) -> Sequence[str]:
        own = [c for c in state.columns if c not in EVENT_COLUMNS and not c.startswith("_")]
        return [c for c in own if not declares(self._table, c)]


def _declared_order(
    project: Project, name: TableName, table: TableConfig, record: TableState
) -> T.DataType | None:
    """The type that the order would have in a new table; None where only files can tell."""
    if table.order_by:
        kinds: dict[str, Any] = {c: table.types.get(c, record.columns.get(c)) for c in table.order_by}
        if None in kinds.values():
            return None
        fields = [F.lit(None).cast(kind).alias(c) for c, kind in kinds.items()]
        return project.session.range(0).select(F.struct(*fields).alias(ORDER)).schema[ORDER].dataType
    if table.source is None:
        return ORDER_TYPE
    source: Any = load_plugin(SOURCES, project.source(name).type)(project.source(name), name, table)  # type: ignore[operator]
    if source.gives == "extracts":
        return ORDER_TYPE
    layout = source.layout()
    return layout.order_type() if hasattr(layout, "order_type") else None


def begin_again(project: Project, name: TableName) -> None:
    """Give up all that is stored of a table, so that the next run ingests its landed files anew.

    Written down in one commit of the ledger; the tables themselves are dropped when the landing
    folder is loaded next, so that a run after a kill ends the same.

    Raises:
        LandedFilesGoneError: Not every ingested file is there as it was; nothing was changed.
    """
    table = project.table(name)
    with project.lease(name, "ingestion"):
        ledger = Ledger(project.ops, name, project.run_id)
        if table.source is not None:
            source: Any = load_plugin(SOURCES, project.source(name).type)(project.source(name), name, table)  # type: ignore[operator]
            record = project.format_of(name).state(name.with_suffix("changes"))
            accepted = ledger.chain(record.bookmark if record else None).accepted()
            there = set(source.files())  # listed last: what is ingested meanwhile is there
            gone = [f.name for f in dict.fromkeys(accepted) if f not in there]
            if gone:
                raise LandedFilesGoneError(table=name, missing=gone, purpose="ingest them again")
        stored = [project.format_of(name).uuid(name.with_suffix(role)) for role in DROP_ORDER]
        ledger.begin_again(filter(None, stored))
