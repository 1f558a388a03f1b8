"""Which columns a table has, as far as that is known without its rows: stored, landed, or declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.config.enrich import enriched_columns
from kedro_lakehouse.config.sources import StreamSourceConfig
from kedro_lakehouse.ingestion.landing import planner_of
from kedro_lakehouse.names import is_reserved_column
from kedro_lakehouse.ops.failures import known

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable


_NEWEST: Final = 3
"""So many files of a table are opened."""


def is_local(table: LakeTable) -> bool:
    """Whether a table's files lie in a folder of this machine, into which others put them."""
    if table.declared_source is None or table.is_pulled:
        return False
    config = table.source_config
    return not isinstance(config, StreamSourceConfig) and "://" not in config.path


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


def landed_columns(table: LakeTable) -> frozenset[str] | None:
    """The columns of the newest files in a folder of this machine; None where only reading tells."""
    if not is_local(table):
        return None
    try:
        planner = planner_of(table)
        if planner.reader.file_format not in ("parquet", "csv"):
            return None
        shapes = planner.reader.look(planner.listed()[-_NEWEST:])
    except Exception as error:
        if known(error, "") is None:
            raise
        return None  # it is told of the source, or by the plan of a run
    rename = table.config.rename
    return frozenset(rename.get(name, name) for shape in shapes for name, _ in shape.columns) or None


def known_columns(table: LakeTable, *, reach: bool, thorough: bool) -> frozenset[str] | None:
    """All columns of a table that is not derived, as far as they are known; None if they are not.

    The newest files tell them, the stored table, or a declaration that lists them all. To open a stored table
    takes longer than all else: beside files it is only looked at if ``thorough``.
    """
    chosen, landed = table.config.columns, landed_columns(table)
    lists_all = chosen is not None and chosen.include is not None
    stored = None
    if thorough or (landed is None and not lists_all):
        stored = stored_columns(table, reach=reach)
    if landed is None and stored is None and not lists_all:
        return None
    return declared_columns(table) | (landed or frozenset()) | (stored or frozenset())
