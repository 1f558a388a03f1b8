"""Apply a small batch to a target of a table with keys, without a Spark plan.

The events and the rows that they touch are read, and the changed rows are written, with pyarrow. The rules
are the same, in a process that needs no JVM (``session.sail``). A table, batch or declaration for which it is
not known to be right, or not known to be quick, takes the large way (``merge_frames``).
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import BATCH, DELETE, OP, TRUNCATE, UPSERT
from kedro_lakehouse.changes.plan import ACTION, INSERT, REMOVE, identity_columns
from kedro_lakehouse.commits.audit import refuse_doubled_rows
from kedro_lakehouse.commits.marks import horizon_of, last_move
from kedro_lakehouse.commits.merge_frames import MergeFrames, is_empty
from kedro_lakehouse.commits.rows import counts_of
from kedro_lakehouse.commits.small_rules import SmallBatch, key_of, plan_small, unsure_events, with_columns_of
from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import PlacedRows, WritesFiles
from kedro_lakehouse.session.arrow import spark_types
from kedro_lakehouse.session.sail import is_there, on_sail

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_lakehouse.changes.plan import Kind, MergePlan
    from kedro_lakehouse.commits.small_rules import PlannedRows
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)
_MOST_BYTES: Final = 32 * 2**20
"""Of larger files Spark reads the rows: it reads them side by side, and only the needed columns."""


def small_rows(table: LakeTable, plan: MergePlan, token: BatchToken) -> SmallRows | None:
    """The rows of a target after a small batch; None if the batch takes the large way.

    Raises:
        CommitConflictError: A table was changed while its rows were read.
    """
    own = vars(plan.events).get("attached") is not None  # a node of the user may have changed the events
    if not own or any(e.severity == "block" for e in table.config.expectations):
        return None

    def plan_batch() -> SmallRows | None:
        batch = _Reading(table, plan.kind, token).batch()
        if batch is None:
            return None
        planned = on_sail(plan_small, batch.given)
        return SmallRows(table, plan.kind, batch, planned, large=lambda: MergeFrames(table, plan, token))

    return try_small_way(table, plan.kind, plan_batch)


def try_small_way(table: LakeTable, step: str, work: Callable[[], _T | None]) -> _T | None:
    """What ``work`` gives without Spark; None if the batch takes the large way, which it does after an error.

    Raises:
        CommitConflictError: A table was changed while its rows were read.
    """
    if not isinstance(table.format, WritesFiles) or not is_there():
        return None
    try:
        return work()
    except CommitConflictError:
        raise
    except Exception as error:  # noqa: BLE001 - the large way does it, or says what is wrong
        # What the error says may quote values.
        logger.warning("%s %s: planned by Spark, for the small way failed: %s", table, step, _place(error))
        return None


def _place(error: BaseException) -> str:
    """The kind of an error, and the line of our own code or of a library that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What was read for a small batch, and on which state of the target."""

    given: SmallBatch
    state: TableState | None
    touched: PlacedRows | None


class _Reading:
    """Reads what planning a small batch needs."""

    def __init__(self, table: LakeTable, kind: Kind, token: BatchToken) -> None:
        self._table, self._kind, self._token = table, kind, token
        self._format = cast("Any", table.format)
        self._contract, self._most = table.contract, table.environment.small_batch

    def batch(self) -> _Read | None:
        """Everything that planning needs; None if that is too much, or needs the whole target."""
        table = self._table
        state, log = table.state(self._kind), table.state("changes")
        held = state.batch if state else 0
        if log is None or (pending := self._pending(log, held)) is None:
            return None
        facts: dict[str, Any] = {"kind": self._kind, "contract": self._contract, "bookmark": held}
        facts["horizon"] = horizon_of(log)
        if is_empty(state):
            return _Read(given=SmallBatch(past=pending, **facts), state=state, touched=None)
        if TRUNCATE in pending[OP].to_pylist():
            return None  # it may touch every row
        touched: PlacedRows | None = self._format.find_rows(
            table.stored(self._kind), state, self._keys_of(pending), most_bytes=_MOST_BYTES
        )
        if touched is None:
            return None
        touched = replace(touched, rows=with_columns_of(pending.schema, touched.rows))
        lacks = last_move(state) > 0 and self._kind == "current"
        is_whole = not (lacks and self._may_have_left(log, pending, touched, held))
        past = self._past(log, pending, touched, held) if is_whole else None
        if past is None:
            return None
        return _Read(given=SmallBatch(past=past, rows=touched.rows, **facts), state=state, touched=touched)

    def _pending(self, log: TableState, held: int) -> pa.Table | None:
        """The events of the pending batches; None if they are many, or some of the table's are excluded."""
        table, upto = self._table, self._token.batch
        if held >= upto or table.decisions.excluded(table.name):
            return None
        if any(isinstance(log.columns.get(key), _NESTED) for key in self._contract.keys):
            return None  # pyarrow finds no equal ones among them
        known = self._format.bounds(table.changes, (), BATCH, held + 1, upto)
        if known.rows > self._most:
            return None
        return self._events(log, {BATCH: range(held + 1, upto + 1)})

    def _events(self, log: TableState, among: dict[str, Any]) -> pa.Table | None:
        found: PlacedRows | None = self._format.find_rows(
            self._table.changes, log, among, most_bytes=_MOST_BYTES
        )
        return found.rows if found is not None else None

    def _keys_of(self, rows: pa.Table) -> dict[str, list[Any]]:
        return {key: pc.unique(rows[key]).to_pylist() for key in self._contract.keys}

    def _may_have_left(self, log: TableState, pending: pa.Table, touched: PlacedRows, held: int) -> bool:
        """Whether retention may have taken rows of the events' keys: then Spark brings them back."""
        keys = list(self._contract.keys)
        there = {key_of(row, keys) for row in touched.rows.select(keys).to_pylist()}
        absent = [key_of(event, keys) not in there for event in pending.select(keys).to_pylist()]
        if not any(absent):
            return False
        events = self._events(log, self._keys_of(pending.filter(pa.array(absent, pa.bool_()))))
        if events is None:
            return True
        earlier = events.filter(pc.less_equal(events[BATCH], held)).select([*keys, OP]).to_pylist()
        return any(event[OP] == UPSERT and key_of(event, keys) not in there for event in earlier)

    def _past(self, log: TableState, pending: pa.Table, touched: PlacedRows, held: int) -> pa.Table | None:
        """The pending events, the truncates, and all events of the keys of which one may be late."""
        found = [pending]
        lake, changes = self._format, self._table.changes
        if lake.may_hold(changes, OP, TRUNCATE, TRUNCATE):
            found.append(self._events(log, {OP: [TRUNCATE]}))
        deletes = lake.may_hold(changes, OP, DELETE, DELETE)
        unsure = unsure_events(pending, touched.rows, self._kind, self._contract, deletes=deletes)
        if unsure.num_rows:
            events = self._events(log, self._keys_of(unsure))
            found.append(events.filter(pc.not_equal(events[OP], TRUNCATE)) if events is not None else None)
        if any(rows is None for rows in found):
            return None
        applied = [pending, *[rows.filter(pc.less_equal(rows[BATCH], held)) for rows in found[1:]]]
        return pa.concat_tables(applied)


