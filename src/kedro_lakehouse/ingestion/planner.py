"""Plan a table's batches: which landed files are in none yet, and which plan may follow what is published."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kedro_lakehouse.commits.ingest import clear_void_quarantine, drop_given_up
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.errors import BatchContentChangedError, CommitConflictError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.reading import Reader
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.patience import Patience
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.ledger import Chain, PlannedFiles

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Ingesting:
    """The batch that a landing folder has given out last, and the lease under which it was planned."""

    planned: PlannedFiles
    lease: Lease
    was_saved: bool = False
    """Whether its commit was tried, whatever became of it."""


class Batches(Protocol):
    """How the backlog of a table is cut into batches."""

    def next_batch(self, chain: Chain) -> Any:
        """Plan the batch that follows a chain: an unfinished one or a new one; None where none is left."""

    def release(self) -> None:
        """Let go what was held in memory for the last batch."""

    def forget_refusals(self) -> None:
        """Forget what was said of the backlog against a state that is not the table's any more."""

    def end(self) -> None:
        """Raise what was refused."""


class Planner:
    """Plans the batches of one table in one run.

    The chain of published batches is read anew after each batch; the folder is listed once, and again
    after a lost race.
    """

    def __init__(self, table: LakeTable, source: FileSource, reader: Reader) -> None:
        """Keep what planning needs."""
        self.table, self.source, self.reader = table, source, reader
        self.ledger = table.open_ledger()
        self._listed: list[LandedFile] | None = None

    def given_out(self, batches: Batches, held: Lease, patience: Patience) -> Iterator[Any]:
        """Give out one batch after the other until nothing is left; a lost race is planned again.

        Raises:
            CommitConflictError: Other writers won every race until the deadline.
            LeaseLostError: Another run may work on the table by now.
            RefusedExtractsError: Extracts were refused; raised after all others were given out.
        """
        chain, ingesting = self.chain(anew=True), self.table.environment.ingesting
        while (batch := batches.next_batch(chain)) is not None:
            planned = batch.planned
            given = ingesting[self.table.name] = Ingesting(planned=planned, lease=held)
            try:
                yield batch
            finally:
                ingesting.pop(self.table.name, None)
                batches.release()
            chain = self.chain()
            if chain.holds(planned.batch, planned.content_hash):
                patience.succeeded()
                continue
            if not given.was_saved:
                raise UnsupportedError(
                    what=f"{self.table}: the batch after {planned.batch} was asked for before it was saved.",
                    remedy="Save each batch to the datasets 'quarantine' and 'changes' before the next.",
                )
            held.check()
            logger.info("%s: another run published batch %s, planning again", self.table, planned.batch)
            patience.pause(CommitConflictError(table=self.table.changes, attempts=1))
            self._listed = None
            batches.forget_refusals()
            chain = self.chain(anew=True)
        batches.end()

    def chain(self, *, anew: bool = False) -> Chain:
        """The published batches and the plans that may follow; removes quarantined rows of other plans."""
        if anew:
            self.ledger.read_again()
            drop_given_up(self.table, self.ledger)
        while (chain := self._published()).is_given_up:
            drop_given_up(self.table, self.ledger)
        with contextlib.suppress(CommitConflictError):  # whoever was faster has looked at it too
            clear_void_quarantine(self.table, chain)
        return chain

    def _published(self) -> Chain:
        state = self.state()
        return self.ledger.chain(state.bookmark if state else None)

    def listed(self) -> list[LandedFile]:
        """What has landed, as it was listed for this round."""
        if self._listed is None:
            self._listed = self.source.files()
        return self._listed

    def state(self) -> TableState | None:
        """Where the record of changes stands."""
        return self.table.state("changes")

    def unfinished(self, chain: Chain) -> PlannedFiles | None:
        """The plan that is to be finished first: one that may follow, and whose files are there as planned.

        Where a plan has published its quarantined events, it is that one. A replay is not finished: its
        events are still in quarantine.

        Raises:
            BatchContentChangedError: Its files were replaced after its quarantined events were published.
        """
        plans = [p for p in chain.open if not p.is_replay]
        if not plans:
            return None
        quarantine = self.table.state("quarantine")
        held = quarantine.bookmark if quarantine else None
        begun = [p for p in plans if held and (p.batch, p.content_hash) == (held.batch, held.content_hash)]
        for plan in sorted(begun or plans, key=lambda p: (-len(p.files), p.content_hash)):
            gone = self.gone(plan.files)
            if not gone:
                return plan
            if begun:
                raise BatchContentChangedError(
                    table=self.table.name,
                    batch=plan.batch,
                    detail=f"{len(gone)} planned files are gone or replaced: {gone[0]}",
                )
        return None

    @property
    def limits(self) -> tuple[int, int]:
        """How many files, and how many bytes, a batch may have."""
        config = self.table.source_config
        return config.max_files, config.max_bytes

    def gone(self, files: Sequence[LandedFile]) -> list[str]:
        """The names of those files that are not there any more, as they were planned."""
        there = set(self.source.files())
        return [f.name for f in files if f not in there]

    def token(
        self,
        planned: PlannedFiles,
        unchanged: int | None = None,
        counted: dict[str, int] | None = None,
        at_least: int = 0,
    ) -> BatchToken:
        """The token of a planned batch, with what planning counted: for the report, and for the audit."""
        return BatchToken(
            table=str(self.table), batch=planned.batch, after=planned.batch - 1,
            content_hash=planned.content_hash, follows=planned.follows, epoch=planned.epoch,
            unchanged=unchanged, counted=counted, at_least=at_least,
        )  # fmt: skip
