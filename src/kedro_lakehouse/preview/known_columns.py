"""Which columns a table has, as far as that is known without its data: stored, declared, or of its query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.config.enrich import enriched_columns
from kedro_lakehouse.names import is_reserved_column
from kedro_lakehouse.ops.failures import known

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable


def declared_columns(table: LakeTable) -> frozenset[str]:
    """The columns that the declaration names: the table has them, or will have them."""
    config, chosen = table.config, table.config.columns
    named = {*config.keys, *config.order_by, *config.types, *config.rename.values()}
    named |= {*filter(None, [config.effective_time]), *enriched_columns(config.enrich)}
    named |= {config.rename.get(name, name) for name in (chosen and chosen.include) or ()}
    return frozenset(named)


def stored_columns(table: LakeTable, *, reach: bool) -> frozenset[str] | None:
    """The columns of the stored table; None where there is none.

    Tables beyond this machine are looked at only if ``reach``.
    """
    environment = table.environment
    if not reach and ("://" in environment.lakehouse or not environment.catalog.is_embedded):
        return None
    try:
        state = table.state("changes")
    except Exception as error:
        if known(error, "") is None:
            raise
        return None  # what keeps the table from being read, a run will say
    if state is None:
        return None
    return frozenset(name for name in state.columns if not is_reserved_column(name))


def known_columns(table: LakeTable, *, reach: bool) -> frozenset[str] | None:
    """All columns of a table that is not derived, by its stored table or its declaration; else None."""
    stored, declared = stored_columns(table, reach=reach), declared_columns(table)
    if stored is not None:
        return stored | declared
    chosen = table.config.columns
    return declared if chosen is not None and chosen.include is not None else None
