"""The commit of one landed batch: rejected events go to quarantine, accepted ones to the change log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.events import OP
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.drift import made_for, refuse_drift
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.marks import DISTINCT
from kedro_lakehouse.commits.rows import QUARANTINE_COLUMNS
from kedro_lakehouse.errors import (
    BatchContentChangedError,
    CommitConflictError,
    SequenceTieError,
    TooManyInvalidError,
)
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.names import DROP_ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types as T

    from kedro_lakehouse.commits.rows import EventRows, Staged
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.ledger import Chain, Ledger


STEP: Final = "ingestion"
"""Name of these commits in ``lake.ops.batches``, and of their lease."""
_UNORDERED: Final = {"write.distribution-mode": "none"}


class IngestionCommit(runner.Change):
    """Stages, validates and publishes one batch.

    A batch can be published only directly after the batch that its plan follows. Quarantine is published
    first; the bookmark of the change log then confirms both. If another plan of the same batch is published
    instead, the rows that this run left in quarantine are replaced by the next commit to quarantine.
    """

    def __init__(self, table: LakeTable, token: BatchToken, rows: EventRows) -> None:
        """Take the plan of the batch (``token``) and its checked events (``rows``)."""
        super().__init__(table, table.changes, step=STEP, batch=token.batch)
        self._quarantine, self._token, self._rows = table.quarantine, token, rows
        self._contract = table.contract
        self._staged: Staged | None = None
        self._behind: CommitReport | None = None

    def run(self, held: Lease) -> bool:
        """Commit the batch once; do nothing if it is already published.

        Raises:
            CommitConflictError: The batch cannot follow the batches that are published by now: plan again.
            TooManyInvalidError: More than ``max_invalid_fraction`` of the events are invalid; nothing was
                published.
            BatchContentChangedError: The same batch was rebuilt differently.
        """
        with self._rows.reading():
            return runner.attempt([self], held)

    @property
    def layout(self) -> Layout:
        """A change log is partitioned by the operation of its events."""
        return Layout(partition_by=(OP,), properties=_UNORDERED | made_for(self._contract))

    def is_done(self, state: TableState | None) -> bool:
        """Whether the batch is published.

        Raises:
            CommitConflictError: Another plan was published in its place, or the batch before it is not the
                last published one.
        """
        bookmark, token = state.bookmark if state else None, self._token
        batch, content_hash = (bookmark.batch, bookmark.content_hash) if bookmark else (0, "")
        if (batch, content_hash) == (token.batch, token.content_hash):
            return True
        if (batch, content_hash) == (token.batch - 1, token.follows):
            self._behind = bookmark
            return False
        if batch > token.batch and self.table.open_ledger().chain(bookmark).holds(
            token.batch, token.content_hash
        ):
            return True
        raise CommitConflictError(table=self.target, attempts=1)

    def columns(self, _: TableState | None) -> Mapping[str, T.DataType]:
        """The columns of the accepted events."""
        return self._rows.columns()

    def refuse_drift(self, state: TableState, columns: Mapping[str, T.DataType]) -> None:
        """Refuse a declaration with other keys or another order than the change log's."""
        refuse_drift(self.target, state, self._contract, columns)

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        """Stage each accepted event once."""
        self._staged = self._rows.write(stage, state)
        return self.report(self._staged)

    def audit(self, stage: Stage, state: TableState) -> None:
        """Check the batch's counts against the declared limits, then publish its rejected events.

        Raises:
            CommitConflictError: Another batch was published meanwhile.
        """
        staged = self._staged
        assert staged is not None  # noqa: S101 - written before
        self._check_limits(staged)
        if staged.quarantined:
            now = self.format.state(self.target)
            # The change log has moved on: repeats were looked for in an older state of it.
            if now is None or now.version != state.version:
                raise CommitConflictError(table=self.target, attempts=1)
            self._publish_quarantine(staged, self.table.open_ledger().chain(self._behind))
        if not staged.applied:
            stage.drop()  # a batch without accepted events changes the bookmark and nothing else

    def properties(self, _: TableState) -> Mapping[str, str]:
        """Those of the batch, and whether it is the first and has distinct keys: then nobody need fold it."""
        is_told = self._staged is not None and self._staged.has_distinct_keys and self.batch == 1
        return (self._token.properties or {}) | ({DISTINCT: str(self.batch)} if is_told else {})

    def _check_limits(self, staged: Staged) -> None:
        limit = 0.0 if self.table.config.on_invalid == "fail" else self.table.config.max_invalid_fraction
        if staged.quarantined > limit * staged.events_in:
            raise TooManyInvalidError(
                table=self.table.name,
                batch=self._token.batch,
                invalid=staged.quarantined,
                total=staged.events_in,
                limit=limit,
            )
        if self.table.config.on_tie == "fail" and staged.ties:
            raise SequenceTieError(table=self.table.name, batch=self._token.batch, ties=staged.ties)

    def report(self, staged: Staged) -> CommitReport:
        """The bookmark of the batch, with its counts."""
        token = self._token
        counts = {
            "events_in": staged.events_in,
            "applied": staged.applied,
            "quarantined": staged.quarantined,
            "duplicates": staged.events_in - staged.quarantined - staged.applied,
            "sequence_ties": staged.ties,
            "too_late": staged.too_late,
        }
        counts |= token.counted or {}
        if token.unchanged is not None:
            counts["unchanged"] = max(token.unchanged - staged.upserts, 0)
        return self.report_of(token, digest=staged.digest, counts=counts, **staged.facts)

    def _publish_quarantine(self, staged: Staged, chain: Chain) -> None:
        """Append the rejected events of a batch to quarantine in one commit, unless they are already there.

        Raises:
            CommitConflictError: Quarantine has rows of another plan that can still be published, and so has
                priority; or a rebuild has begun since this plan was made.
            BatchContentChangedError: The batch's accepted events were rebuilt differently since its rows were
                published.
        """
        table, token, lake, target = self.table, self._token, self.format, self.table.quarantine
        if chain.epoch > token.epoch:  # a rebuild has begun since this plan was made
            raise CommitConflictError(table=target, attempts=1)
        state = lake.state(target)
        if state is None:
            lake.create(target, QUARANTINE_COLUMNS, Layout(properties=_UNORDERED))
            state = lake.state(target)
        elif QUARANTINE_COLUMNS.keys() - state.columns.keys():  # an earlier version made it
            lake.evolve(target, QUARANTINE_COLUMNS, state)
            state = lake.state(target)
        if state is None:
            raise CommitConflictError(table=target, attempts=1)
        held = state.bookmark
        if held is not None and (held.batch, held.content_hash) == (token.batch, token.content_hash):
            if held.digest != staged.digest:
                raise BatchContentChangedError(
                    table=table.name, batch=token.batch, detail="its accepted events were rebuilt differently"
                )
            return
        void = _void_from(state, chain)
        if held is not None and (held.epoch > token.epoch or (not void and held.batch >= token.batch)):
            raise CommitConflictError(table=target, attempts=1)
        with runner.lost_races(lake, {target: state}), lake.stage(target, state) as stage:
            if void:
                stage.replace(engine_of(table).quarantined(table, before=void, more=self._rows.rejected()))
            else:
                stage.append(self._rows.rejected())
            stage.publish(self.report(staged))


