"""The checked events of one batch as Spark frames: deduplicated, staged and counted in one pass."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable, comparable_row
from kedro_lakehouse.changes.events import (
    CONCERNED,
    EVENT_COLUMNS,
    LOOKUP,
    OP,
    ORDER,
    POSITION,
    REASONS,
    TIME,
    TRUNCATE,
    UNSET,
    UPSERT,
    all_of,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.fold import flag_repeats
from kedro_lakehouse.changes.validate import TOO_LATE, split_reasons
from kedro_lakehouse.commits.audit import doubles_a_key
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.commits.rows import QUARANTINE_COLUMNS, Staged
from kedro_lakehouse.errors import AuditFailedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.observation import observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableFormat, TableState

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
REPEAT: Final = "__repeat"
TIE: Final = "__tie"
AGAIN: Final = "__again"


class EventFrames:
    """The checked events of one batch as Spark frames."""

    def __init__(
        self,
        table_format: TableFormat,
        contract: TableContract,
        token: BatchToken,
        *,
        accepted: DataFrame,
        rejected: DataFrame,
    ) -> None:
        """Take two frames that each contain all events; an event with reasons is a rejected one."""
        self._format, self._contract, self._token = table_format, contract, token
        self._name = TableName.parse(contract.table)
        self._changes = self._name.with_suffix("changes")
        self._events, self._rejected = accepted, rejected

    def columns(self) -> dict[str, T.DataType]:
        """The columns that the change log must have to store the events."""
        kinds = {f.name: f.dataType for f in self._events.schema.fields}
        return {c: kinds[c] for c in _stored_columns(self._events)}

    def rejected(self) -> DataFrame:
        """The rejected events as rows of the quarantine table."""
        reasons, concerned = split_reasons()
        rejected = self._rejected.where(F.size(REASONS) > 0)
        return rejected.withColumns({REASONS: reasons, CONCERNED: concerned}).select(*QUARANTINE_COLUMNS)

    def reading(self) -> AbstractContextManager[None]:
        """While the block runs, name the landed file in the error if Spark cannot read one."""
        return reading_errors(self._name, self._events)

    def write(self, stage: Stage, state: TableState) -> Staged:
        """Stage the accepted events; stage them again without repeats if earlier batches may contain some.

        To find repeats Spark sorts whole rows by their keys. A full load is staged as it is read, and its
        staged keys are looked at; it is staged again if two of them are equal.

        Raises:
            AuditFailedError: In each of three attempts, the staged rows were not those that were read.
        """
        if self._token.full_load and not state.rows and self._contract.write == "merge":
            found = self._written(stage, state, sorts=False)
            if not doubles_a_key(stage, self._contract.keys):
                return found
            stage.drop()
        found = self._written(stage, state)
        overlapping = (
            found.applied and state.rows and self._contract.write == "merge" and self._overlaps(found, state)
        )
        if overlapping:
            stage.drop()
            found = self._written(stage, state, overlap=found)
        return found

    def _written(
        self, stage: Stage, state: TableState, overlap: Staged | None = None, *, sorts: bool = True
    ) -> Staged:
        """Stage events until the plan, the counts that Spark observed and the staged files agree."""
        for attempt in range(1, _ATTEMPTS + 1):
            found = self._write(stage, overlap, sorts=sorts)
            staged, lacking = stage.rows() - state.rows, self._token.at_least - found.events_in
            if staged == found.applied and lacking <= 0:
                return found
            stage.drop()
            logger.warning("%s: what was staged is not what was read, attempt %s", self._changes, attempt)
        raise AuditFailedError(
            table=self._changes,
            batch=self._token.batch,
            check="row arithmetic",
            expected="as many staged rows as accepted events",
            found="other counts each time",
        )

    def _write(self, stage: Stage, overlap: Staged | None, *, sorts: bool) -> Staged:
        events, all_of_them, kept = self._events, Observation(), Observation()
        facts = (
            F.count(F.lit(1)).alias("events_in"),
            F.count(F.when(F.size(REASONS) > 0, 1)).alias("quarantined"),
            F.count(F.when(F.get(REASONS, F.lit(0)) == TOO_LATE, 1)).alias("too_late"),
        )
        watched = events.observe(all_of_them, *facts)
        valid = watched.where(F.size(REASONS) == 0)
        if sorts:
            flagged = self._without_repeats(valid, overlap)
        else:
            flagged = valid.withColumns({TIE: F.lit(col=False), AGAIN: F.lit(col=False)})
        stage.append(_observed_rows(flagged, kept, _stored_columns(events)))
        # Spark may lose the observed counts, but only if no event was accepted: then a job counts.
        counts = observed(all_of_them) or events.agg(*facts).collect()[0].asDict()
        return _staged(counts, observed(kept))

    def _without_repeats(self, valid: DataFrame, overlap: Staged | None) -> DataFrame:
        """Drop events that repeat one of the same batch exactly, or one of an earlier batch (``overlap``).

        In a table without keys every row counts, so nothing is dropped.
        """
        if self._contract.write != "merge":
            return valid.withColumns({TIE: F.lit(col=False), AGAIN: F.lit(col=True)})
        flagged = flag_repeats(valid, self._contract, repeat=REPEAT, tie=TIE, again=AGAIN)
        flagged = flagged.where(~column(REPEAT))
        if overlap is None:
            return flagged
        return _without(flagged, self._format.read(self._changes), self._contract, overlap)

    def _overlaps(self, found: Staged, state: TableState) -> bool:
        """Whether files of earlier batches may contain events with the same orders; reads only metadata."""
        first = state.columns[ORDER].fieldNames()[0]  # type: ignore[attr-defined]
        low, high = found.first_orders
        return self._format.may_hold(self._changes, f"{ORDER}.{first}", low, high)


def _stored_columns(events: DataFrame) -> list[str]:
    more = [name for name in (UNSET, LOOKUP) if name in events.columns]
    return [*EVENT_COLUMNS, *more, *value_columns(events)]


def _observed_rows(flagged: DataFrame, kept: Observation, names: Sequence[str]) -> DataFrame:
    """The rows to write; Spark counts them and computes their digest while it writes them."""
    kinds = {f.name: f.dataType for f in flagged.schema.fields}
    hashed = [comparable(column(n), kinds[n]) for n in names if n != POSITION]
    first = kinds[ORDER].fieldNames()[0]  # type: ignore[attr-defined]
    timed = kinds[TIME].typeName().startswith("timestamp")
    return flagged.observe(
        kept,
        F.count(F.lit(1)).alias("applied"),
        F.count(F.when(column(OP) == UPSERT, 1)).alias("upserts"),
        F.count(F.when(column(TIE), 1)).alias("ties"),
        F.count(F.when(column(AGAIN) | (column(OP) == TRUNCATE), 1)).alias("again"),
        F.min(column(ORDER)[first]).alias("min_first"),
        F.max(column(ORDER)[first]).alias("max_first"),
        (F.max(column(TIME)) if timed else F.lit(None)).cast("string").alias("last_time"),
        F.to_json(F.min(column(ORDER)), _EXACT_TIMES).alias("min_order"),
        F.to_json(F.max(column(ORDER)), _EXACT_TIMES).alias("max_order"),
        # A digest of the written rows, in any order: it shows if a batch is rebuilt differently.
        F.bit_xor(F.xxhash64(*hashed)).alias("digest"),
    ).select(*columns(names))


def _staged(counts: Mapping[str, Any], kept: Mapping[str, Any]) -> Staged:
    return Staged(
        events_in=counts["events_in"],
        quarantined=counts["quarantined"],
        too_late=counts["too_late"],
        applied=int(kept.get("applied") or 0),
        ties=int(kept.get("ties") or 0),
        upserts=int(kept.get("upserts") or 0),
        has_distinct_keys=kept.get("again") == 0,
        digest=str(kept.get("digest")),
        first_orders=(kept.get("min_first"), kept.get("max_first")),
        facts={
            "lag_seconds": lag_of(kept.get("last_time")),
            "min_order": kept.get("min_order"),
            "max_order": kept.get("max_order"),
        },
    )


def lag_of(last_time: str | None) -> float | None:
    """Seconds from the last event's time until now; None if events have a log position instead of a time."""
    if last_time is None:
        return None
    last = datetime.fromisoformat(last_time)
    return (datetime.now(UTC) - (last if last.tzinfo else last.replace(tzinfo=UTC))).total_seconds()


