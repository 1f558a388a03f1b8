"""Compare few rows of a derived table's result with the rows that the table has, without a Spark plan.

The query has given the rows their types, so nothing is decoded. Left to Spark is what could reject a row, and
what looks further than at one row and the one before it.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import same_type
from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    OP,
    ORDER,
    POSITION,
    REASONS,
    TIME,
    UPSERT,
)
from kedro_lakehouse.changes.extract import ORDER_TYPE, starts_by_column
from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.ingestion.guards import ExtractCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.decoders.records import Columns
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.touched_keys import KeyCut
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)

_PLAIN = (
    T.StringType, T.IntegralType, T.FractionalType, T.DateType, T.BooleanType, T.BinaryType, T.TimestampType,
    T.TimestampNTZType,
)  # fmt: skip
"""Types whose values Python compares as Spark does; of the rest, parts would have to be compared."""
_MOST_BYTES = 64 * 2**20
"""Of larger files together Spark reads the table's rows."""


@dataclass(frozen=True, kw_only=True)
class ComparedResult:
    """The changes that a result makes to a table, and what guards ask of it.

    Schema:
        changes: the value columns in the change log's types + ``_op``; of a delete the keys alone.
    """

    changes: pa.Table
    counts: ExtractCounts

    def events(self, log: TableState, *, batch: int, time: dt.datetime, name: str) -> pa.Table:
        """The checked events of the batch: of one extract, taken at ``time`` and named ``name``."""
        from pyspark.sql.pandas.types import to_arrow_type

        number = self.changes.num_rows
        order: Any = to_arrow_type(log.columns[ORDER])
        place: Any = to_arrow_type(log.columns[POSITION])
        facts = {
            ORDER: [{"extract_time": time, "extract_name": name}] * number,
            TIME: [time] * number,
            BATCH: [batch] * number,
            POSITION: [{"file": name, "row": None}] * number,
            REASONS: [[]] * number,
        }
        kinds = {
            ORDER: order, TIME: to_arrow_type(log.columns[TIME]), BATCH: pa.int64(), POSITION: place,
            REASONS: pa.list_(pa.string()),
        }  # fmt: skip
        events = self.changes
        for column, values in facts.items():
            events = events.append_column(column, pa.array(values, kinds[column]))
        return events


def compare_result(
    table: LakeTable, cut: KeyCut, columns: Columns, *, most_rows: int
) -> ComparedResult | None:
    """Compare the few rows of a result with the table's; None if Spark must do it."""
    log, current, found = table.state("changes"), table.state("current"), cut.local
    if found is None or log is None or current is None or table.erased_subjects() is not None:
        return None  # rows of erased subjects are rejected
    if not _is_plain(table.contract, columns, log, current):
        return None
    values = list(columns.types)
    sources = {columns.name_of(f.name): f for f in cut.result.schema.fields}
    if sources.keys() != set(values) or any(
        not same_type(sources[name].dataType, kind) for name, kind in columns.types.items()
    ):
        return None
    before = _rows_before(table, cut, current)
    if before is None:
        return None
    kinds = _kinds(log, values)
    rows = found.rename_columns([columns.name_of(n) for n in found.column_names]).to_pylist()
    if max(len(rows), before.num_rows) > most_rows:
        return None
    logger.debug("%s: %s rows of its result are compared without Spark", table, len(rows))
    return _compared(rows, before.to_pylist(), list(table.contract.keys), values, kinds)


def _is_plain(contract: TableContract, columns: Columns, log: TableState, current: TableState) -> bool:
    """Whether each row is valid if its key is known, and each change follows from two rows alone."""
    looks_further = (
        contract.checks or contract.order_by or contract.ignore_null or contract.delete_scope
        or contract.unset_marker is not None or starts_by_column(contract) or columns.carried
        or contract.hard_deletes == "ignore"
    )  # fmt: skip
    if looks_further or not same_type(log.columns[ORDER], ORDER_TYPE):
        return False
    return all(
        isinstance(kind, _PLAIN)
        and all(name in state.columns and same_type(state.columns[name], kind) for state in (log, current))
        for name, kind in columns.types.items()
    )


def _rows_before(table: LakeTable, cut: KeyCut, current: TableState) -> pa.Table | None:
    """The table's rows of the touched keys, where they are known to be found without Spark."""
    among: dict[str, list[Any]] = {}
    for place, name in enumerate(cut.names):
        plain = cut.keys.plain(place)
        if plain is None:
            return None
        among[name] = plain
    lake: Any = table.format
    try:
        found = lake.find_rows(table.name, current, among, most_bytes=_MOST_BYTES)
    except CommitConflictError:  # the commit will find that, too
        return None
    if found is None or len(among) == 1:
        return None if found is None else found.rows
    wanted = set(cut.keys.rows or ())
    told = zip(*[found.rows[name].to_pylist() for name in cut.names], strict=True)
    rows: pa.Table = found.rows.filter(pa.array([row in wanted for row in told], pa.bool_()))
    return rows


def _kinds(log: TableState, values: Sequence[str]) -> dict[str, pa.DataType]:
    from pyspark.sql.pandas.types import to_arrow_type

    return {name: to_arrow_type(log.columns[name]) for name in values}


def _compared(
    rows: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    values: Sequence[str],
    kinds: Mapping[str, pa.DataType],
) -> ComparedResult | None:
    """Compare rows by their keys; None if a key is null or twice: then rows are rejected."""
    new, old = ({tuple(_comparable(r[k]) for k in keys): r for r in some} for some in (rows, before))
    if len(new) < len(rows) or len(old) < len(before) or any(None in key for key in new):
        return None
    upserts = [r for k, r in new.items() if k not in old or _told(r, values) != _told(old[k], values)]
    deletes = [{name: r[name] for name in keys} for k, r in old.items() if k not in new]
    changed = [{name: r.get(name) for name in values} for r in (*upserts, *deletes)]
    schema = pa.schema([pa.field(name, kinds[name]) for name in values])
    ops = pa.array([UPSERT] * len(upserts) + [DELETE] * len(deletes), pa.string())
    number = len(rows)
    counts = ExtractCounts(
        landed=number, keyed=number, rows=number, upserts=len(upserts), deletes=len(deletes),
        in_scope=len(before),
    )  # fmt: skip
    return ComparedResult(changes=pa.Table.from_pylist(changed, schema).append_column(OP, ops), counts=counts)


def _told(row: Mapping[str, Any], values: Sequence[str]) -> list[Any]:
    return [_comparable(row[name]) for name in values]


def _comparable(value: Any) -> Any:
    """A value that equals itself, as in Spark: in Python NaN does not. Of times the zone is left out."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - that is how NaN is told
        return "NaN"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value
