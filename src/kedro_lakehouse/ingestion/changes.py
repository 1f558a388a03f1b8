"""Plan batches of raw change records, each of as many landed files as the limits allow."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.commits.marks import horizon_of
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.dead_letters import write_dead_letters
from kedro_lakehouse.ingestion.planner import known_ranges
from kedro_lakehouse.ingestion.record_rules import RecordRules
from kedro_lakehouse.ingestion.small_changes import checked_rows
from kedro_lakehouse.sources.base import holds_records
from kedro_lakehouse.sources.files import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.ingestion.reading import FileReader
    from kedro_lakehouse.sources.base import GivesChanges, StreamSource
    from kedro_lakehouse.sources.files import FileShape, LandedFile
    from kedro_lakehouse.sources.ledger import Chain
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)

BEFORE_START: Final = "BEFORE_START"
"""Why the ledger holds what a stream's ``start`` left out: else each run would begin at another place."""
NOTHING_CAME: Final = "NOTHING_CAME"
"""Why the ledger holds ranges without records: up to when nothing came into a partition."""


@dataclass(frozen=True, kw_only=True)
class LandedChanges:
    """A planned batch of files of raw change records, which ``reader`` reads."""

    planned: PlannedFiles
    token: BatchToken
    reader: FileReader
    looked: Sequence[FileShape]
    rules: RecordRules

    @property
    def groups(self) -> Sequence[RecordGroup]:
        """The records of the batch, in lazy frames."""
        return self.reader.read(self.looked)

    def events(self, contract: TableContract) -> DataFrame:
        """The checked events of the batch, made when something is first done with them."""
        return self.token.stamp_later(lambda: self.rules.events(self.groups, contract), self)

    def checked_without_spark(self) -> pa.Table | None:
        """The checked events of the batch, if it is small and Spark is not needed; see ``small_changes``."""
        return checked_rows(self.reader, self.looked, self.rules, self.token)


class ChangeBatches:
    """Plans batches of raw change records, each of as many files as the limits allow."""

    def __init__(self, planner: Planner, source: GivesChanges) -> None:
        """Take the planner and the source; no file is read yet."""
        self._planner, self._source = planner, source
        self._silent: set[LandedFile] = set()

    def next_batch(self, chain: Chain) -> LandedChanges | None:
        """Plan the next batch; files without rows wait for the first file with rows."""
        planner = self._planner
        unfinished = planner.unfinished(chain)
        if unfinished is not None:
            return self._landed(unfinished, planner.reader.look(unfinished.files))
        for files in self._backlog(chain):
            looked = planner.reader.look(files)
            if planner.reader.says_nothing(looked):
                logger.info(
                    "%s: %s files without rows wait for the first with rows", planner.table, len(files)
                )
                self._silent.update(files)
                continue
            self._source.require_columns(looked)
            columns = planner.reader.columns(looked)
            planned = planner.ledger.plan(chain, files, {}, references=planner.references_after(chain))
            enter_phase("planned", planner.table, "ingestion", planned.batch)
            return self._landed(planned, looked, columns)
        return None

    def _backlog(self, chain: Chain) -> Iterator[Sequence[LandedFile]]:
        """The files of the next batches that are possible, those of the first first."""
        new = [f for f in chain.new(self._planner.listed()) if f not in self._silent]
        yield from bounded(new, *self._planner.limits)

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        planner = self._planner
        loads = {self._source.load_of(file) for file in planned.files}
        resolved = columns or planner.reader.columns(looked)
        return LandedChanges(
            planned=planned,
            token=replace(planner.token(planned), full_load=loads == {"full_load"}),
            reader=planner.reader,
            looked=looked,
            rules=RecordRules(
                decoder=self._source.decoder,
                layout=self._source.layout(),
                columns=resolved,
                horizon=horizon_of(planner.state()),
                lookups=planner.lookups(planned.references, resolved),
                keeps_lookups=planner.references.repairs,
                erased=planner.table.erased_subjects(),
            ),
        )

    def release(self) -> None:
        """Do nothing: no frame is cached."""

    def forget_refusals(self) -> None:
        """Do nothing: no guard checks change records."""

    def end(self) -> None:
        """Do nothing: no file is refused."""


class StreamBatches(ChangeBatches):
    """Plans batches of a stream's records: the next range of offsets of each partition."""

    def __init__(self, planner: Planner, source: StreamSource) -> None:
        """Take the planner and the source; no record is read yet."""
        super().__init__(planner, source)
        self._stream = source

    def next_batch(self, chain: Chain) -> LandedChanges | None:
        """Plan the next batch; the records that were looked at are let go if there is none, or it fails."""
        found = None
        try:
            found = super().next_batch(chain)
        finally:
            if found is None:
                self.release()
        return found

    def _backlog(self, chain: Chain) -> Iterator[Sequence[LandedFile]]:
        """The next ranges, and as long as these hold no rows, longer ones: no record is passed over."""
        ledger, known = self._planner.ledger, known_ranges(chain)
        begun = ledger.planned_ever()
        if not begun and not known and (known := self._stream.before_start()):
            ledger.refuse(chain, dict.fromkeys(known, BEFORE_START))
        before, times = list[str](), 1
        while (ranges := self._stream.after(known, begun, times)) and [r.path for r in ranges] != before:
            if not any(holds_records(one) for one in ranges):
                ledger.refuse(chain, dict.fromkeys(ranges, NOTHING_CAME))
                return
            yield ranges
            before, times = [r.path for r in ranges], times * 2

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        self._planner.reader.keep_schemas(planned.batch)
        return super()._landed(planned, looked, columns)

    def release(self) -> None:
        """Let the records of the last batch go, which were kept so that they are read once."""
        self._planner.reader.release()

    def end(self) -> None:
        """Write what was quarantined to the stream's topic for dead letters, if it has one."""
        if (topic := getattr(self._stream, "dead_letters", None)) is not None:
            write_dead_letters(self._planner.table, topic, self._planner.chain())
