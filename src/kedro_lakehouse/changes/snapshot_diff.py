"""Compare full extracts key by key: in which extract a key is inserted, updated or deleted.

All extracts of a batch are compared in one fold per key, however many they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.conversion import Conversion, same_type
from kedro_lakehouse.changes.events import DELETE, OP, ORDER, REASONS, UPSERT, cast_or_null, column, columns
from kedro_lakehouse.changes.extract import (
    ENDED,
    EXTRACT,
    HELD_ROW,
    RETURNS,
    STATED,
    UNTIL,
    VALID_FROM,
    in_each_extract,
    row_columns,
    starts_by_column,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

STALE: Final = "stale"
"""Value of ``_op`` for a row with other values but no newer ``updated_at``; it becomes no event."""
WAS: Final = "__was"
"""Scope of the row that the key had before (see ``scope_of``); null where it had none."""

_HOLDING: Final = "__holding"
_AFTER: Final = "__after"
"""The number of the last extract before this one that has the key; null for the key's first row."""
_LATEST: Final = "__latest"
"""The number of the last extract that has the key."""


def snapshot_diff(
    rows: DataFrame, state: DataFrame | None, contract: TableContract, *, extracts: DataFrame, count: int
) -> DataFrame:
    """Compare each key's rows from extract to extract, and return the upserts and deletes between them.

    A key whose row is quarantined counts as present and unchanged. An unchanged row gives no result.
    Extracts are numbered 1 to ``count``, as in ``rows``; number 0 is the state before them.

    For example, key 7 has price 1 in ``state`` and price 2 in extract 1, and is not in extract 2. The
    result is an upsert in extract 1 (price 2) and a delete in extract 2.

    Schema:
        rows: checked rows: key and value columns + ``_extract``, ``_reasons`` and, where the contract
            names a column for it, ``__valid_from``; of runs also ``__until``.
        state: the rows that existed before, by ``rows_before``; None for a new table.
        extracts: ``_extract``, ``_order``: one row per extract.
        returns: keys + ``_op`` (upsert | delete | stale), ``_extract``, ``__row``, ``__told`` (the row's
            start), ``__returns`` (whether the key had no row just before), ``__ended`` (if so, which
            extract of this batch deleted its last row), ``__was`` (the scope of the row before).

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Source:
        Contract section 9.
    """
    said = _statements(rows, state, contract, extracts)
    row_type = said.schema[HELD_ROW].dataType
    assert isinstance(row_type, T.StructType)  # noqa: S101 - it is built as one
    fold = _Fold(contract, row_type)
    if state is None and count == 1:
        # The first extract of a new table has nothing to be compared with: each valid row is an upsert.
        first = {HELD_ROW: column(HELD_ROW), STATED: column(STATED), RETURNS: F.lit(True)}
        fact = fold.fact(UPSERT, column(EXTRACT), first).alias("fact")
        facts = said.where(column(HELD_ROW).isNotNull()).select(*columns(contract.keys), fact)
        return facts.select(*columns(contract.keys), "fact.*")
    scoped = bool(contract.delete_scope) and contract.hard_deletes != "ignore"
    if scoped:
        said = _with_holding(said, extracts_of_scopes(rows, contract), contract)
    else:
        said = said.withColumn(_HOLDING, F.lit(None).cast("array<int>"))
    said = fold.without_repeats(said)
    statement = F.struct(
        column(EXTRACT).alias("at"),
        column(_AFTER).alias("after"),
        column(STATED).alias("stated"),
        column(_HOLDING).alias("holding"),
        column(HELD_ROW).alias("row"),
    )
    in_order = F.array_sort(F.collect_list(statement), lambda a, b: a["at"] - b["at"])
    latest = F.max(_LATEST).alias(_LATEST)
    folded = said.groupBy(*columns(contract.keys)).agg(in_order.alias("said"), latest)
    if state is not None:  # most keys are in every extract, and stay what they were
        stays = (F.size("said") == 1) & (column("said")[0]["at"] == 0) & (column(_LATEST) == count)
        folded = folded.where(~stays)
    # One more statement, after the last extract: its step finds the keys that the last extracts lack.
    last = F.struct(
        F.lit(count + 1).alias("at"),
        column(_LATEST).alias("after"),
        F.lit(None).cast("timestamp").alias("stated"),
        F.lit(None).cast("array<int>").alias("holding"),
        F.lit(None).cast(row_type).alias("row"),
    )
    ended = F.aggregate(F.concat(column("said"), F.array(last)), fold.start(), fold.step)
    return folded.select(*columns(contract.keys), F.explode(ended["facts"]).alias("fact")).select(
        *columns(contract.keys), "fact.*"
    )


