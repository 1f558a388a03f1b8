"""Bring quarantined rows of extracts back: a row that counts after all can change later differences."""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, cast

from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F

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
from kedro_lakehouse.datasets.drift import refuse_drift
from kedro_lakehouse.datasets.extracts import ExtractBatches, LandedExtracts
from kedro_lakehouse.datasets.ingestion import IngestionCommit
from kedro_lakehouse.datasets.observed import observed
from kedro_lakehouse.datasets.publish import acknowledge, reading_errors
from kedro_lakehouse.datasets.quarantined import match_records, released
from kedro_lakehouse.datasets.refold import REFOLD
from kedro_lakehouse.datasets.replay import Ready
from kedro_lakehouse.decoders.records import FILE
from kedro_lakehouse.errors import AuditFailedError, LandedFilesGoneError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ops.report import CommitReport, now
from kedro_lakehouse.sources.ledger import PlannedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.datasets.replay import Replay
    from kedro_lakehouse.datasets.token import BatchToken
    from kedro_lakehouse.sources.extract import ExtractSource
    from kedro_lakehouse.sources.files import LandedFile


def ready_extracts(replay: Replay, files: Mapping[LandedFile, int]) -> tuple[BatchToken | None, int]:
    """Diff the affected keys again, from the first extract with a row to bring back to the last accepted.

    Events of the record that this takes back (a delete of a key that was there after all) leave the
    record in the commit that brings the others; targets that had applied them fold again.

    Raises:
        LandedFilesGoneError: An accepted extract since the first affected one is gone.
    """
    planner = replay.planner
    source = cast("ExtractSource", planner.source)
    accepted = _accepted(replay)
    first = min(files, key=source.order_of)
    needed = accepted[accepted.index(first) :]
    there = set(source.files())
    if gone := [f.name for f in needed if f not in there]:
        raise LandedFilesGoneError(
            table=replay.name, missing=gone, purpose="tell what later extracts changed"
        )
    with ExitStack() as kept:
        return _diffed_again(replay, files, needed, kept)


def _diffed_again(
    replay: Replay, files: Mapping[LandedFile, int], needed: Sequence[LandedFile], kept: ExitStack
) -> tuple[BatchToken | None, int]:
    planner, contract = replay.planner, replay.contract
    source = cast("ExtractSource", planner.source)
    first = needed[0]
    batches = ExtractBatches(planner, contract, replay.table)
    rows = batches._rows(needed, kept)  # noqa: SLF001 - one reading of extracts for both
    groups = planner.read(planner.look(list(files)))
    found = match_records(groups, replay.held(files)).persist(StorageLevel.MEMORY_AND_DISK)
    sound = _sound_rows(replay, rows, found).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        keys = sound.select(*columns(replay.contract.keys)).distinct()
        order = _order(source, first)
        in_order = batches._numbered(needed)  # noqa: SLF001
        of_keys, number = _of(rows, keys), 1 if first == _accepted(replay)[0] else 2
        before = None if number == 1 else rows_before(_before(replay, keys, order), of_keys, contract)
        landed = LandedExtracts(
            token=planner.token(planner.ledger.planned()[-1]),  # a stand-in until the batch is planned
            rows=of_keys,
            told=told_by_extracts(
                of_keys,
                before,
                contract,
                extracts=in_order,
                count=len(needed),
            ),
            extracts=batches._timed(in_order.drop(FILE), PlannedFiles(number, (), "")),  # noqa: SLF001
            past_ends=_past_ends(replay, keys, order),
        )
        events = replay.decoding.extracts(landed, replay.contract).where(F.size(REASONS) == 0)
        verdict = sound.select(POSITION, F.lit(True).alias("ok"))
        return replay.commit(
            needed,
            Ready(events=events, doomed=released(found, verdict)),
            lambda events, token: _apply(replay, events, token, _held_since(replay, keys, order)),
        )
    finally:
        sound.unpersist()
        found.unpersist()


def _accepted(replay: Replay) -> list[LandedFile]:
    source = cast("ExtractSource", replay.planner.source)
    return sorted(set(replay.planner.ledger.accepted()), key=source.order_of)


