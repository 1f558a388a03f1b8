"""The view of a history table: created after the history's commit, and again if its definition changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro_lakehouse.changes.digest import SURROGATE_KEY
from kedro_lakehouse.changes.events import TIME, value_columns
from kedro_lakehouse.changes.history import EFFECTIVE_FROM, EFFECTIVE_TO, IS_CURRENT
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.view import digest_of, plan_view, view_name
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)


def check_view(table: LakeTable, pending: DataFrame) -> None:
    """Refuse a view that cannot be created, before the pending events are written to the history.

    Raises:
        ConfigurationError: Two columns of the view have one name, or its intervals need a date or a time.
        MissingColumnError: Neither the events nor the history have a column that the view shows.
        UnsupportedError: The environment's catalog stores no views.
    """
    view = table.config.history.view if table.config.history else None
    if view is None or TIME not in pending.columns:
        return
    table_format = table.format
    if table_format.capabilities.views and not table.environment.catalog.keeps_views:
        raise UnsupportedError(
            what=f"The view of {table}'s history cannot be kept: Glue's catalog holds no views of Iceberg.",
            remedy="Write `history: {view: null}` for this environment, or use an Iceberg REST catalog.",
        )
    state = table_format.state(table.stored("history"))
    kinds = {f.name: f.dataType.simpleString() for f in pending.schema.fields}
    known = {c: kinds[c] for c in value_columns(pending)}
    if state is not None:
        known |= {c: t.simpleString() for c, t in state.columns.items()}
    framework = {EFFECTIVE_FROM: kinds[TIME], EFFECTIVE_TO: kinds[TIME], IS_CURRENT: "boolean"}
    plan_view(table.name, table.config, framework | {SURROGATE_KEY: "bigint"} | known)


def ensure_view(table: LakeTable) -> bool:
    """Create the declared view of a table's history unless it exists as declared; return whether it did.

    Guarantees:
        Idempotent on the definition, whose hash the view stores: a second call writes nothing.

    Raises:
        UnsupportedError: A table has the view's name.
    """
    declared = table.config.history.view if table.config.history else None
    if declared is None:
        return False
    history = table.stored("history")
    state = table.format.state(history)
    if state is None:
        return False
    view = view_name(table.name, declared)
    planned = plan_view(table.name, table.config, {c: t.simpleString() for c, t in state.columns.items()})
    table_format = table.format
    definition = planned.select(table_format.sql(history), quote)
    made = table_format.ensure_view(view, definition, digest_of(definition))
    if made:
        logger.info("%s: the view %s is made", table, view)
    return made
