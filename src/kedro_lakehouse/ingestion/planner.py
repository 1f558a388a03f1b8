"""Plan a table's batches: find the files that are in no batch yet, and the plans that may follow."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from kedro_lakehouse.commits.ingest import clear_void_quarantine, drop_given_up
from kedro_lakehouse.commits.renames import rename_columns
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.errors import BatchContentChangedError, CommitConflictError, UnsupportedError
from kedro_lakehouse.ingestion.declared import look_at_declaration, refuse_other_targets
from kedro_lakehouse.ingestion.references import References
from kedro_lakehouse.sources.base import StreamSource, Waiting, gone_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from kedro_lakehouse.changes.lookup import Lookup
    from kedro_lakehouse.decoders.records import Columns
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.reading import FileReader
    from kedro_lakehouse.ingestion.touched_keys import KeyCut
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.patience import Patience
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.ledger import Chain
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)

STOPPING: Final = threading.Event()
"""Set when this process is to end after the batches in hand: no further one is given out."""


@dataclass(kw_only=True)
class Ingesting:
    """The batch of a table that was yielded last, and the lease under which it was planned."""

    planned: PlannedFiles
    lease: Lease
    begun: float
    """When its planning began, on the clock ``perf_counter``."""
    was_saved: bool = False
    """Whether its commit was tried, with whatever outcome."""


class Batches(Protocol):
    """Cuts the backlog of a table into batches."""

    def next_batch(self, chain: Chain) -> Any:
        """Plan the batch that follows a chain: an unfinished one or a new one; None where none is left."""

    def release(self) -> None:
        """Release the frames that were cached for the last batch."""

    def forget_refusals(self) -> None:
        """Forget refusals that were decided against a state that the table no longer has."""

    def end(self) -> None:
        """Raise an error if anything was refused."""


def known_ranges(chain: Chain) -> list[LandedFile]:
    """The ranges of a stream that are published, or that its declared start left out."""
    return [*chain.refused, *chain.read_ranges()]


class Planner:
    """Plans the batches of one table in one run.

    The chain of published batches is read anew after each batch; the folder is listed once, and again
    after a lost race.
    """

    def __init__(self, table: LakeTable, source: FileSource, reader: FileReader) -> None:
        """Take the source and its reader, and open the table's ledger."""
        self.table, self.source, self.reader = table, source, reader
        self.ledger = table.open_ledger()
        self._listed: list[LandedFile] | None = None
        self._seen: TableState | None = None

    @cached_property
    def references(self) -> References:
        """The references that the table's events are looked up in."""
        return References(self.table)

    def given_out(self, batches: Batches, held: Lease, patience: Patience) -> Iterator[Any]:
        """Yield one batch after the other until none is left; after a lost race, plan again.

        Raises:
            CommitConflictError: Other writers won every race until the deadline.
            LeaseLostError: Another run may be working on the table by now.
            RefusedExtractsError: Extracts were refused; raised after all others were yielded.
            UnsupportedError: A `rename` that was declared later cannot be applied to the table.
            KeySchemaDriftError, MissingColumnError, SequenceTypeDriftError, IncompatibleTypeError,
                FoldRuleDriftError, TrackHistoryDriftError: The declared keys, order, types, rules or tracked
                columns do not fit the stored tables; found also where nothing has landed.
        """
        begun, ingesting = perf_counter(), self.table.environment.ingesting
        rename_columns(self.table)
        if self.references.snapshots() is None:
            return
        chain = self.chain(anew=True)
        nothing_new = True
        while not STOPPING.is_set() and (batch := batches.next_batch(chain)) is not None:
            nothing_new, planned = False, batch.planned
            given = ingesting[self.table.name] = Ingesting(planned=planned, lease=held, begun=begun)
            try:
                yield batch
            finally:
                ingesting.pop(self.table.name, None)
                batches.release()
            begun = perf_counter()
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
        if self._seen is not None:
            read = self.table.environment.source_columns.get(self.table.name, ())
            look_at_declaration(self.table, self._seen, read)
        if nothing_new:  # else each target's own commit looks at it
            refuse_other_targets(self.table)

    def chain(self, *, anew: bool = False) -> Chain:
        """The published batches and the plans that may follow; also deletes quarantined rows of void plans.

        With ``anew``, the ledger is read again first.
        """
        if anew:
            self.ledger.read_again()
            drop_given_up(self.table, self.ledger)
        while (chain := self.published()).is_given_up:
            drop_given_up(self.table, self.ledger)
        with contextlib.suppress(CommitConflictError):  # the faster run has looked at it too
            clear_void_quarantine(self.table, chain)
        return chain

    def published(self) -> Chain:
        """The published batches and the plans that may follow, as they are now; nothing is written."""
        self._seen = self.state()
        return self.ledger.chain(self._seen.bookmark if self._seen else None)

    def has_news(self) -> bool:
        """Whether files or records are in no batch yet, a plan is unfinished, or a target lacks a batch."""
        chain, seen = self.published(), self._seen
        if (now := self.references.snapshots()) is None:
            return False
        if any(not (plan.is_replay or plan.is_repair) for plan in chain.open) or chain.is_given_up:
            return True
        if chain.last and self.references.repairs and chain.last.references != now:
            return True
        for kind in self.table.targets:
            target = self.table.state(kind)
            if seen and not (target and target.is_held) and (target.batch if target else 0) < seen.batch:
                return True
        if isinstance(self.source, StreamSource):
            lag = self.source.lag(known_ranges(chain), self.ledger.planned_ever())
            return lag.partitions > 0 or lag.is_due
        return bool(self._new_files(chain))

    def waiting(self) -> Waiting:
        """What the source has that is in no batch yet; nothing is written.

        Raises:
            OffsetsGoneError, TopicReplacedError, SourceUnreachableError: A stream cannot go on, or be asked.
        """
        chain = self.published()
        if isinstance(self.source, StreamSource):
            known, begun = known_ranges(chain), self.ledger.planned_ever()
            before = known if known or begun else self.source.before_start()
            lag = self.source.lag(before, begun, timed=True)
            return Waiting(files=lag.partitions, bytes=lag.bytes, records=lag.records, seconds=lag.seconds)
        found = self._new_files(chain)
        return Waiting(files=len(found), bytes=sum(file.size for file in found))

    def _new_files(self, chain: Chain) -> list[LandedFile]:
        """The files that are new, without those that a guard refused."""
        refused = {refusal.file for _, refusal in chain.waiting}
        return [file for file in chain.new(self.source.files()) if file not in refused]

    def listed(self) -> list[LandedFile]:
        """The landed files, as they were listed for this round."""
        if self._listed is None:
            self._listed = self.source.files()
        return self._listed

    def state(self) -> TableState | None:
        """The published state of the change log."""
        return self.table.state("changes")

    def unfinished(self, chain: Chain) -> PlannedFiles | None:
        """The plan to finish first: one that may be published next, and whose files are there as planned.

        If a plan has already published its quarantined events, it is that plan. A replay is not finished
        here: its events are still in quarantine.

        Raises:
            BatchContentChangedError: Its files were replaced after its quarantined events were published.
        """
        plans = [p for p in chain.open if not (p.is_replay or p.is_repair)]
        if not plans:
            return None
        quarantine = self.table.state("quarantine")
        held = quarantine.bookmark if quarantine else None
        begun = [p for p in plans if held and (p.batch, p.content_hash) == (held.batch, held.content_hash)]
        # The order is the same in every run: the plan with most files first.
        for plan in sorted(begun or plans, key=lambda p: (-len(p.files), p.content_hash)):
            gone = self.gone(plan.files)
            if not gone and self.references.holds(plan.references):
                return plan
            if begun:
                lost = f"{len(gone)} planned files are gone or replaced: {gone[0]}" if gone else ""
                raise BatchContentChangedError(
                    table=self.table.name,
                    batch=plan.batch,
                    detail=lost or "a snapshot of a reference that it looks up in is gone",
                )
        return None

    def lookups(self, snapshots: Mapping[str, int], columns: Columns) -> list[Lookup]:
        """The lookups of a batch whose events become these columns, at these snapshots of references."""
        return self.references.lookups(snapshots, columns.types) if self.table.config.enrich else []

    def references_after(self, chain: Chain) -> dict[str, int]:
        """The snapshots of references that the batch after a chain looks up in.

        Where rows follow their references, all batches up to the last one agree on them: a newer snapshot
        counts from the next repair on.
        """
        if self.references.repairs and chain.last:
            return dict(chain.last.references)
        return self.references.snapshots() or {}

    @property
    def limits(self) -> tuple[int, int]:
        """The greatest number of files, and of bytes, in a batch."""
        config = self.table.source_config
        return config.max_files, config.max_bytes

    def gone(self, files: Sequence[LandedFile]) -> list[str]:
        """The names of the files that are no longer there as they were planned."""
        return gone_from(self.source, files)

    def cut(self, files: Sequence[LandedFile], chain: Chain, cached: ExitStack) -> KeyCut | None:  # noqa: ARG002
        """The part of extracts that can differ from the rows before them; None if they are read whole."""
        return None

    def token(
        self,
        planned: PlannedFiles,
        unchanged: int | None = None,
        counted: dict[str, int] | None = None,
        at_least: int = 0,
    ) -> BatchToken:
        """The token of a planned batch, with the counts of its planning for the report and the audit."""
        return BatchToken(
            table=str(self.table),
            batch=planned.batch,
            after=planned.batch - 1,
            content_hash=planned.content_hash,
            follows=planned.follows,
            epoch=planned.epoch,
            unchanged=unchanged,
            counted=counted,
            at_least=at_least,
        )
