"""What extracts tell of each key: when it appears, changes and goes. One fold a key, whatever the backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.events import DELETE, OP, ORDER, REASONS, UPSERT, cast_or_null, column, columns
from kedro_lakehouse.changes.extract import (
    ENDED,
    EXTRACT,
    HELD_ROW,
    RETURNS,
    TOLD,
    VALID_FROM,
    row_columns,
    starts_by_column,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

STALE: Final = "stale"
"""In place of an operation: a row with other values whose ``updated_at`` is not newer; it is no event."""
WAS: Final = "__was"
"""Values of the scope's columns in the row that the key had until then; null where it had none."""

_HOLDING: Final = "__holding"


def snapshot_diff(
    rows: DataFrame, state: DataFrame | None, contract: TableContract, *, extracts: DataFrame, count: int
) -> DataFrame:
    """Fold, for each key, the rows of full extracts into what changes from one to the next.

    A key whose row is quarantined is present and unchanged. An unchanged row tells nothing. Numbers of
    extracts are those of ``rows``: 1 to ``count``; the state before stands at 0.

    Schema:
        rows: checked rows: key and value columns + ``_extract``, ``_reasons`` and, where the contract
            names a column for it, ``__valid_from``.
        state: the rows that existed before, by ``rows_before``; None for a new table.
        extracts: ``_extract``, ``_order``: one row an extract.
        returns: keys + ``_op`` (upsert | delete | stale), ``_extract``, ``__row``, ``__told``,
            ``__returns``, ``__ended``, ``__was``.

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
        return said.where(column(HELD_ROW).isNotNull()).select(
            *columns(contract.keys), fold.fact(UPSERT, column(EXTRACT), fold.first()).alias("fact")
        ).select(*columns(contract.keys), "fact.*")  # fmt: skip
    scoped = bool(contract.delete_scope) and contract.hard_deletes != "ignore"
    if scoped:
        said = _with_holding(said, extracts_of_scopes(rows, contract), contract)
    else:
        said = said.withColumn(_HOLDING, F.lit(None).cast("array<int>"))
    statement = F.struct(
        column(EXTRACT).alias("at"), column(TOLD).alias("told"), column(_HOLDING).alias("holding"),
        column(HELD_ROW).alias("row"),
    )  # fmt: skip
    in_order = F.array_sort(F.collect_list(statement), lambda a, b: a["at"] - b["at"])
    folded = said.groupBy(*columns(contract.keys)).agg(in_order.alias("said"))
    last = F.struct(
        F.lit(count + 1).alias("at"), F.lit(None).cast("timestamp").alias("told"),
        F.lit(None).cast("array<int>").alias("holding"), F.lit(None).cast(row_type).alias("row"),
    )  # fmt: skip
    ended = F.aggregate(F.concat(column("said"), F.array(last)), fold.start(), fold.step)
    return folded.select(*columns(contract.keys), F.explode(ended["facts"]).alias("fact")).select(
        *columns(contract.keys), "fact.*"
    )


def scope_of(row: Column | None, contract: TableContract) -> Column:
    """The values that tell which part of a table a row is in; one part where no scope is declared."""
    if not contract.delete_scope:
        return F.struct(F.lit(1).alias("s0"))
    return F.struct(
        *[(column(c) if row is None else row[c]).alias(f"s{i}") for i, c in enumerate(contract.delete_scope)]
    )


def extracts_of_scopes(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Tell which parts of a table each extract holds: ``__scope``, ``_extract``; without repeats."""
    valid = rows.where(F.size(REASONS) == 0)
    return valid.select(scope_of(None, contract).alias("__scope"), column(EXTRACT)).distinct()


def _statements(
    rows: DataFrame, state: DataFrame | None, contract: TableContract, extracts: DataFrame
) -> DataFrame:
    """Collect what each extract says of each key: its row, or (quarantined row) that it is present."""
    held = [*row_columns(rows, contract), *[k for k in contract.keys if k in contract.delete_scope]]
    # Never null, but not by its type: a fold's steps must all give one type.
    present = F.when(column(contract.keys[0]).isNotNull(), 1)
    row = F.struct(*columns(held), present.alias("__present"))
    known_key = F.lit(True)
    for key in contract.keys:
        known_key &= column(key).isNotNull()
    keyed = rows.where(known_key)
    told = F.lit(None).cast("timestamp")
    if starts_by_column(contract):
        keyed = keyed.join(F.broadcast(extracts.select(EXTRACT, ORDER)), EXTRACT, "inner")
        told = F.coalesce(column(VALID_FROM), column(ORDER)["extract_time"])
    said = keyed.select(
        *columns(contract.keys), EXTRACT, told.alias(TOLD),
        F.when(F.size(REASONS) == 0, row).alias(HELD_ROW),
    )  # fmt: skip
    if state is None:
        return said
    known = state.select(*columns(contract.keys), F.lit(0).alias(EXTRACT), TOLD, row.alias(HELD_ROW))
    return known.unionByName(said)


def rows_before(state: DataFrame, rows: DataFrame, contract: TableContract) -> DataFrame:
    """Give the rows that stood before a batch the columns and types that the batch's rows have.

    Schema:
        state: key and value columns + ``_order``.
        returns: key and value columns + ``__told``: the start by which ``updated_at`` is compared.
    """
    since = column(ORDER)["extract_time"]
    tells = contract.updated_at
    if tells and tells in state.columns:
        since = F.coalesce(cast_or_null(tells, "timestamp"), since)
    kinds = {f.name: f.dataType for f in rows.schema.fields}
    return state.select(
        *[
            _as(column(c) if c in state.columns else F.lit(None), kinds[c]).alias(c)
            for c in [*contract.keys, *row_columns(rows, contract)]
        ],
        since.alias(TOLD),
    )


