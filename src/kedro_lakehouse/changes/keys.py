"""Key changes: an update that changes its key is a delete of the old key and an upsert of the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import DELETE, OP, TRUNCATE, UNSET, UPSERT, column, columns, value_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def split_key_changes(events: DataFrame, contract: TableContract, before: str) -> DataFrame:
    """Turn each key change into a delete of the old key and an upsert of the new one, of equal order.

    In the result a delete has its key and no values, a truncate neither.

    Schema:
        events: checked events; if some may change their key, + ``before``: a struct of the old key, null
            where the key did not change.
        returns: checked events; both halves of a key change share their reasons.
    """
    names, op, split = [c for c in value_columns(events) if c != before], column(OP), events
    changes_keys, moved = before in events.columns, column(before).isNotNull()
    if changes_keys:
        halves = F.when(moved, F.array(F.lit(DELETE), F.lit(UPSERT))).otherwise(F.array(op))
        op, split = column("__half"), events.withColumn("__half", F.explode(halves))
    deletes, truncates = op == DELETE, op == TRUNCATE
    keys = {k: F.when(~truncates | op.isNull(), column(k)) for k in contract.keys}
    if changes_keys:
        keys = {k: F.when(moved & deletes, column(before)[k]).otherwise(own) for k, own in keys.items()}
    gone = F.coalesce(deletes | truncates, F.lit(False))
    values = {v: F.when(~gone, column(v)) for v in names if v not in contract.keys}
    others = [c for c in events.columns if c not in names and c not in (before, OP, UNSET)]
    # A delete or a truncate has no values, so none of them counts as not sent.
    unset = [F.when(~gone, column(UNSET)).alias(UNSET)] if UNSET in events.columns else []
    return split.select(*[(keys | values)[n].alias(n) for n in names], op.alias(OP), *unset, *columns(others))
