"""Rename columns of stored tables whose `rename` was declared after they were made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro_lakehouse.commits.history_view import ensure_view
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.base import RenamesColumns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role

logger = logging.getLogger(__name__)


def rename_columns(table: LakeTable) -> None:
    """Give the columns of a table's stored tables their declared names; without new names, read one state.

    Only metadata change: no row is written, and a history gets no new version. The change log comes last:
    after a crash, the next run finds the old names in it and finishes the rest.

    Raises:
        UnsupportedError: The format cannot rename columns, or two columns of the table would get one name.
    """
    declared = table.config.rename
    log = table.state("changes") if declared else None
    if log is None or not (names := _new_names(table, declared, log.columns.keys())):
        return
    table_format = table.format
    if not isinstance(table_format, RenamesColumns):
        raise UnsupportedError(
            what=f"{table}: {table.format_name} cannot rename the column '{next(iter(names))}' of a table.",
            remedy=f"Run `kedro lakehouse rebuild {table} --from-landing`, or remove it from `rename`.",
        )
    roles: tuple[Role, ...] = ("current", "history", "archive", "changes")
    for role in roles:
        state = table.state(role)
        left = {old: new for old, new in names.items() if state is not None and old in state.columns}
        if left:
            table_format.rename_columns(table.stored(role), left)
            logger.info(
                "%s: renamed %s", table.stored(role), ", ".join(f"{o} to {n}" for o, n in left.items())
            )
    if table.state("history") is not None:
        ensure_view(table)


def _new_names(table: LakeTable, declared: Mapping[str, str], held: Collection[str]) -> dict[str, str]:
    """The columns that a table has under the names of its source, each with its declared name."""
    there = {old: new for old, new in declared.items() if old in held and old != new}
    found = {old: new for old, new in there.items() if new not in held}
    for old in sorted(there.keys() - found.keys()):
        warning = "%s has '%s' and '%s'. `kedro lakehouse rebuild %s --from-landing` makes them one column."
        logger.warning(warning, table, old, declared[old], table)
    for new in found.values():
        olds = [old for old, name in found.items() if name == new]
        if len(olds) > 1:
            raise UnsupportedError(
                what=f"{table}: the columns '{olds[0]}' and '{olds[1]}' are there; both would be '{new}'.",
                remedy=f"Run `kedro lakehouse rebuild {table} --from-landing`, or rename one of them only.",
            )
    return found