def _without(events: DataFrame, past: DataFrame, contract: TableContract, found: Staged) -> DataFrame:
    """Drop events that the change log already contains: same key, order, operation, row and time.

    An event with the same key and order that differs otherwise is a tie. Only the part of the change log
    within the batch's range of orders is read: files are skipped by the first field of the order.
    """
    first = past.schema[ORDER].dataType.fieldNames()[0]  # type: ignore[attr-defined]
    low, high = found.first_orders
    old = past.where(column(ORDER)[first].between(F.lit(low), F.lit(high)))
    own = (*contract.keys, *contract.looked_up)  # a reference may have changed between two deliveries
    values = [c for c in value_columns(past) if c in events.columns and c not in own]
    unset = [UNSET] if UNSET in past.columns and UNSET in events.columns else []
    fact = [OP, TIME, *unset, *values]
    at = [*contract.keys, ORDER]
    held = old.groupBy(*[column(c).alias(f"__at{i}") for i, c in enumerate(at)]).agg(
        F.collect_list(comparable_row(old, fact)).alias("__facts")
    )
    here = all_of(column(name).eqNullSafe(column(f"__at{i}")) for i, name in enumerate(at))
    row = comparable_row(events, fact)
    repeated = F.exists("__facts", lambda known: known.eqNullSafe(row))
    joined = events.join(held, here, "left").where(~F.coalesce(repeated, F.lit(False)))
    tied = column(TIE) | column("__facts").isNotNull()
    return joined.withColumn(TIE, tied).drop("__facts", *[f"__at{i}" for i in range(len(at))])
