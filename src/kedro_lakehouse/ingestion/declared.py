"""Look at a declaration by what its table is known to have: also while no new file shows a mistake."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from kedro_lakehouse.changes.events import ORDER
from kedro_lakehouse.changes.extract import ORDER_TYPE
from kedro_lakehouse.commits.drift import refuse_drift
from kedro_lakehouse.errors import MAX_EXAMPLES, MissingColumnError, SequenceTypeDriftError, did_you_mean
from kedro_lakehouse.ingestion.columns import declared_types
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)


def look_at_declaration(table: LakeTable, state: TableState, source_columns: Sequence[str] = ()) -> None:
    """Refuse keys, an order and types that do not fit the change log; warn of columns that it does not have.

    Only metadata is looked at. Columns may come with a later file, so their names are not refused.

    Args:
        table: The declared table.
        state: The published state of its change log.
        source_columns: The columns of the files that this run read; empty if it read none.

    Raises:
        KeySchemaDriftError: The declared keys are not those of the change log.
        MissingColumnError: The declared order names a column that the table does not have.
        SequenceTypeDriftError: The declared order has other columns than that of the change log.
        IncompatibleTypeError: A column has values that its declared type cannot hold.
    """
    refuse_drift(table.changes, state, table.contract, {})
    _refuse_order(table, state)
    declared_types(table.name, table.config, state.columns)
    config = table.config
    held = [*_ordered_by(table, state), *(c for c in state.columns if not is_reserved_column(c))]
    found = [*_unknown(config, held), *_not_excluded(config, source_columns)]
    if found:
        more = f" And {len(found) - MAX_EXAMPLES} more." if len(found) > MAX_EXAMPLES else ""
        said = " ".join(found[:MAX_EXAMPLES])
        logger.warning("%s: tables.yml names columns that are not there so far: %s%s", table, said, more)


def refuse_other_targets(table: LakeTable) -> None:
    """Refuse rules and tracked columns that are not those of the stored current table and history.

    Raises:
        KeySchemaDriftError, FoldRuleDriftError, TrackHistoryDriftError: A target was made by others.
    """
    for kind in table.targets:
        state = table.state(kind)
        if state is not None:
            folded = kind if table.contract.write == "merge" else None
            refuse_drift(table.stored(kind), state, table.contract, {}, folded)


def _ordered_by(table: LakeTable, state: TableState) -> list[str]:
    """The columns that the change log's order is made of, by their present names."""
    order = state.columns.get(ORDER)
    names = order.fieldNames() if isinstance(order, T.StructType) else []
    return [table.config.rename.get(name, name) for name in names]


def _refuse_order(table: LakeTable, state: TableState) -> None:
    declared, existing = list(table.config.order_by), _ordered_by(table, state)
    # Extracts have an order of their own: there, `order_by` chooses among the rows of one extract.
    of_extracts = existing == ORDER_TYPE.fieldNames()
    if not declared or not existing or declared == existing or of_extracts:
        return
    missing = [c for c in declared if c not in state.columns and c not in existing]
    if missing:
        found = dict.fromkeys([*existing, *(c for c in state.columns if not is_reserved_column(c))])
        raise MissingColumnError(
            table=table.name, missing=missing, found=list(found), place="the table, for order_by"
        )
    raise SequenceTypeDriftError(table=table.changes, existing=existing, declared=declared, name=table.name)


def _unknown(config: TableConfig, held: Sequence[str]) -> Iterator[str]:
    """Each name that is neither a column of the table nor one that another key of the declaration makes."""
    track = config.history.track if config.history else None
    named: dict[str, Iterable[str]] = {
        "types": config.types,
        "columns.include": (config.columns and config.columns.include) or (),
        "history.track": [*((track and track.include) or ()), *((track and track.exclude) or ())],
    }
    excluded = (config.columns and config.columns.exclude) or ()
    read = {*config.keys, *config.order_by, config.effective_time, *excluded}
    for key, names in named.items():
        for name in names:
            if name not in held and name not in read and name not in config.rename.values():
                near = f" Did you mean '{config.rename[name]}'?" if name in config.rename else ""
                yield f"'{name}' under {key}." + (near or did_you_mean(name, held))


def _not_excluded(config: TableConfig, source_columns: Sequence[str]) -> Iterator[str]:
    """Each excluded name that is near to a column that the files had, and is none of theirs itself.

    A table does not have the columns that it excludes: only files show that a name is mistyped.
    """
    seen = [config.rename.get(c, c) for c in source_columns]
    for name in (config.columns and config.columns.exclude) or ():
        if name not in seen and (near := did_you_mean(name, seen)):
            yield f"'{name}' under columns.exclude.{near}"