class SmallRows:
    """The planned rows of a target, which a commit stages as files."""

    def __init__(
        self,
        table: LakeTable,
        kind: Kind,
        batch: _Read,
        planned: PlannedRows,
        *,
        large: Callable[[], MergeFrames],
    ) -> None:
        """Take what was read and what was planned by it, and what makes the rows of the large way."""
        self._table, self._kind, self._read, self._planned = table, kind, batch, planned
        self._contract, self._large = table.contract, large

    def columns(self, state: TableState | None) -> dict[str, T.DataType]:
        """The columns that the target must have."""
        self._require(state)
        return spark_types(self._planned.rows.drop_columns([ACTION]).schema)

    def write(self, stage: Stage, state: TableState) -> dict[str, int]:
        """Write the changed rows to files and stage these; compare them with the plan.

        Where the table asks for files that only Spark writes, Spark plans and writes the batch.
        """
        self._require(state)
        planned, table = self._planned, self._table
        actions = planned.rows[ACTION]
        found = Counter(actions.to_pylist())
        rows = planned.rows.filter(pc.not_equal(actions, REMOVE)).drop_columns([ACTION])
        deleted = planned.rows.filter(pc.not_equal(actions, INSERT))
        if planned.rows.num_rows:
            target = table.stored(self._kind)
            places = self._places(deleted)
            files = cast("Any", table.format).write_files(target, state, rows, places)
            if files is None:
                counted: dict[str, int] = self._large().write(stage, state)
                return counted
            cast("Any", stage).put(files)
            stage.expect(state.rows - deleted.num_rows + rows.num_rows)
            refuse_doubled_rows(
                target, rows, self._kind, self._contract.keys, batch=self._read.given.bookmark
            )
        logger.debug("%s %s: planned and written without Spark", table, self._kind)
        return counts_of(self._kind, found, late=planned.late, stale=planned.stale)

    def validate(self, stage: Stage, state: TableState) -> None:
        """Do nothing: a table with blocking expectations takes the large way."""

    def _require(self, state: TableState | None) -> None:
        """Refuse another state than the one that was planned on; a table without rows may be new.

        Raises:
            CommitConflictError: The target was changed meanwhile.
        """
        planned = self._read.state
        if planned is None and is_empty(state):
            return
        if state is None or planned is None or state.version != planned.version:
            raise CommitConflictError(table=self._table.stored(self._kind), attempts=1)

    def _places(self, deleted: pa.Table) -> list[tuple[str, int]]:
        """Where the rows are that are to be deleted: each is there once."""
        touched = self._read.touched
        if touched is None or not deleted.num_rows:
            return []
        identity = list(identity_columns(self._kind, self._contract))
        # Of one type on both sides: a time zone or a precision would show in the texts that are compared.
        deleted = deleted.select(identity).cast(touched.rows.select(identity).schema)
        rows = touched.rows.select(identity).to_pylist()
        at = {key_of(row, identity): place for row, place in zip(rows, touched.places, strict=True)}
        return [at[key_of(row, identity)] for row in deleted.to_pylist()]
