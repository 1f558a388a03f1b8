"""Plan batches of raw change records, each of as many landed files as the limits allow."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.changes.keys import split_key_changes
from kedro_lakehouse.changes.order import declared_order
from kedro_lakehouse.changes.validate import check_events
from kedro_lakehouse.commits.marks import horizon_of
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.records import BEFORE, complete
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.sources.files import bounded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.decoders.base import ChangeDecoder
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.ingestion.planner import Planner
    from kedro_lakehouse.sources.base import GivesChanges
    from kedro_lakehouse.sources.files import FileShape, LandedFile
    from kedro_lakehouse.sources.ledger import Chain, PlannedFiles

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LandedChanges:
    """A planned batch of raw change records; events from before the ``horizon`` are too late."""

    planned: PlannedFiles
    token: BatchToken
    decoder: ChangeDecoder
    groups: Sequence[RecordGroup]
    layout: Any
    columns: Columns
    horizon: datetime | None = None

    def events(self, contract: TableContract) -> DataFrame:
        """Decode and check the records of the batch; a key change becomes its two events."""
        decode = self.decoder.decode
        decoded = [decode(group, self.layout, self.columns, contract.keys) for group in self.groups]
        ordered = declared_order(complete(decoded, self.columns), contract)
        if self.columns.carried:
            ordered = ordered.drop(*self.columns.carried)
        checked = check_events(ordered, contract, horizon=self.horizon)
        return self.token.stamp(split_key_changes(checked, contract, BEFORE))


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
        new = [f for f in chain.new(planner.listed()) if f not in self._silent]
        for files in bounded(new, *planner.limits):
            looked = planner.reader.look(files)
            if planner.reader.says_nothing(looked):
                logger.info(
                    "%s: %s files without rows wait for the first with rows", planner.table, len(files)
                )
                self._silent.update(files)
                continue
            self._source.require_columns(looked)
            columns = planner.reader.columns(looked)
            planned = planner.ledger.plan(chain, files, {})
            enter_phase("planned", planner.table, "ingestion", planned.batch)
            return self._landed(planned, looked, columns)
        return None

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        planner = self._planner
        return LandedChanges(
            planned=planned,
            token=planner.token(planned),
            decoder=load_decoder(self._source.decoder),
            groups=planner.reader.read(looked),
            layout=self._source.layout(),
            columns=columns or planner.reader.columns(looked),
            horizon=horizon_of(planner.state()),
        )

    def release(self) -> None:
        """Do nothing: no frame is cached."""

    def forget_refusals(self) -> None:
        """Do nothing: no guard checks change records."""

    def end(self) -> None:
        """Do nothing: no file is refused."""
