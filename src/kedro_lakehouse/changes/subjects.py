"""Which events are about a subject: a person who is named by the value of one column."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import OP, TRUNCATE, UNSET, UPSERT, column, columns, order_fields
from kedro_lakehouse.changes.fold import canonical_row, op_rank
from kedro_lakehouse.changes.truncates import spread_truncates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

SUBJECT: Final = "__subject"
"""The only column of a frame of subjects: their values, in the type of the column that names them."""
_OWNER: Final = "__owner"
_KNOWN: Final = "__known"


@dataclass(frozen=True, kw_only=True)
class ErasedSubjects:
    """The subjects of a table that were erased, as keyed hashes, and the column that names subjects."""

    column: str
    hashes: frozenset[str]
    key: bytes = field(repr=False)

    def are_named_by(self, events: DataFrame) -> Column:
        """Whether an event names an erased subject; false for all where the column is not there yet."""
        if self.column not in events.columns:
            return F.lit(False)
        named = F.udf(_hash_is_one_of(self.hashes, self.key), "boolean", useArrow=False)
        return F.coalesce(named(column(self.column).cast("string")), F.lit(False))


def hash_of(key: bytes, subject: str) -> str:
    """What is kept of an erased subject: the HMAC-SHA256 of its identifier."""
    return hmac.new(key, subject.encode(), hashlib.sha256).hexdigest()


def _hash_is_one_of(hashes: frozenset[str], key: bytes) -> Callable[[str | None], bool]:
    # In Python and not in SQL: the key would stand in the plan, and so in Spark's event log. It imports by
    # itself, because executors may lack this package.
    def is_erased(subject: str | None) -> bool:
        import hashlib
        import hmac

        return subject is not None and hmac.new(key, subject.encode(), hashlib.sha256).hexdigest() in hashes

    return is_erased


def keys_of_subjects(events: DataFrame, contract: TableContract, name: str, subjects: DataFrame) -> DataFrame:
    """The keys that have, or had, a row which names one of the subjects.

    Schema:
        events: the key columns, ``_op``, and the column ``name``, which names the subject.
        subjects: ``__subject``.
        returns: the key columns; each key once.
    """
    of_keys = events.where(column(OP) != TRUNCATE)
    named = of_keys.join(F.broadcast(subjects), column(name) == column(SUBJECT), "left_semi")
    return named.select(*columns(contract.keys)).distinct()


def without_subjects(events: DataFrame, contract: TableContract, name: str, subjects: DataFrame) -> DataFrame:
    """The events of keys that are about none of the subjects.

    An upsert is about the subject that its row names; one that does not say it, about the subject of the row
    that it changes. A delete is about the subject of the row that it removes. So the events of a row that was
    another person's before, or is later, stay. Where the key itself names the subject, every event says it,
    also a delete that removes no row.

    Schema:
        events: all events of some keys, as the change log has them, and the truncates of the table.
        returns: the same columns, without the truncates.
    """
    owned = _with_owner(events, contract, name)
    kept = owned.join(F.broadcast(subjects), column(_OWNER) == column(SUBJECT), "left_anti")
    return kept.drop(_OWNER)


def rectified(
    events: DataFrame, contract: TableContract, name: str, subjects: DataFrame, values: Mapping[str, str]
) -> DataFrame:
    """The events of keys, with other values in the upserts that are about subjects.

    A value that an upsert did not send stays unsent.

    Args:
        values: The right values of columns, as text; each must be one of its column's type.

    Schema:
        events: all events of some keys, as the change log has them, and the truncates of the table.
        returns: the same columns, without the truncates.
    """
    owned = _with_owner(events, contract, name)
    known = F.broadcast(subjects.withColumn(_KNOWN, F.lit(True)))
    marked = owned.join(known, column(_OWNER) == column(SUBJECT), "left")
    changed = {
        target: F.when(
            column(_KNOWN) & _says(events, contract, target),
            F.lit(text).cast(events.schema[target].dataType),
        ).otherwise(column(target))
        for target, text in values.items()
    }
    return marked.withColumns(changed).select(*columns(events.columns))


def _with_owner(events: DataFrame, contract: TableContract, name: str) -> DataFrame:
    """The events of keys, without truncates, each with the subject that it is about."""
    if name in contract.keys:
        return events.where(column(OP) != TRUNCATE).withColumn(_OWNER, column(name))
    of_keys = spread_truncates(events, contract)
    ordered = Window.partitionBy(*columns(contract.keys)).orderBy(
        *order_fields(of_keys), op_rank(contract), canonical_row(of_keys, contract)
    )
    # After a delete or truncate there is no row, and so nobody whom a row names.
    named = F.when(_says(of_keys, contract, name), F.struct(column(name).alias("v"))).when(
        column(OP) != UPSERT, F.struct(F.lit(None).cast(of_keys.schema[name].dataType).alias("v"))
    )
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    last = F.last(named, ignorenulls=True)
    owner = F.when(column(OP) == UPSERT, last.over(so_far)["v"]).otherwise(last.over(before)["v"])
    return of_keys.withColumn(_OWNER, owner).where(column(OP) != TRUNCATE)


def _says(events: DataFrame, contract: TableContract, name: str) -> Column:
    """Whether an event gives a column of its row a value."""
    says = column(OP) == UPSERT
    if contract.ignores_null(name):
        says &= column(name).isNotNull()
    if UNSET in events.columns:
        says &= ~F.coalesce(F.array_contains(UNSET, name), F.lit(False))
    return says