def scope_of(row: Column | None, contract: TableContract) -> Column:
    """A row's scope: its values in the ``delete_scope`` columns; one constant where none are declared."""
    if not contract.delete_scope:
        return F.struct(F.lit(1).alias("s0"))
    return F.struct(
        *[(column(c) if row is None else row[c]).alias(f"s{i}") for i, c in enumerate(contract.delete_scope)]
    )


def extracts_of_scopes(rows: DataFrame, contract: TableContract) -> DataFrame:
    """List the scopes of which each extract holds a valid row: distinct ``__scope``, ``_extract``."""
    valid = rows.where(F.size(REASONS) == 0)
    numbers = [n for n in (EXTRACT, UNTIL) if n in rows.columns]
    found = valid.select(scope_of(None, contract).alias("__scope"), *columns(numbers)).distinct()
    return in_each_extract(found).distinct() if UNTIL in numbers else found


def _statements(
    rows: DataFrame, state: DataFrame | None, contract: TableContract, extracts: DataFrame
) -> DataFrame:
    """Reduce every row with a known key to a statement: key, extracts, start, and the row as one struct.

    The struct is null for a quarantined row: it says only that the key is present. The rows of ``state``
    are the statements of extract 0.
    """
    held = [*row_columns(rows, contract), *[k for k in contract.keys if k in contract.delete_scope]]
    # Always 1, but nullable by its type, because all steps of the fold must return one type.
    present = F.when(column(contract.keys[0]).isNotNull(), 1)
    row = F.struct(*columns(held), present.alias("__present"))
    known_key = F.lit(True)
    for key in contract.keys:
        known_key &= column(key).isNotNull()
    keyed = rows.where(known_key)
    stated = F.lit(None).cast("timestamp")
    if starts_by_column(contract):
        keyed = keyed.join(F.broadcast(extracts.select(EXTRACT, ORDER)), EXTRACT, "inner")
        stated = F.coalesce(column(VALID_FROM), column(ORDER)["extract_time"])
    said = keyed.select(
        *columns(contract.keys),
        EXTRACT,
        column(UNTIL if UNTIL in rows.columns else EXTRACT).alias(UNTIL),
        stated.alias(STATED),
        F.when(F.size(REASONS) == 0, row).alias(HELD_ROW),
    )
    if state is None:
        return said
    before = [F.lit(0).alias(name) for name in (EXTRACT, UNTIL)]
    known = state.select(*columns(contract.keys), *before, STATED, row.alias(HELD_ROW))
    return known.unionByName(said)


def rows_before(state: DataFrame, rows: DataFrame, contract: TableContract) -> DataFrame:
    """Give the rows that existed before a batch the columns and types of the batch's rows.

    Schema:
        state: key and value columns + ``_order``.
        returns: key and value columns + ``__told``: the row's start, with which ``updated_at`` is compared.
    """
    since = column(ORDER)["extract_time"]
    updated_at = contract.updated_at
    if updated_at and updated_at in state.columns:
        since = F.coalesce(cast_or_null(updated_at, "timestamp"), since)
    kinds = {f.name: f.dataType for f in rows.schema.fields}  # a batch may add and widen columns
    return state.select(
        *[_widened(state, c, kinds[c]).alias(c) for c in [*contract.keys, *row_columns(rows, contract)]],
        since.alias(STATED),
    )


