"""The checked events of a small batch: collected by one query, and written to the change log with pyarrow."""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import OP, ORDER, REASONS, TIME, UPSERT, column
from kedro_lakehouse.changes.validate import TOO_LATE
from kedro_lakehouse.commits.event_frames import EXACT_TIMES, EventFrames, digest_of_row, lag_since
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.commits.small_rules import key_of
from kedro_lakehouse.errors import AuditFailedError
from kedro_lakehouse.formats.base import WritesFiles
from kedro_lakehouse.session.sail import is_there

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable

_BYTES_PER_EVENT: Final = 256
"""Landed files with more bytes than this for each event of a small batch are not collected."""
_DIGEST, _SAID = "__digest", "__said"


def are_small(table: LakeTable, token: BatchToken) -> bool:
    """Whether the landed files of a batch are small enough to collect its events, by the ledger alone."""
    given, most = table.environment.ingesting.get(table.name), table.environment.small_batch
    if given is None or given.planned.content_hash != token.content_hash:
        return False
    landed = sum(file.size for file in given.planned.files)
    return is_there() and landed <= most * _BYTES_PER_EVENT and isinstance(table.format, WritesFiles)


class SmallEvents:
    """The checked events of a small batch.

    Where a rule compares events with each other, or with those of earlier batches, Spark writes them.
    """

    def __init__(
        self, table: LakeTable, token: BatchToken, *, accepted: DataFrame, rejected: DataFrame
    ) -> None:
        """Take two frames that each contain all events; an event with reasons is a rejected one."""
        self._table, self._token, self._events = table, token, accepted
        self._large = EventFrames(table.format, table.contract, token, accepted=accepted, rejected=rejected)

    def columns(self) -> dict[str, T.DataType]:
        """The columns that the change log must have to store the events."""
        return self._large.columns()

    def rejected(self) -> DataFrame:
        """The rejected events as rows of the quarantine table."""
        return self._large.rejected()

    def reading(self) -> AbstractContextManager[None]:
        """While the block runs, name the landed file in the error if Spark cannot read one."""
        return self._large.reading()

    def write(self, stage: Stage, state: TableState) -> Staged:
        """Stage the accepted events as files.

        Raises:
            AuditFailedError: Fewer events were read than the plan counted.
        """
        names = list(self.columns())
        events = self._collected(names)
        valid = events.filter(pc.equal(pc.list_value_length(events[REASONS]), 0))
        found = _counted(events, valid)
        if events.num_rows > self._table.environment.small_batch or self._repeats(valid, found, state):
            return self._large.write(stage, state)
        if events.num_rows < self._token.at_least:
            raise AuditFailedError(
                table=stage.table,
                batch=self._token.batch,
                check="row arithmetic",
                expected=self._token.at_least,
                found=events.num_rows,
            )
        if valid.num_rows:
            table = self._table
            files = cast("Any", table.format).write_files(table.changes, state, valid.select(names), ())
            if files is None:
                return self._large.write(stage, state)
            cast("Any", stage).put(files)
            stage.expect(state.rows + valid.num_rows)
        return found

    def _collected(self, names: list[str]) -> pa.Table:
        """All events, each with its digest and its order as text, by one query."""
        said = F.to_json(column(ORDER), EXACT_TIMES).alias(_SAID)
        digest = digest_of_row(self._events, names).alias(_DIGEST)
        stored = [column(name) for name in names]
        return self._events.select(*stored, column(REASONS), digest, said).toArrow()

    def _repeats(self, valid: pa.Table, found: Staged, state: TableState) -> bool:
        """Whether events may repeat each other, or events of earlier batches; of tables with keys only."""
        contract = self._table.contract
        if contract.write != "merge":
            return False
        at = [*contract.keys, ORDER]
        places = {key_of(row, at) for row in valid.select(at).to_pylist()}
        if len(places) < valid.num_rows:
            return True
        return bool(valid.num_rows and state.rows and self._large.overlaps(found, state))


def _counted(events: pa.Table, valid: pa.Table) -> Staged:
    """What the large way observes while it writes."""
    reasons = [row[0] if row else None for row in events[REASONS].to_pylist()]
    orders = sorted(zip(valid[ORDER].to_pylist(), valid[_SAID].to_pylist(), strict=True), key=_rank)
    first = next(iter(orders[0][0])) if orders else ""
    ends = (orders[0], orders[-1]) if orders else (({}, None), ({}, None))
    times = valid[TIME] if pa.types.is_timestamp(valid[TIME].type) else None
    last = pc.max(times).as_py() if times is not None and valid.num_rows else None
    digest = reduce(xor, valid[_DIGEST].to_pylist()) if valid.num_rows else None
    return Staged(
        events_in=events.num_rows,
        quarantined=sum(reason is not None for reason in reasons),
        too_late=sum(reason == TOO_LATE for reason in reasons),
        applied=valid.num_rows,
        upserts=valid[OP].to_pylist().count(UPSERT),
        digest=str(digest),
        first_orders=(ends[0][0].get(first), ends[1][0].get(first)),
        facts={
            "lag_seconds": lag_since(last),
            "min_order": ends[0][1],
            "max_order": ends[1][1],
        },
    )


def _rank(event: tuple[Mapping[str, Any], str]) -> tuple[Any, ...]:
    """Orders as Spark compares them: field by field, nulls first."""
    return tuple((value is not None, value) for value in event[0].values())