def clear_void_quarantine(table: LakeTable, chain: Chain) -> None:
    """Delete the quarantined rows of a void plan: one that the change log never got and never can get.

    Raises:
        CommitConflictError: Another writer changed the quarantine meanwhile.
    """
    if not chain.void and not chain.epoch:
        return
    lake, target = table.format, table.quarantine
    state = lake.state(target)
    if state is None or not (void := _void_from(state, chain)):
        return
    head = table.report(stage=STEP, batch=chain.batch, batches=0, content_hash=chain.head, epoch=chain.epoch)
    with runner.lost_races(lake, {target: state}), lake.stage(target, state) as stage:
        stage.replace(engine_of(table).quarantined(table, before=void))
        stage.publish(head)


def drop_given_up(table: LakeTable, ledger: Ledger) -> None:
    """Drop the stored tables that a rebuild gave up, and a change log of runs that did not see the rebuild.

    What such runs wrote to other tables is not dropped: the next commit to that table replaces it. A commit
    is certain of the state that it replaces. A drop could hit what another run of this epoch has just
    published.
    """
    if not ledger.epoch and not ledger.given_up:
        return
    lake = table.format
    for role in DROP_ORDER:
        stored = table.stored(role)
        state = lake.state(stored)
        if state is None:
            continue
        older = role == "changes" and state.bookmark is not None and state.bookmark.epoch < ledger.epoch
        if older or state.uuid in ledger.given_up:
            lake.drop(stored, uuid=state.uuid)


def _void_from(state: TableState, chain: Chain) -> int:
    """The first batch whose quarantined rows belong to a void plan; 0 where there are none.

    Within one epoch only the last plan published to quarantine can be void: whoever publishes after a void
    plan first removes its rows. If the bookmark is of an earlier epoch, a run that did not see the rebuild
    wrote it, and all rows are void.
    """
    held = state.bookmark
    if held is None:
        return 0
    if held.epoch < chain.epoch:
        return 1
    return held.batch if (held.batch, held.content_hash) in chain.void else 0
