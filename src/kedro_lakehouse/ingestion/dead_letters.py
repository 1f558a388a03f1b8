"""Write what was quarantined of a stream to its topic for dead letters, after the batches are published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.names import UNFIT_RECORD
from kedro_lakehouse.sources.dead_letters import Letter
from kedro_lakehouse.sources.streams import StreamRange

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.dead_letters import DeadLetterTopic
    from kedro_lakehouse.sources.ledger import Chain


def write_dead_letters(table: LakeTable, topic: DeadLetterTopic, chain: Chain) -> None:
    """Write the quarantined records of published batches whose letters are not written yet.

    Without a batch that has some, this reads the state of the quarantine and nothing else of the lakehouse.

    Raises:
        SourceUnreachableError: The broker does not answer; the next run writes them.
    """
    ranges = [
        (plan.batch, int(one.partition), one.end)
        for plan in chain.published
        if not plan.is_replay
        for one in map(StreamRange.of, plan.files)
    ]
    ends: dict[int, int] = {}
    for _, partition, end in ranges:
        ends[partition] = max(end, ends.get(partition, 0))
    written = topic.written(ends) if ends else {}
    missing = {partition: end for partition, end in ends.items() if end > written[partition]}
    if not missing:
        return
    first = min(batch for batch, partition, end in ranges if end > written[partition])
    topic.write([one for one in _letters(table, first) if one.offset >= written[one.partition]], missing)


def _letters(table: LakeTable, first: int) -> list[Letter]:
    """The quarantined records of the batches from ``first`` on."""
    state = table.state("quarantine")
    if state is None or state.bookmark is None or state.bookmark.batch < first:
        return []
    from pyspark.sql import functions as F

    from kedro_lakehouse.changes.events import BATCH, POSITION, RAW, REASONS, column

    place = column(POSITION)
    rows = table.read("quarantine").where(column(BATCH) >= first)
    found = rows.select(
        F.substring_index(place["file"], ":", -1).cast("int"),
        place["row"],
        column(BATCH),
        column(REASONS),
        F.regexp_extract(F.coalesce(column(RAW), F.lit("")), UNFIT_RECORD, 1),
    )
    return [
        Letter(partition=partition, offset=row, batch=batch, reasons=reasons, schema=schema)
        for partition, row, batch, reasons, schema in found.distinct().collect()
    ]
