"""What one batch did to each key: inserted, updated, deleted, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE, column, columns, value_columns
from kedro_lakehouse.changes.fold import current_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

EFFECT: Final = "effect"
INSERTED: Final = "I"
UPDATED: Final = "U"
DELETED: Final = "D"
NOTHING: Final = "N"

_SIDE, _ROW, _ASKED, _ALL = "__side", "__row", "__asked", "__all"
_BEFORE, _AFTER, _TOUCHED = 0, 1, 2


def batch_effects(
    changes: DataFrame, contract: TableContract, batch: int, *, every_key: bool = False
) -> DataFrame:
    """Find, for each key that a batch touched, what the batch did to its row.

    The fold of a key up to the batch before is compared with its fold up to the batch: ``I`` the row
    is new, ``U`` some value differs (null-safe), ``D`` the row is deleted, ``N`` the row is as it was. A
    truncate touches the keys whose row it deleted. With ``every_key`` the rows that the batch did not
    touch are listed as ``N`` too: a full extract held them.

    Schema:
        changes: the change log: key and value columns + ``_op``, ``_order``, ``_time``, ``_batch``.
        returns: key columns + ``effect``; keys are unique.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    keys = list(contract.keys)
    upto = changes.where(column(BATCH) <= batch)
    of_batch = upto.where(column(BATCH) == batch)
    touched = of_batch.where(column(OP) != TRUNCATE).select(*columns(keys)).distinct()
    if every_key:
        wanted = upto
    else:
        # One row: whether the batch has a truncate. It may touch any key, so then no event is left out.
        truncated = of_batch.agg((F.count(F.when(column(OP) == TRUNCATE, 1)) > 0).alias(_ALL))
        marked = upto.join(touched.withColumn(_ASKED, F.lit(True)), keys, "left")
        wanted = (
            marked.crossJoin(F.broadcast(truncated))
            .where(column(_ASKED) | column(_ALL) | (column(OP) == TRUNCATE))
            .select(*columns(changes.columns))
        )
    before = current_rows(wanted.where(column(BATCH) < batch), contract)
    after = current_rows(wanted, contract)
    values = [c for c in value_columns(changes) if c not in keys]
    sides = (
        _side(before, _BEFORE, values, keys)
        .unionByName(_side(after, _AFTER, values, keys))
        .unionByName(_side(touched, _TOUCHED, values, keys, like=after))
    )
    compared = sides.groupBy(*columns(keys)).agg(
        _of(_BEFORE).alias("__before"),
        _of(_AFTER).alias("__after"),
        F.count(F.when(column(_SIDE) == _TOUCHED, 1)).alias(_ASKED),
    )
    was, is_ = column("__before").isNotNull(), column("__after").isNotNull()
    effect = (
        F.when(is_ & ~was, INSERTED)
        .when(was & ~is_, DELETED)
        .when(was & is_ & ~column("__before").eqNullSafe(column("__after")), UPDATED)
        .otherwise(NOTHING)
    )
    found = compared.select(*columns(keys), effect.alias(EFFECT), (column(_ASKED) > 0).alias(_ASKED))
    listed = found if every_key else found.where(column(_ASKED) | (column(EFFECT) != NOTHING))
    return listed.select(*columns(keys), EFFECT)


def _side(
    rows: DataFrame, side: int, values: list[str], keys: list[str], like: DataFrame | None = None
) -> DataFrame:
    kinds = {f.name: f.dataType for f in (rows if like is None else like).schema.fields}
    row = F.struct(
        F.lit(1).alias("present"),
        *[comparable(column(v), kinds[v]).alias(f"v{i}") for i, v in enumerate(values)],
    )
    if like is not None:
        kind = like.select(row.alias(_ROW)).schema[_ROW].dataType
        return rows.select(*columns(keys), F.lit(side).alias(_SIDE), F.lit(None).cast(kind).alias(_ROW))
    return rows.select(*columns(keys), F.lit(side).alias(_SIDE), row.alias(_ROW))


def _of(side: int) -> Column:
    return F.first(F.when(column(_SIDE) == side, column(_ROW)), ignorenulls=True)
