"""Rebuild a table from its change log, or, where that is not enough, from its landed files."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import types as T

from kedro_lakehouse.changes.events import EVENT_COLUMNS, ORDER
from kedro_lakehouse.changes.extract import ORDER_TYPE
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.drift import made_for, refuse_drift
from kedro_lakehouse.commits.fold_frames import declares
from kedro_lakehouse.commits.marks import horizon_of
from kedro_lakehouse.commits.target import bring_pending, refold
from kedro_lakehouse.errors import LandedFilesGoneError, UnsupportedError, listed
from kedro_lakehouse.ingestion.columns import declared_types
from kedro_lakehouse.names import DROP_ORDER
from kedro_lakehouse.sources.base import StreamSource, gone_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.base import GivesChanges


def refuse_rebuild(table: LakeTable) -> None:
    """Refuse a rebuild that the change log cannot serve, before anything is changed.

    Raises:
        UnsupportedError: The change log is empty or not whole, or the table has no keys.
        KeySchemaDriftError, SequenceTypeDriftError: The change log was made with other keys or another order.
    """
    config, again = table.config, f"Use `kedro lakehouse rebuild {table} --from-landing`."
    change_log = table.state("changes")
    if change_log is None or change_log.batch == 0:
        raise UnsupportedError(what=f"Nothing of {table} is recorded yet.", remedy="Run `kedro run`.")
    if config.write != "merge":
        raise UnsupportedError(what=f"{table} has no keys to fold its record by.", remedy=again)
    if horizon_of(change_log) is not None and config.history is not None:
        raise UnsupportedError(
            what=f"The change log of {table} is compacted (changes_retention): it lacks a part of history.",
            remedy=again,
        )
    order = _declared_order(table, change_log)
    refuse_drift(table.changes, change_log, table.contract, {ORDER: order} if order else {})


def rebuild_from_changes(table: LakeTable) -> None:
    """Refold current and history, each in one commit that keeps its bookmark, then apply pending batches.

    Columns that the declaration no longer includes are dropped from the change log and the targets.
    """
    refuse_rebuild(table)
    runner.run(table, {"ingestion": lambda: _DeclareAnew(table)})
    for kind in table.targets:
        refold(table, kind, declared_anew=True)
    bring_pending(table)


class _DeclareAnew(runner.Change):
    """Makes a change log fit the present declaration: its properties and its columns."""

    def __init__(self, table: LakeTable) -> None:
        super().__init__(table, table.changes, step="rebuild", batch=0)
        self._made_for = made_for(table.contract)

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.bookmark is None:
            return True
        fits = all(state.properties.get(k) == v for k, v in self._made_for.items())
        return fits and not self.dropped_columns(state)

    def write(self, _: Stage, state: TableState) -> CommitReport:
        assert state.bookmark is not None  # noqa: S101 - asked for before
        return state.bookmark

    def properties(self, _: TableState) -> Mapping[str, str]:
        return self._made_for

    def dropped_columns(self, state: TableState) -> Sequence[str]:
        own = [c for c in state.columns if c not in EVENT_COLUMNS and not c.startswith("_")]
        return [c for c in own if not declares(self.table.config, c)]


def _declared_order(table: LakeTable, change_log: TableState) -> T.DataType | None:
    """The type that the order would have in a new table; None if only its files can show it."""
    config = table.config
    source = table.open_source() if config.source else None
    if source is None or source.gives == "extracts":
        return ORDER_TYPE
    if config.order_by:
        kinds = {**change_log.columns, **declared_types(table.name, config, {})}
        if not set(config.order_by) <= kinds.keys():
            return None
        return T.StructType([T.StructField(c, kinds[c]) for c in config.order_by])
    layout = cast("GivesChanges", source).layout()
    return layout.order_type() if hasattr(layout, "order_type") else None


def begin_again(table: LakeTable) -> None:
    """Give up everything that is stored of a table, so that the next run ingests its landed files anew.

    One commit to the ledger records this. The tables themselves are dropped when the landing folder is loaded
    next, so a run after a kill ends in the same tables.

    Raises:
        LandedFilesGoneError: An ingested file is gone or was replaced; nothing was changed.
    """
    with table.lease("ingestion"):
        ledger = table.open_ledger()
        if table.config.source is not None:
            source = table.open_source()
            change_log = table.state("changes")
            accepted = ledger.chain(change_log.bookmark if change_log else None).accepted()
            gone = gone_from(source, list(dict.fromkeys(accepted)))  # asked last: it has what comes meanwhile
            if gone and isinstance(source, StreamSource):
                raise UnsupportedError(
                    what=f"{table}: {listed(gone)} no longer hold the records that were ingested.",
                    remedy=f"The change log holds them: `kedro lakehouse rebuild {table}`.",
                )
            if gone:
                raise LandedFilesGoneError(table=table.name, missing=gone, purpose="ingest them again")
        stored = [table.format.uuid(table.stored(role)) for role in DROP_ORDER]
        ledger.begin_again(filter(None, stored))