def _widened(state: DataFrame, name: str, kind: T.DataType) -> Column:
    """A column of the state in the type of the batch; Spark casts no struct to one with another field."""
    if name not in state.columns:
        return F.lit(None).cast(kind)
    have = state.schema[name].dataType
    if not isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return column(name).cast(kind)
    return Conversion(
        source=name, name=name, kind=kind, same_type=same_type(have, kind), source_kind=have
    ).value()


def _with_holding(said: DataFrame, scopes: DataFrame, contract: TableContract) -> DataFrame:
    """Add to each row ``__holding``: the numbers of all extracts that hold valid rows of its scope."""
    holding = scopes.groupBy("__scope").agg(F.collect_list(EXTRACT).alias(_HOLDING))
    scope = F.when(column(HELD_ROW).isNotNull(), scope_of(column(HELD_ROW), contract))
    placed = said.withColumn("__of", scope)
    same = F.col("said.__of").eqNullSafe(F.col("holding.__scope"))
    return placed.alias("said").join(holding.alias("holding"), same, "left").drop("__of", "__scope")


def _let(value: Column, result: Callable[[Column], Column]) -> Column:
    """A result that uses a value several times: inside of a fold Spark computes a value at each use."""
    return F.transform(F.array(value), result)[0]


class _Fold:
    """The fold of one key: one step per statement (see ``_statements``), from the earliest to the latest.

    Its state is a struct: ``held``, the key's row, null where it has none; ``stated``, that row's start;
    ``holding``, the extracts that hold rows of its scope; ``ended``, the extract that last deleted the key;
    ``facts``, the results so far.
    """

    def __init__(self, contract: TableContract, row_type: T.StructType) -> None:
        self._contract = contract
        self._row = row_type
        self._values = [c for c in row_type.fieldNames() if c != "__present"]
        scope = T.StructType(
            [
                T.StructField(f"s{i}", row_type[c].dataType if c in self._values else T.StringType())
                for i, c in enumerate(contract.delete_scope)
            ]
            or [T.StructField("s0", T.IntegerType())]
        )
        self._kinds: dict[str, T.DataType] = {
            OP: T.StringType(),
            EXTRACT: T.IntegerType(),
            HELD_ROW: row_type,
            STATED: T.TimestampType(),
            RETURNS: T.BooleanType(),
            ENDED: T.IntegerType(),
            WAS: scope,
        }

    def without_repeats(self, said: DataFrame) -> DataFrame:
        """Leave out rows that equal the key's row in the extract before; add ``__after`` and ``__latest``.

        Spark sorts the rows for it, which takes less time than to fold them. With ``updated_at``
        all rows stay: each may be stale, and stale rows are counted.
        """
        extracts = Window.partitionBy(*columns(self._contract.keys)).orderBy(EXTRACT)
        whole = extracts.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        after = F.lag(UNTIL).over(extracts)
        placed = said.withColumns(
            {_AFTER: after, _LATEST: F.last(UNTIL).over(whole), "__before": F.lag(HELD_ROW).over(extracts)}
        ).drop(UNTIL)
        if self._contract.updated_at:
            return placed.drop("__before")
        follows = F.coalesce(column(_AFTER) + 1 == column(EXTRACT), F.lit(False))
        repeats = follows & column(HELD_ROW).isNotNull()
        repeats &= self._same(self._values, column(HELD_ROW), column("__before"))
        return placed.where(~repeats).drop("__before")

    def start(self) -> Column:
        """The state before the first statement: the key has no row."""
        fact = T.StructType([T.StructField(n, t) for n, t in self._kinds.items()])
        return F.struct(
            F.lit(None).cast(self._row).alias("held"),
            F.lit(None).cast("timestamp").alias("stated"),
            F.lit(None).cast("array<int>").alias("holding"),
            F.lit(None).cast("int").alias("ended"),
            F.array().cast(T.ArrayType(fact)).alias("facts"),
        )

    def step(self, known: Column, said: Column) -> Column:
        """Apply one statement: delete the key if an extract since the last one lacks it, then compare rows.

        ``gone`` is the extract that deletes the key, ``held`` the key's row after that delete. A row that
        differs from ``held`` is an upsert if the key had no row, if its start is newer, or if the contract
        names no ``updated_at``. Else it is stale, provided that a tracked column differs. A row of extract 0
        only sets the state.
        """
        return _let(
            self._gone(known, said),
            lambda gone: _let(
                F.when(gone.isNull(), known["held"]),
                lambda held: _let(
                    self._filled(said["row"], held),
                    lambda row: _let(
                        row.isNotNull() & ~self._same(self._values, row, held),
                        lambda differs: self._after(known, said, gone, held, row, differs),
                    ),
                ),
            ),
        )

    def _after(  # noqa: PLR0913, PLR0917 - what a step has found out
        self, known: Column, said: Column, gone: Column, held: Column, row: Column, differs: Column
    ) -> Column:
        """The state after a step."""
        newer = F.lit(True)
        if self._contract.updated_at:
            newer = held.isNull() | (said["stated"] > known["stated"])
        applied = differs & newer
        ended = F.coalesce(gone, known["ended"])
        was = F.when(known["held"].isNotNull(), scope_of(known["held"], self._contract))
        facts = [
            F.when(gone.isNotNull(), self.fact(DELETE, gone, {WAS: was})),
            F.when(
                applied & (said["at"] > 0),
                self.fact(
                    UPSERT,
                    said["at"],
                    {
                        HELD_ROW: row,
                        STATED: said["stated"],
                        RETURNS: held.isNull(),
                        ENDED: F.when(held.isNull(), ended),
                        WAS: F.when(held.isNotNull(), was),
                    },
                ),
            ),
        ]
        if self._contract.updated_at:
            other = ~self._same(self._contract.tracked(self._values), row, held)
            facts.append(F.when(differs & ~newer & other, self.fact(STALE, said["at"], {})))
        more = F.concat(known["facts"], F.filter(F.array(*facts), lambda f: f.isNotNull()))
        taken: Callable[[str, Column], Column] = lambda name, new: (  # noqa: E731
            F.when(applied, new).otherwise(known[name]).alias(name)
        )
        return F.struct(
            F.when(applied, row).otherwise(held).alias("held"),
            taken("stated", said["stated"]),
            taken("holding", said["holding"]),
            ended.alias("ended"),
            F.when(gone.isNotNull() | differs, more).otherwise(known["facts"]).alias("facts"),
        )

    def _gone(self, known: Column, said: Column) -> Column:
        """The first extract since the last statement that covers the key's scope and lacks the key.

        Without ``delete_scope`` every extract covers every key. Null where there is no such extract, where
        the key has no row, or where the contract ignores hard deletes.
        """
        if self._contract.hard_deletes == "ignore":
            return F.lit(None).cast("int")
        if not self._contract.delete_scope:
            following = said["after"] + 1
            return F.when(known["held"].isNotNull() & (following < said["at"]), following)
        between = F.filter(known["holding"], lambda n: (n > said["after"]) & (n < said["at"]))
        return F.when(known["held"].isNotNull(), F.array_min(between))

    def _filled(self, row: Column, held: Column) -> Column:
        """A row in which each null that means "unchanged" is replaced by the value of the row before."""
        if not self._contract.ignore_null:
            return row
        ignored = self._contract.ignores_null
        fields = [
            (F.coalesce(row[c], held[c]) if ignored(c) else row[c]).alias(c) for c in self._row.fieldNames()
        ]
        return F.when(row.isNotNull(), F.struct(*fields))

    def _same(self, names: list[str], row: Column, held: Column) -> Column:
        """Whether two rows are equal, null-safe, in these columns; a missing row equals none."""

        def values(of: Column) -> Column:
            compared = [*names, "__present"]
            fields = [comparable(of[c], self._row[c].dataType) for c in compared]
            return F.struct(*[field.alias(f"c{i}") for i, field in enumerate(fields)])

        return held.isNotNull() & values(row).eqNullSafe(values(held))

    def fact(self, op: str, at: Column, facts: dict[str, Column]) -> Column:
        """One result row for a key; fields that are not given are null."""
        given = {OP: F.lit(op), EXTRACT: at} | facts
        return F.struct(
            *[(given[n] if n in given else F.lit(None)).cast(t).alias(n) for n, t in self._kinds.items()]
        )