def _past_ends(replay: Replay, keys: DataFrame, order: Column) -> DataFrame | None:
    """When each of these keys was deleted for the last time before an extract."""
    if not starts_by_column(replay.contract):
        return None
    past = _of(replay.project.iceberg.read(replay.name.with_suffix("changes")), keys)
    ended = past.where((column(OP) == DELETE) & (column(ORDER) < order))
    return ended.groupBy(*columns(replay.contract.keys)).agg(F.max_by(TIME, ORDER).alias("__past_end"))


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


def _order(source: ExtractSource, extract: LandedFile) -> Column:
    time, name = source.order_of(extract)
    fields = [F.lit(v).alias(f) for v, f in zip((time, name), ORDER_TYPE.fieldNames(), strict=True)]
    return F.struct(*fields).cast(ORDER_TYPE)


def _of(rows: DataFrame, keys: DataFrame) -> DataFrame:
    return rows.join(keys, keys.columns, "left_semi").select(*columns(rows.columns))


def _before(replay: Replay, keys: DataFrame, order: Column) -> DataFrame:
    """The rows of these keys as they were before an extract."""
    past = replay.project.iceberg.read(replay.name.with_suffix("changes"))
    return current_rows(_of(past, keys).where(column(ORDER) < order), replay.contract)


def _held_since(replay: Replay, keys: DataFrame, order: Column) -> DataFrame:
    """The events of these keys that the record holds from an extract on."""
    past = replay.project.iceberg.read(replay.name.with_suffix("changes"))
    return _of(past, keys).where(column(ORDER) >= order)


def _apply(replay: Replay, events: DataFrame, token: BatchToken, held: DataFrame) -> None:
    """Commit events; those of the record that they contradict leave it in the same commit."""
    values = [c for c in value_columns(held) if c in events.columns and c not in replay.contract.keys]
    same = (*replay.contract.keys, ORDER, OP, TIME, *values)
    # Spark takes no delete by a frame that numbers lines as it reads them: this one keeps its rows only.
    wrong = _without(held, events, same).localCheckpoint()
    if wrong.isEmpty():
        commit = IngestionCommit(replay.project, replay.name, replay.table, replay.contract, token)
        commit.run(accepted=events, rejected=events)
        return
    _correct(replay, events, _without(events, held, same), wrong, token)


def _without(rows: DataFrame, others: DataFrame, same: Sequence[str]) -> DataFrame:
    alike = F.lit(True)
    for name in same:
        alike &= F.col(f"a.`{name}`").eqNullSafe(F.col(f"b.`{name}`"))
    return rows.alias("a").join(others.alias("b"), alike, "left_anti")


def _correct(
    replay: Replay, events: DataFrame, fresh: DataFrame, wrong: DataFrame, token: BatchToken
) -> None:
    begun = perf_counter()
    project, name = replay.project, replay.name
    lake, changes = project.iceberg, name.with_suffix("changes")
    kinds = {f.name: f.dataType for f in events.schema.fields}
    wanted = {c: kinds[c] for c in [*EVENT_COLUMNS, *value_columns(events)]}
    state = lake.state(changes)
    if state is None:
        raise AuditFailedError(
            table=changes, batch=token.batch, check="the record is there", expected="a table", found="none"
        )
    refuse_drift(changes, state, replay.contract, wanted)
    lake.evolve(changes, wanted, state)
    new = Observation()
    identity = (*replay.contract.keys, ORDER, OP, BATCH)
    with reading_errors(name), lake.stage(changes, state) as stage:
        stage.delete(wrong.select(*columns(identity)), identity)
        stage.append(fresh.observe(new, F.count(F.lit(1)).alias("n")).select(*columns(wanted)))
        enter_phase("staged", name, "ingestion", token.batch)
        applied = int(observed(new).get("n", 0))
        report = CommitReport(
            table=str(name), stage="ingestion", batch=token.batch, batches=1,
            content_hash=token.content_hash, run_id=project.run_id, committed_at=now(),
            counts={"events_in": applied, "applied": applied, "quarantined": 0, "duplicates": 0},
        )  # fmt: skip
        snapshot = stage.publish(report, properties={REFOLD: str(token.batch)})
    enter_phase("published", name, "ingestion", token.batch)
    acknowledge(project, report, snapshot, seconds=perf_counter() - begun)
