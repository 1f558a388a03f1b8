"""What has landed for a table and is in no batch yet, cut into batches of which each is in the ledger."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.ingest import IngestionCommit, clear_void_quarantine, drop_given_up
from kedro_lakehouse.commits.marks import horizon_of
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.lines import RowLines, split_keyed
from kedro_lakehouse.errors import (
    BatchContentChangedError,
    CommitConflictError,
    LeaseLostError,
    UnsupportedError,
)
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ingestion.columns import resolve_columns
from kedro_lakehouse.ingestion.extracts import ExtractBatches
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.sources.files import LandedFile, bounded, line_shapes, shapes
from kedro_lakehouse.sources.ledger import Ledger
from kedro_lakehouse.sources.read import read_groups, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.base import ChangeDecoder
    from kedro_lakehouse.decoders.lines import LineReader, LineShape
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.patience import Patience
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import FileShape, Load
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


@dataclass(kw_only=True)
class Ingesting:
    """The batch that a landing folder has given out last, and the lease under which it was planned."""

    planned: PlannedFiles
    lease: Lease
    was_saved: bool = False
    """Whether its commit was tried, whatever became of it."""


def landed_batches(project: Project, name: TableName) -> Iterator[Any]:
    """Plan what has landed for a table, batch by batch: see ``LandingDataset.load``.

    A batch that lost its race, or whose lease was lost, is planned again on what is published by then.
    """
    table, patience = project.table(name), project.patience(name)
    planner = planner_of(project, name, table, Ledger(project.ops, name, project.run_id))
    while True:
        try:
            with project.lease(name, "ingestion") as held:
                yield from planner.given_out(held, patience)
                return
        except LeaseLostError as error:
            logger.info("%s: the lease is another run's, planning again", name)
            patience.pause(error)


def ingest_batch(
    project: Project, name: TableName, token: BatchToken, *, accepted: Any, rejected: Any
) -> None:
    """Commit the checked events of a batch; one that was given out and lost its race comes again.

    Raises:
        BatchContentChangedError: The table holds another batch of this number, and no landing waits for it.
        CommitConflictError: Another writer was faster, and no landing waits for the batch.
    """
    given = project.ingesting.get(name)
    waits = given is not None and given.planned.content_hash == token.content_hash
    rows = engine_of(project).events(name, accepted, rejected, token)
    commit = IngestionCommit(project, name, token, rows)
    try:
        if given is not None and waits:
            given.was_saved = True
            commit.run(given.lease)
        else:
            with project.lease(name, "ingestion") as held:
                commit.run(held)
    except CommitConflictError as error:
        if waits:
            return
        state = project.format_of(name).state(name.with_suffix("changes"))
        if state is not None and state.batch == token.batch:
            raise BatchContentChangedError(
                table=name, batch=token.batch, detail="the batch is committed with other content"
            ) from error
        raise
    except LeaseLostError:
        if not waits:
            raise


def planner_of(project: Project, name: TableName, table: TableConfig, ledger: Ledger) -> Planner:
    """The planner of a declared table: of landed files, or of the tables that it is made from."""
    if table.derive is not None:
        from kedro_lakehouse.ingestion.derived import DerivedPlanner

        return DerivedPlanner(project, name, table, ledger)
    config = project.source(name)
    source: FileSource = load_plugin(SOURCES, config.type)(config, name, table)  # type: ignore[operator]
    made: type[Planner] = getattr(source, "planner", Planner)
    return made(project, name, table, source, ledger)


class Planner:
    """Plans the batches of one table in one run.

    The chain of published batches is read anew after each batch; the folder is listed once, and again
    after a lost race.
    """

    def __init__(
        self, project: Project, name: TableName, table: TableConfig, source: FileSource, ledger: Ledger
    ) -> None:
        """Keep what planning needs."""
        self.project, self.name, self.table, self.source, self.ledger = project, name, table, source, ledger
        self._listed: list[LandedFile] | None = None

    def given_out(self, held: Lease, patience: Patience) -> Iterator[Any]:
        """Give out one batch after the other until nothing is left; a lost race is planned again.

        Raises:
            CommitConflictError: Other writers won every race until the deadline.
            LeaseLostError: Another run may work on the table by now.
            RefusedExtractsError: Extracts were refused; raised after all others were given out.
        """
        batches, chain = self._batches(), self.chain(anew=True)
        while (batch := batches.next_batch(chain)) is not None:
            planned = batch.planned
            given = self.project.ingesting[self.name] = Ingesting(planned=planned, lease=held)
            try:
                yield batch
            finally:
                self.project.ingesting.pop(self.name, None)
                batches.release()
            chain = self.chain()
            if chain.holds(planned.batch, planned.content_hash):
                patience.succeeded()
                continue
            if not given.was_saved:
                raise UnsupportedError(
                    what=f"{self.name}: the batch after {planned.batch} was asked for before that was saved.",
                    remedy="Save each batch to the datasets 'quarantine' and 'changes' before the next.",
                )
            held.check()
            logger.info("%s: another run published batch %s, planning again", self.name, planned.batch)
            patience.pause(CommitConflictError(table=self.name.with_suffix("changes"), attempts=1))
            self._listed = None
            batches.judge_again()
            chain = self.chain(anew=True)
        batches.end()

    def _batches(self) -> Batches:
        if self.source.gives == "extracts":
            return ExtractBatches(self, TableContract.of(self.name, self.table), self.table)
        return ChangeBatches(self)

    def chain(self, *, anew: bool = False) -> Chain:
        """The published batches and the plans that may follow; removes quarantined rows of other plans."""
        if anew:
            self.ledger.read_again()
            drop_given_up(self.project, self.name, self.ledger)
        while (chain := self._published()).is_given_up:
            drop_given_up(self.project, self.name, self.ledger)
        with contextlib.suppress(CommitConflictError):  # whoever was faster has looked at it too
            clear_void_quarantine(self.project, self.name, chain)
        return chain

    def _published(self) -> Chain:
        state = self.state()
        return self.ledger.chain(state.bookmark if state else None)

    def listed(self) -> list[LandedFile]:
        """What has landed, as it was listed for this round."""
        if self._listed is None:
            self._listed = self.source.files()
        return self._listed

    def says_nothing(self, looked: Sequence[FileShape]) -> bool:
        """Whether no file has rows; or none that can be read, where the table's columns are not known."""
        unknown = self.state() is None
        return all(s.has_rows is False or (unknown and s.lines is not None and not s.columns) for s in looked)

    def state(self) -> TableState | None:
        """Where the record of changes stands."""
        return self.project.format_of(self.name).state(self.name.with_suffix("changes"))

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
        quarantine = self.project.format_of(self.name).state(self.name.with_suffix("quarantine"))
        held = quarantine.bookmark if quarantine else None
        begun = [p for p in plans if held and (p.batch, p.content_hash) == (held.batch, held.content_hash)]
        for plan in sorted(begun or plans, key=lambda p: (-len(p.files), p.content_hash)):
            gone = self.gone(plan.files)
            if not gone:
                return plan
            if begun:
                raise BatchContentChangedError(
                    table=self.name,
                    batch=plan.batch,
                    detail=f"{len(gone)} planned files are gone or replaced: {gone[0]}",
                )
        return None

    @property
    def limits(self) -> tuple[int, int]:
        """How many files, and how many bytes, a batch may have."""
        config = self.project.source(self.name)
        return config.max_files, config.max_bytes

    def gone(self, files: Sequence[LandedFile]) -> list[str]:
        """The names of those files that are not there any more, as they were planned."""
        there = set(self.source.files())
        return [f.name for f in files if f not in there]

    def look(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """Look into files for their columns: those of JSON lines in one Spark job, others at their ends."""
        config: Any = self.project.source(self.name)
        if config.file_format == "json":
            landed = [(f, self.source.load_of(f)) for f in files]
            filled = [f for f in files if f.size]
            found = self._discovered(filled) if filled else []
            return line_shapes(landed, found)
        return shapes(
            [(f, self.source.load_of(f)) for f in files],
            file_format=config.file_format, options=dict(self.source.options), table=self.name,
            headers=dict(self.source.headers), fallback=dict(self.source.unnamed_columns),
        )  # fmt: skip

    def _discovered(self, files: Sequence[LandedFile]) -> Sequence[LineShape]:
        lines = self._lines(files)
        with reading_errors(self.name, lines):
            return self._reader.discover(lines, self._layout)

    def columns(self, looked: Sequence[FileShape]) -> Columns:
        """Settle the table's columns; lines of which none could be read tell nothing of them."""
        state = self.state()
        telling = [s for s in looked if s.lines is None or s.columns or not s.has_rows]
        seen = dict.fromkeys(column for shape in telling for column, _ in shape.columns)
        self.project.source_columns[self.name] = tuple(seen)
        existing = state.columns if state else {}
        return resolve_columns(self.name, self.table, self.source, telling, existing)

    def read(self, looked: Sequence[FileShape]) -> list[RecordGroup]:
        """Read files as raw records, lazily."""
        config: Any = self.project.source(self.name)
        if config.file_format == "json":
            shapes = [s.lines for s in looked if s.lines is not None and s.has_rows]
            filled = list(dict.fromkeys(s.file for s in looked if s.lines is not None and s.has_rows))
            load: Load = looked[0].load if looked else "changes"
            lines = self._lines(filled)
            return list(self._reader.unwrap(lines, shapes, self._layout, load=load)) if shapes else []
        return read_groups(
            self.project.session, looked, file_format=config.file_format, options=self.source.options,
            headers=self.source.headers,
        )  # fmt: skip

    @property
    def _layout(self) -> Any:
        return getattr(self.source, "layout", lambda: None)()

    @property
    def _reader(self) -> LineReader:
        """What turns JSON lines into records: the decoder itself, or what reads plain rows."""
        named: str | None = getattr(self.source, "decoder", None)
        decoder: Any = load_decoder(named) if named else None
        return decoder if hasattr(decoder, "unwrap") else RowLines()

    def _lines(self, files: Sequence[LandedFile]) -> DataFrame:
        lines = read_lines(self.project.session, files)
        return split_keyed(lines) if getattr(self.source, "keyed", False) else lines

    def token(
        self,
        planned: PlannedFiles,
        unchanged: int | None = None,
        counted: dict[str, int] | None = None,
        at_least: int = 0,
    ) -> BatchToken:
        """The token of a planned batch, with what planning counted: for the report, and for the audit."""
        return BatchToken(
            table=str(self.name), batch=planned.batch, after=planned.batch - 1,
            content_hash=planned.content_hash, follows=planned.follows, epoch=planned.epoch,
            unchanged=unchanged, counted=counted, at_least=at_least,
        )  # fmt: skip


class Batches(Protocol):
    """How the backlog of a table is cut into batches."""

    def next_batch(self, chain: Chain) -> Any:
        """Plan the batch that follows a chain: an unfinished one or a new one; None where none is left."""

    def release(self) -> None:
        """Let go what was held in memory for the last batch."""

    def judge_again(self) -> None:
        """Forget what was said of the backlog against a state that is not the table's any more."""

    def end(self) -> None:
        """Raise what was refused."""


class ChangeBatches:
    """Batches of change records: as many files as are allowed in one."""

    def __init__(self, planner: Planner) -> None:
        """Keep what looks into files."""
        self._planner = planner
        self._silent: set[LandedFile] = set()

    def next_batch(self, chain: Chain) -> LandedChanges | None:
        """The next batch; files without rows wait for the first with rows."""
        planner = self._planner
        unfinished = planner.unfinished(chain)
        if unfinished is not None:
            return self._landed(unfinished, planner.look(unfinished.files))
        new = [f for f in chain.new(planner.listed()) if f not in self._silent]
        for files in bounded(new, *planner.limits):
            looked = planner.look(files)
            if planner.says_nothing(looked):
                logger.info(
                    "%s: %s files without rows wait for the first with rows", planner.name, len(files)
                )
                self._silent.update(files)
                continue
            planner.source.require_columns(looked)  # type: ignore[attr-defined]
            columns = planner.columns(looked)
            planned = planner.ledger.plan(chain, files, {})
            enter_phase("planned", planner.name, "ingestion", planned.batch)
            return self._landed(planned, looked, columns)
        return None

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        planner = self._planner
        return LandedChanges(
            planned=planned,
            token=planner.token(planned),
            decoder=load_decoder(planner.source.decoder),  # type: ignore[attr-defined]
            groups=planner.read(looked),
            layout=planner.source.layout(),  # type: ignore[attr-defined]
            columns=columns or planner.columns(looked),
            horizon=horizon_of(planner.state()),
        )

    def release(self) -> None:
        """Nothing is held."""

    def judge_again(self) -> None:
        """Nothing was judged."""

    def end(self) -> None:
        """Nothing is refused."""
