"""Bring quarantined rows of extracts back: a row that counts after all can change later differences."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC
from typing import TYPE_CHECKING, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable_row
from kedro_lakehouse.changes.current import current_rows
from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    EVENT_COLUMNS,
    OP,
    ORDER,
    POSITION,
    REASONS,
    TIME,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.extract import ORDER_TYPE, starts_by_column
from kedro_lakehouse.changes.lives import rows_before, told_by_extracts
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.engine import Staged, engine_of
from kedro_lakehouse.commits.ingest import IngestionCommit
from kedro_lakehouse.commits.kept import keep
from kedro_lakehouse.commits.marks import REFOLD, horizon_of
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.commits.withdrawn import accepted_events
from kedro_lakehouse.decoders.records import FILE
from kedro_lakehouse.errors import AuditFailedError, LandedFilesGoneError
from kedro_lakehouse.ingestion.extracts import ExtractBatches, LandedExtracts
from kedro_lakehouse.operations.quarantined import match_records, released
from kedro_lakehouse.operations.replay import Ready
from kedro_lakehouse.session.observation import observed
from kedro_lakehouse.sources.ledger import PlannedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.operations.replay import Replay
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.base import GivesExtracts
    from kedro_lakehouse.sources.files import LandedFile


def ready_extracts(replay: Replay, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
    """Diff the affected keys again, from the first extract with a row to bring back to the last accepted.

    Events of the record that this takes back (a delete of a key that was there after all) leave the
    record in the commit that brings the others; targets that had applied them fold again.

    Raises:
        LandedFilesGoneError: An accepted extract since the first affected one is gone.
    """
    planner = replay.planner
    source = cast("GivesExtracts", planner.source)
    files = _reachable(replay, files)
    if not files:
        return None, 0
    accepted = sorted(set(replay.chain.accepted()), key=source.order_of)
    first = min(files, key=source.order_of)
    needed = accepted[accepted.index(first) :]
    there = set(source.files())
    if gone := [f.name for f in needed if f not in there]:
        raise LandedFilesGoneError(
            table=replay.table.name, missing=gone, purpose="tell what later extracts changed"
        )
    batches = ExtractBatches(planner, source)
    with ExitStack() as kept:
        rows = batches._rows(needed, kept)  # noqa: SLF001 - one reading of extracts for both
        groups = planner.reader.read(planner.reader.look(list(files)))
        found = keep(match_records(groups, replay.held(files)), kept)
        sound = keep(_sound_rows(replay, rows, found), kept)
        keys = sound.select(*columns(replay.contract.keys)).distinct()
        order = None if first == accepted[0] else _order(source, first)
        events = replay.decoding.extracts(
            _landed(replay, batches, rows, keys, files=needed, order=order), replay.contract
        )
        return replay.commit(
            needed,
            Ready(
                events=events.where(F.size(REASONS) == 0),
                doomed=released(found, sound.select(POSITION, F.lit(True).alias("ok"))),
            ),
            lambda valid, token: _apply(replay, valid, token, _held_since(replay, keys, order)),
        )


def _landed(  # noqa: PLR0913 - what is known of the affected keys
    replay: Replay,
    batches: ExtractBatches,
    rows: DataFrame,
    keys: DataFrame,
    *,
    files: Sequence[LandedFile],
    order: Column | None,
) -> LandedExtracts:
    """What extracts tell of some keys, given what the record held before the first of them."""
    contract, planner = replay.contract, replay.planner
    # Which parts of the table an extract speaks of is told by all of its rows.
    chosen = rows if contract.delete_scope else _of(rows, keys)
    past, before, ends = None, None, None
    if order is not None:
        changes = accepted_events(replay.table)
        past = changes if contract.delete_scope else _of(changes, keys)
        past = past.where(column(ORDER) < order)
        before = rows_before(current_rows(past, contract), chosen, contract)
        if starts_by_column(contract):
            deletes = past.where(column(OP) == DELETE).groupBy(*columns(contract.keys))
            ends = deletes.agg(F.max_by(TIME, ORDER).alias("__past_end"))
    numbered = batches._numbered(files)  # noqa: SLF001
    told = told_by_extracts(chosen, before, contract, extracts=numbered, count=len(files))
    first = PlannedFiles(1 if order is None else 2, (), "")
    head = replay.chain.published[-1]  # a stand-in until the batch is planned
    return LandedExtracts(
        planned=head,
        token=planner.token(head),
        rows=_of(rows, keys),
        told=_of(told, keys),
        extracts=batches._timed(numbered.drop(FILE), first),  # noqa: SLF001
        past_ends=ends,
    )


def _reachable(replay: Replay, files: Mapping[LandedFile, int]) -> dict[LandedFile, int]:
    """The files that are later than the horizon up to which single events have left the record."""
    horizon = horizon_of(replay.planner.state())
    if horizon is None:
        return dict(files)
    limit = horizon if horizon.tzinfo else horizon.replace(tzinfo=UTC)
    source = cast("GivesExtracts", replay.planner.source)
    return {f: batch for f, batch in files.items() if source.order_of(f)[0] > limit}


def _sound_rows(replay: Replay, rows: DataFrame, found: DataFrame) -> DataFrame:
    """The rows that come back.

    A key of which a row that was accepted once would be refused now is left alone: its accepted events
    stay, and its quarantined rows too.
    """
    keys, valid = list(replay.contract.keys), F.size(REASONS) == 0
    at = found.select(POSITION).distinct()
    quarantined = at.union(replay.held().select(POSITION)).distinct()
    spoiled = rows.where(~valid).join(quarantined, POSITION, "left_anti").select(*columns(keys)).distinct()
    back = rows.where(valid).join(at, POSITION, "left_semi")
    return back.join(spoiled, keys, "left_anti").select(POSITION, *columns(keys))


def _order(source: GivesExtracts, extract: LandedFile) -> Column:
    time, name = source.order_of(extract)
    fields = [F.lit(v).alias(f) for v, f in zip((time, name), ORDER_TYPE.fieldNames(), strict=True)]
    return F.struct(*fields).cast(ORDER_TYPE)


def _of(rows: DataFrame, keys: DataFrame) -> DataFrame:
    return rows.join(keys, keys.columns, "left_semi").select(*columns(rows.columns))


def _held_since(replay: Replay, keys: DataFrame, order: Column | None) -> DataFrame:
    """The events of these keys that the record holds from an extract on; without one, all of them."""
    past = _of(replay.table.read("changes"), keys)
    return past if order is None else past.where(column(ORDER) >= order)


def _apply(replay: Replay, events: DataFrame, token: BatchToken, held: DataFrame) -> None:
    """Commit events; those of the record that they contradict leave it in the same commit."""
    values = [c for c in value_columns(held) if c in events.columns and c not in replay.contract.keys]
    fact = (ORDER, OP, TIME, *values)
    kinds = {f.name: f.dataType for f in events.schema.fields}
    held = held.withColumns({c: column(c).cast(kinds[c]) for c in values})  # a type may be wider now
    # Spark takes no delete by a frame that numbers lines as it reads them: this one keeps its rows only.
    wrong = _without(held, events, replay.contract.keys, fact).localCheckpoint()
    if wrong.isEmpty():
        replay.ingest(events, token)
        return
    fresh = _without(events, held, replay.contract.keys, fact)
    with reading_errors(replay.table.name, fresh):
        runner.attempt(_Correction(replay, token, events, fresh, wrong), replay.held_lease)


def _without(rows: DataFrame, others: DataFrame, keys: Sequence[str], fact: Sequence[str]) -> DataFrame:
    """The rows of which the others hold none with the same key and the same facts."""
    left = rows.withColumn("__fact", comparable_row(rows, fact)).alias("a")
    right = others.select(*columns(keys), comparable_row(others, fact).alias("__fact")).alias("b")
    alike = F.col("a.__fact").eqNullSafe(F.col("b.__fact"))
    for key in keys:
        name = key.replace("`", "``")
        alike &= F.col(f"a.`{name}`") == F.col(f"b.`{name}`")
    return left.join(right, alike, "left_anti").drop("__fact")


class _Correction(IngestionCommit):
    """Adds events to the change log and takes others out, in one commit; targets fold again after it."""

    def __init__(
        self, replay: Replay, token: BatchToken, events: DataFrame, fresh: DataFrame, wrong: DataFrame
    ) -> None:
        rows = engine_of(replay.table).events(replay.table, events, events, token)
        super().__init__(replay.table, token, rows)
        self._fresh, self._wrong = fresh, wrong
        self._identity = (*replay.contract.keys, ORDER, OP, BATCH)

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        if state is None:
            raise AuditFailedError(
                table=self.target, batch=self.batch, check="the change log is there", expected="a table",
                found="none",
            )  # fmt: skip
        return super().columns(state)

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        del state
        new = Observation()
        wanted = [*EVENT_COLUMNS, *value_columns(self._fresh)]
        rows = self._fresh.observe(new, F.count(F.lit(1)).alias("n")).select(*columns(wanted))
        stage.merge(self._wrong.select(*columns(self._identity)), rows, self._identity)
        applied = int(observed(new).get("n", 0))
        return self.report(Staged(events_in=applied, applied=applied, quarantined=0))

    def audit(self, stage: Stage, state: TableState) -> None:
        """What comes back was checked when it was read."""

    def properties(self, state: TableState) -> Mapping[str, str]:
        del state
        return {REFOLD: str(self.batch)}
