"""One ingestion commit: checked events of a batch become quarantine and changes, or nothing at all."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.compare import comparable, comparable_row
from kedro_lakehouse.changes.events import (
    BATCH,
    EVENT_COLUMNS,
    OP,
    ORDER,
    POSITION,
    RAW,
    REASONS,
    TIME,
    UNSET,
    UPSERT,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.fold import flag_repeats
from kedro_lakehouse.changes.validate import TOO_LATE
from kedro_lakehouse.datasets.drift import made_for, refuse_drift
from kedro_lakehouse.datasets.publish import acknowledge, reading_errors
from kedro_lakehouse.errors import (
    AuditFailedError,
    BatchContentChangedError,
    SequenceTieError,
    TooManyInvalidError,
)
from kedro_lakehouse.formats.base import Layout, enter_phase
from kedro_lakehouse.ops.report import CommitReport, now
from kedro_lakehouse.session.observation import observed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.datasets.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableFormat, TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_REPEAT, _TIE = "__repeat", "__tie"
_FILE_AND_ROW: Final = T.StructType(
    [T.StructField("file", T.StringType()), T.StructField("row", T.LongType())]
)
QUARANTINE_COLUMNS: Final[Mapping[str, T.DataType]] = {
    BATCH: T.LongType(),
    POSITION: _FILE_AND_ROW,
    REASONS: T.ArrayType(T.StringType()),
    OP: T.StringType(),
    RAW: T.StringType(),
}
_QUARANTINE_LAYOUT: Final = Layout(properties={"write.distribution-mode": "none"})


@dataclass
class _Pass:
    """What one pass over a batch found."""

    events_in: int
    quarantined: int
    too_late: int
    kept: Mapping[str, Any]

    @property
    def applied(self) -> int:
        return int(self.kept.get("applied") or 0)


class IngestionCommit:
    """Stages, judges and publishes one batch."""

    def __init__(
        self,
        project: Project,
        name: TableName,
        table: TableConfig,
        contract: TableContract,
        token: BatchToken,
    ) -> None:
        """Keep what the commit is about."""
        self._project, self._name, self._table, self._contract, self._token = (
            project,
            name,
            table,
            contract,
            token,
        )
        self._format = project.format_of(name)
        self._changes, self._quarantine = name.with_suffix("changes"), name.with_suffix("quarantine")

    def run(self, *, accepted: DataFrame, rejected: DataFrame) -> None:
        """Commit the batch; do nothing if it is there already."""
        begun = perf_counter()
        lake, token = self._format, self._token
        state = lake.state(self._changes)
        if state is not None and state.batch >= token.batch:
            self._refuse_other_content(state)
            return
        state = self._ensure(state, accepted)
        with reading_errors(self._name, accepted), lake.stage(self._changes, state) as stage:
            found = self._stage(stage, accepted, state)
            enter_phase("staged", self._name, "ingestion", token.batch)
            self._judge(found)
            if found.quarantined:
                self._publish_quarantine(rejected, found)
            if not found.applied:
                stage.drop()  # a batch without accepted events moves the bookmark and nothing else
            report = self._report(found)
            snapshot = stage.publish(report)
        enter_phase("published", self._name, "ingestion", token.batch)
        acknowledge(self._project, report, snapshot, seconds=perf_counter() - begun)

    def _refuse_other_content(self, state: TableState) -> None:
        held = state.bookmark
        if (
            held is not None
            and held.batch == self._token.batch
            and held.content_hash != self._token.content_hash
        ):
            raise BatchContentChangedError(
                table=self._name, batch=self._token.batch, detail="the batch is committed with other content"
            )

    def _ensure(self, state: TableState | None, events: DataFrame) -> TableState:
        kinds = {f.name: f.dataType for f in events.schema.fields}
        wanted = {c: kinds[c] for c in self._stored_columns(events)}
        lake = self._format
        if state is None:
            properties = {"write.distribution-mode": "none", **made_for(self._contract)}
            lake.create(self._changes, wanted, Layout(partition_by=(OP,), properties=properties))
        else:
            refuse_drift(self._changes, state, self._contract, wanted)
            lake.evolve(self._changes, wanted, state)
        found = lake.state(self._changes)
        if found is None:
            raise BatchContentChangedError(
                table=self._name, batch=self._token.batch, detail="its table is gone"
            )
        return found

    def _stage(self, stage: Stage, events: DataFrame, state: TableState) -> _Pass:
        """Write accepted events to the stage, once; again without repeats if earlier batches hold some."""
        found = self._written(stage, events, state)
        overlapping = (
            found.applied and state.rows and self._contract.write == "merge" and self._overlaps(found)
        )
        if overlapping:
            stage.drop()
            found = self._written(stage, events, state, overlap=found)
        return found

    def _written(
        self, stage: Stage, events: DataFrame, state: TableState, overlap: _Pass | None = None
    ) -> _Pass:
        """Write events so that what was planned, what Spark observed and what the staged files hold agree.

        Raises:
            AuditFailedError: They disagreed each time; nothing is published.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            found = self._write(stage, events, overlap)
            staged, lacking = stage.rows() - state.rows, self._token.at_least - found.events_in
            if staged == found.applied and lacking <= 0:
                return found
            stage.drop()
            logger.warning("%s: what was staged is not what was read, attempt %s", self._changes, attempt)
        raise AuditFailedError(
            table=self._changes, batch=self._token.batch, check="row arithmetic",
            expected="as many staged rows as accepted events", found="other counts each time",
        )  # fmt: skip

    def _write(self, stage: Stage, events: DataFrame, overlap: _Pass | None = None) -> _Pass:
        all_of_them, kept = Observation(), Observation()
        facts = (
            F.count(F.lit(1)).alias("events_in"),
            F.count(F.when(F.size(REASONS) > 0, 1)).alias("quarantined"),
            F.count(F.when(F.get(REASONS, F.lit(0)) == TOO_LATE, 1)).alias("too_late"),
        )
        watched = events.observe(all_of_them, *facts)
        valid = watched.where(F.size(REASONS) == 0).drop(RAW, REASONS)
        flagged = self._without_repeats(valid, overlap)
        names = self._stored_columns(events)
        kinds = {f.name: f.dataType for f in flagged.schema.fields}
        hashed = [comparable(column(n), kinds[n]) for n in names if n != POSITION]
        first = kinds[ORDER].fieldNames()[0]  # type: ignore[attr-defined]
        timed = kinds[TIME].typeName().startswith("timestamp")
        rows = flagged.observe(
            kept,
            F.count(F.lit(1)).alias("applied"),
            F.count(F.when(column(OP) == UPSERT, 1)).alias("upserts"),
            F.count(F.when(column(_TIE), 1)).alias("ties"),
            F.min(column(ORDER)[first]).alias("min_first"),
            F.max(column(ORDER)[first]).alias("max_first"),
            (F.max(column(TIME)) if timed else F.lit(None)).cast("string").alias("last_time"),
            F.to_json(F.min(column(ORDER)), _EXACT_TIMES).alias("min_order"),
            F.to_json(F.max(column(ORDER)), _EXACT_TIMES).alias("max_order"),
            # What was written, whatever its order: tells a batch that is rebuilt differently.
            F.bit_xor(F.xxhash64(*hashed)).alias("digest"),
        ).select(*columns(names))
        stage.append(rows)
        # Only where no event was accepted may Spark lose what it observed: then it is asked by a job.
        counts = observed(all_of_them) or events.agg(*facts).collect()[0].asDict()
        return _Pass(counts["events_in"], counts["quarantined"], counts["too_late"], observed(kept))

    def _without_repeats(self, valid: DataFrame, overlap: _Pass | None) -> DataFrame:
        """Drop exact repeats within the batch, and those of earlier batches where their orders overlap.

        Rows of a table without keys cannot repeat: each counts.
        """
        if self._contract.write != "merge":
            return valid.withColumn(_TIE, F.lit(False))
        flagged = flag_repeats(valid, self._contract, repeat=_REPEAT, tie=_TIE).where(~column(_REPEAT))
        if overlap is None:
            return flagged
        return _without(flagged, self._format.read(self._changes), self._contract, overlap)

    @staticmethod
    def _stored_columns(events: DataFrame) -> list[str]:
        more = [UNSET] if UNSET in events.columns else []
        return [*EVENT_COLUMNS, *more, *value_columns(events)]

    def _overlaps(self, found: _Pass) -> bool:
        """Whether files of earlier batches may hold events of the same orders: asked of metadata alone."""
        low, high = found.kept["min_first"], found.kept["max_first"]
        first = next(iter(_first_field(self._format, self._changes)))
        return self._format.may_hold(self._changes, f"{ORDER}.{first}", low, high)

    def _judge(self, found: _Pass) -> None:
        limit = 0.0 if self._table.on_invalid == "fail" else self._table.max_invalid_fraction
        if found.quarantined > limit * found.events_in:
            raise TooManyInvalidError(
                table=self._name, batch=self._token.batch, invalid=found.quarantined, total=found.events_in,
                limit=limit,
            )  # fmt: skip
        if self._table.on_tie == "fail" and found.kept.get("ties"):
            raise SequenceTieError(table=self._name, batch=self._token.batch, ties=found.kept["ties"])

    def _publish_quarantine(self, rejected: DataFrame, found: _Pass) -> None:
        lake, digest = self._format, str(found.kept.get("digest"))
        state = lake.state(self._quarantine)
        if state is None:
            lake.create(self._quarantine, QUARANTINE_COLUMNS, _QUARANTINE_LAYOUT)
        elif state.bookmark is not None and state.bookmark.batch >= self._token.batch:
            if state.bookmark.digest != digest:
                raise BatchContentChangedError(
                    table=self._name,
                    batch=self._token.batch,
                    detail="its accepted events were rebuilt differently",
                )
            return
        with lake.stage(self._quarantine, state) as stage:
            stage.append(rejected.where(F.size(REASONS) > 0).select(*QUARANTINE_COLUMNS))
            stage.publish(self._report(found))

    def _report(self, found: _Pass) -> CommitReport:
        counts = {
            "events_in": found.events_in,
            "applied": found.applied,
            "quarantined": found.quarantined,
            "duplicates": found.events_in - found.quarantined - found.applied,
            "sequence_ties": int(found.kept.get("ties") or 0),
            "too_late": found.too_late,
        }
        counts |= self._token.counted or {}
        if self._token.unchanged is not None:
            counts["unchanged"] = max(self._token.unchanged - int(found.kept.get("upserts") or 0), 0)
        return CommitReport(
            table=str(self._name), stage="ingestion", batch=self._token.batch, batches=1,
            content_hash=self._token.content_hash, run_id=self._project.run_id,
            correlation_id=self._project.correlation_id, committed_at=now(),
            digest=str(found.kept.get("digest")), counts=counts,
            lag_seconds=_lag(found.kept.get("last_time")),
            min_order=found.kept.get("min_order"), max_order=found.kept.get("max_order"),
        )  # fmt: skip