def _as(value: Column, kind: T.DataType) -> Column:
    """A value in the type that it has from this batch on: columns may be added and widened."""
    return value.cast(kind)


def _with_holding(said: DataFrame, scopes: DataFrame, contract: TableContract) -> DataFrame:
    """Add the numbers of all extracts that speak of the part of the table that a row is in."""
    holding = scopes.groupBy("__scope").agg(F.collect_list(EXTRACT).alias(_HOLDING))
    scope = F.when(column(HELD_ROW).isNotNull(), scope_of(column(HELD_ROW), contract))
    placed = said.withColumn("__of", scope)
    same = F.col("said.__of").eqNullSafe(F.col("holding.__scope"))
    return placed.alias("said").join(holding.alias("holding"), same, "left").drop("__of", "__scope")


class _Fold:
    """One step for each statement about a key, from the earliest to the latest."""

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
            OP: T.StringType(), EXTRACT: T.IntegerType(), HELD_ROW: row_type, TOLD: T.TimestampType(),
            RETURNS: T.BooleanType(), ENDED: T.IntegerType(), WAS: scope,
        }  # fmt: skip

    def start(self) -> Column:
        """Nothing is known of the key."""
        fact = T.StructType([T.StructField(n, t) for n, t in self._kinds.items()])
        return F.struct(
            F.lit(None).cast(self._row).alias("held"), F.lit(None).cast("timestamp").alias("told"),
            F.lit(None).cast("array<int>").alias("holding"), F.lit(0).alias("at"),
            F.lit(None).cast("int").alias("ended"), F.array().cast(T.ArrayType(fact)).alias("facts"),
        )  # fmt: skip

    def first(self) -> dict[str, Column]:
        """The facts of a row of the very first extract."""
        return {HELD_ROW: column(HELD_ROW), TOLD: column(TOLD), RETURNS: F.lit(True)}

    def step(self, known: Column, said: Column) -> Column:
        """Take one more statement: the key may have gone since the last one, and now has this row."""
        gone = self._gone(known, said)
        held = F.when(gone.isNull(), known["held"])
        row = self._filled(said["row"], held)
        differs = row.isNotNull() & ~self._same(self._values, row, held)
        newer = F.lit(True)
        if self._contract.updated_at:
            newer = held.isNull() | (said["told"] > known["told"])
        applied = differs & newer
        ended = F.coalesce(gone, known["ended"])
        was = F.when(known["held"].isNotNull(), scope_of(known["held"], self._contract))
        facts = [
            F.when(gone.isNotNull(), self.fact(DELETE, gone, {WAS: was})),
            F.when(
                applied & (said["at"] > 0),
                self.fact(
                    UPSERT, said["at"],
                    {HELD_ROW: row, TOLD: said["told"], RETURNS: held.isNull(),
                     ENDED: F.when(held.isNull(), ended), WAS: F.when(held.isNotNull(), was)},
                ),
            ),
        ]  # fmt: skip
        if self._contract.updated_at:
            other = ~self._same(self._contract.tracked(self._values), row, held)
            facts.append(F.when(differs & ~newer & other, self.fact(STALE, said["at"], {})))
        more = F.concat(known["facts"], F.filter(F.array(*facts), lambda f: f.isNotNull()))
        taken: Callable[[str, Column], Column] = lambda name, new: (  # noqa: E731
            F.when(applied, new).otherwise(known[name]).alias(name)
        )
        return F.struct(
            F.when(applied, row).otherwise(held).alias("held"),
            taken("told", said["told"]),
            taken("holding", said["holding"]),
            said["at"].alias("at"),
            ended.alias("ended"),
            F.when(gone.isNotNull() | differs, more).otherwise(known["facts"]).alias("facts"),
        )

    def _gone(self, known: Column, said: Column) -> Column:
        """The first extract since the last statement that speaks of the key's row and lacks it."""
        if self._contract.hard_deletes == "ignore":
            return F.lit(None).cast("int")
        if not self._contract.delete_scope:
            following = known["at"] + 1
            return F.when(known["held"].isNotNull() & (following < said["at"]), following)
        between = F.filter(known["holding"], lambda n: (n > known["at"]) & (n < said["at"]))
        return F.when(known["held"].isNotNull(), F.array_min(between))

    def _filled(self, row: Column, held: Column) -> Column:
        """A row in which nulls that mean "unchanged" are the values that they leave."""
        if not self._contract.ignore_null:
            return row
        ignored = self._contract.ignores_null
        fields = [
            (F.coalesce(row[c], held[c]) if ignored(c) else row[c]).alias(c) for c in self._row.fieldNames()
        ]
        return F.when(row.isNotNull(), F.struct(*fields))

    def _same(self, names: list[str], row: Column, held: Column) -> Column:
        """Whether two rows agree, null-safe, on these columns; a missing row agrees with none."""

        def values(of: Column) -> Column:
            compared = [*names, "__present"]
            fields = [comparable(of[c], self._row[c].dataType) for c in compared]
            return F.struct(*[field.alias(f"c{i}") for i, field in enumerate(fields)])

        return held.isNotNull() & values(row).eqNullSafe(values(held))

    def fact(self, op: str, at: Column, facts: dict[str, Column]) -> Column:
        """One thing told of a key; what is not given is null."""
        given = {OP: F.lit(op), EXTRACT: at} | facts
        return F.struct(
            *[(given[n] if n in given else F.lit(None)).cast(t).alias(n) for n, t in self._kinds.items()]
        )
