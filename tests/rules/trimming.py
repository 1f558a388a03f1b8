"""A change log that keeps one event of each key from before a horizon, on frames of any session."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kedro_lakehouse.changes.compact import fold_old_events, is_old
from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.history import history_rows
from kedro_lakehouse.commits.small_rules import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Fact = tuple[str, int | None, str | None, int, int, int]
    """Operation, key, value, order, the day on which it took effect, batch."""

SCHEMA = pa.schema({
    "id": pa.int64(), "v": pa.string(), "_op": pa.string(), "_order": pa.struct({"n": pa.int64()}),
    "_time": pa.timestamp("us"), "_batch": pa.int64(),
    "_position": pa.struct({"file": pa.string(), "row": pa.int64()}),
})  # fmt: skip
CONTRACT = TableContract(table="a.b", keys=("id",))


def day(number: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1) + dt.timedelta(days=number)  # noqa: DTZ001 - zone-less, as DMS writes it


HORIZON = day(30).replace(tzinfo=dt.UTC)


def frame(session: SparkSession, *facts: Fact) -> DataFrame:
    rows = [
        {"id": i, "v": v, "_op": op, "_order": {"n": order}, "_time": day(on), "_batch": batch,
         "_position": {"file": "f", "row": order}}
        for op, i, v, order, on, batch in facts
    ]  # fmt: skip
    return frame_of(session, pa.Table.from_pylist(rows, SCHEMA))


def random_events(chance: random.Random, orders: range, batch: int, *, shuffled: bool = False) -> list[Fact]:
    days = list(orders)
    if shuffled:
        chance.shuffle(days)
    return [
        (op := chance.choice(["upsert", "upsert", "delete"]), chance.randint(1, 4),
         chance.choice("ab") if op == "upsert" else None, order, on, batch)
        for order, on in zip(orders, days, strict=True)
    ]  # fmt: skip


def trim(events: DataFrame, applied: int) -> DataFrame:
    folded = fold_old_events(events, CONTRACT, horizon=HORIZON, applied=applied, opened=True)
    trimmed = folded.unionByName(events.where(~is_old(HORIZON, applied)), allowMissingColumns=True)
    # As a record is read back: a plan of plans would be analysed again with every question.
    return frame_of(events.sparkSession, trimmed.toArrow())


def rows_of(events: DataFrame) -> tuple[set[Any], set[Any]]:
    """The current rows, and the versions that did not end before the horizon."""
    lasting = history_rows(events, CONTRACT).where(f"effective_to IS NULL OR effective_to >= '{day(30)}'")
    return set(current_rows(events, CONTRACT).collect()), set(lasting.collect())


def _spread(events: list[Fact], more: int) -> list[Fact]:
    """Orders ten times as far apart, so that later events fit between them."""
    return [(*e[:3], e[3] * 10 + more, *e[4:]) for e in events]


def with_later_events(session: SparkSession, seed: int) -> dict[str, bool]:
    """What holds of a trimmed record beside the whole one, without and with later events."""
    chance = random.Random(seed)  # noqa: S311
    first, pending = random_events(chance, range(5, 45), 1), random_events(chance, range(45, 50), 2)
    whole = frame(session, *_spread(first, 0), *_spread(pending, 0))
    late = [(*e[:-1], 3) for e in random_events(chance, range(30, 50), 3)][::3]
    newer = random_events(chance, range(60, 70), 3)
    later = frame(session, *_spread(late, 5), *_spread(newer, 0))
    kept = trim(whole, 1)
    rows = rows_of(whole)
    return {
        "it is smaller": kept.count() < whole.count(),
        "its rows are the same": rows_of(kept) == rows,
        "with later events they are": rows_of(kept.unionByName(later, allowMissingColumns=True))
        == rows_of(whole.unionByName(later)),
        "trimmed again they are": rows_of(trim(kept, 1)) == rows,
    }


def with_times_of_any_order(session: SparkSession, seed: int) -> dict[str, bool]:
    """The same where the times of the events do not follow their order."""
    whole = frame(session, *random_events(random.Random(seed), range(5, 60), 1, shuffled=True))  # noqa: S311
    kept = trim(whole, 1)
    return {
        "it is smaller": kept.count() < whole.count(),
        "its rows are the same": rows_of(kept) == rows_of(whole),
    }


def kept_events(session: SparkSession, facts: list[Fact]) -> list[tuple[str, int | None, int]]:
    """Operation, key and order of the events that stay."""
    return sorted((r["_op"], r["id"], r["_order"]["n"]) for r in trim(frame(session, *facts), 1).collect())