def _lag(last_time: str | None) -> float | None:
    """Seconds from the last event's time until now; None where events have no time but a log position."""
    if last_time is None:
        return None
    last = datetime.fromisoformat(last_time)
    return (datetime.now(UTC) - (last if last.tzinfo else last.replace(tzinfo=UTC))).total_seconds()


def _first_field(table_format: TableFormat, changes: TableName) -> list[str]:
    state = table_format.state(changes)
    return state.columns[ORDER].fieldNames() if state else []  # type: ignore[attr-defined]


def _without(events: DataFrame, past: DataFrame, contract: TableContract, found: _Pass) -> DataFrame:
    """Drop events that the record holds already: same key, order, operation, row and time.

    One of equal key and order that differs is a tie. Of the record only the range of the batch's
    orders is read: its first field is pruned by file.
    """
    first = past.schema[ORDER].dataType.fieldNames()[0]  # type: ignore[attr-defined]
    old = past.where(
        column(ORDER)[first].between(F.lit(found.kept["min_first"]), F.lit(found.kept["max_first"]))
    )
    values = [c for c in value_columns(past) if c in events.columns and c not in contract.keys]
    unset = [UNSET] if UNSET in past.columns and UNSET in events.columns else []
    fact = [OP, TIME, *unset, *values]
    at = [*contract.keys, ORDER]
    held = old.groupBy(*[column(c).alias(f"__at{i}") for i, c in enumerate(at)]).agg(
        F.collect_list(comparable_row(old, fact)).alias("__facts")
    )
    here = F.lit(True)
    for i, name in enumerate(at):
        here &= column(name).eqNullSafe(column(f"__at{i}"))
    row = comparable_row(events, fact)
    repeated = F.exists("__facts", lambda known: known.eqNullSafe(row))
    joined = events.join(held, here, "left").where(~F.coalesce(repeated, F.lit(False)))
    tied = column(_TIE) | column("__facts").isNotNull()
    return joined.withColumn(_TIE, tied).drop("__facts", *[f"__at{i}" for i in range(len(at))])
