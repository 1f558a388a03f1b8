"""What has landed for a table and is in no batch yet, cut into batches of which each is in the ledger."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.datasets.columns import resolve_columns
from kedro_lakehouse.datasets.extracts import ExtractBatches
from kedro_lakehouse.datasets.rebuild import drop_given_up
from kedro_lakehouse.datasets.token import BatchToken
from kedro_lakehouse.datasets.trim import horizon_of
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.lines import RowLines, split_keyed
from kedro_lakehouse.errors import BatchContentChangedError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.sources.files import LandedFile, bounded, line_shapes, shapes
from kedro_lakehouse.sources.ledger import Ledger, PlannedFiles, content_hash
from kedro_lakehouse.sources.read import read_groups, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.base import ChangeDecoder
    from kedro_lakehouse.decoders.lines import LineReader
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import FileShape, Load

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LandedChanges:
    """A planned batch of raw change records; events from before the ``horizon`` are too late."""

    token: BatchToken
    decoder: ChangeDecoder
    groups: Sequence[RecordGroup]
    layout: Any
    columns: Columns
    horizon: datetime | None = None


def landed_batches(project: Project, name: TableName) -> Iterator[Any]:
    """Plan what has landed for a table, batch by batch: see ``LandingDataset.load``."""
    table = project.table(name)
    with project.lease(name, "ingestion"):
        ledger = Ledger(project.ops, name, project.run_id)
        drop_given_up(project, name, ledger)
        planner = planner_of(project, name, table, ledger)
        if planner.source.gives == "extracts":
            yield from ExtractBatches(planner, TableContract.of(name, table), table).batches()
        else:
            yield from planner.batches()


def planner_of(project: Project, name: TableName, table: TableConfig, ledger: Ledger) -> Planner:
    """The planner of a declared table: of landed files, or of the tables that it is made from."""
    if table.derive is not None:
        from kedro_lakehouse.datasets.derived import DerivedPlanner

        return DerivedPlanner(project, name, table, ledger)
    config = project.source(name)
    source: FileSource = load_plugin(SOURCES, config.type)(config, name, table)  # type: ignore[operator]
    return Planner(project, name, table, source, ledger)


class Planner:
    """Plans the batches of one table in one run."""

    def __init__(
        self, project: Project, name: TableName, table: TableConfig, source: FileSource, ledger: Ledger
    ) -> None:
        """Keep what planning needs."""
        self.project, self.name, self.table, self.source, self.ledger = project, name, table, source, ledger

    def batches(self) -> Iterator[LandedChanges]:
        """Give out the batch that a dead run left, then new ones until the backlog is done."""
        unfinished = self.unfinished()
        if unfinished is not None:
            looked = self.look(unfinished.files)
            yield self._landed(unfinished, looked)
        for files in bounded(self.ledger.new(self.source.files()), *self.limits):
            looked = self.look(files)
            if self._says_nothing(looked):
                logger.info("%s: %s files without rows wait for the first with rows", self.name, len(files))
                continue
            self.source.require_columns(looked)  # type: ignore[attr-defined]
            columns = self.columns(looked)
            planned = self.ledger.plan(self.next_batch(), files, {})
            enter_phase("planned", self.name, "ingestion", planned.batch)
            yield self._landed(planned, looked, columns)

    def _says_nothing(self, looked: Sequence[FileShape]) -> bool:
        """Whether no file has rows; or none that can be read, where the table's columns are not known."""
        unknown = self.state() is None
        return all(s.has_rows is False or (unknown and s.lines is not None and not s.columns) for s in looked)

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        return LandedChanges(
            token=self.token(planned),
            decoder=load_decoder(self.source.decoder),  # type: ignore[attr-defined]
            groups=self.read(looked),
            layout=self.source.layout(),  # type: ignore[attr-defined]
            columns=columns or self.columns(looked),
            horizon=horizon_of(self.state()),
        )

    def state(self) -> TableState | None:
        """Where the record of changes stands."""
        return self.project.format_of(self.name).state(self.name.with_suffix("changes"))

    def next_batch(self) -> int:
        """The number after the last planned one."""
        return (self.ledger.last.batch if self.ledger.last else 0) + 1

    def unfinished(self) -> PlannedFiles | None:
        """The batch that is planned and not in ``_changes``; None also where its files were replaced since.

        Raises:
            BatchContentChangedError: They were replaced, and its quarantined events are published already.
        """
        last, state = self.ledger.last, self.state()
        if last is None or (state is not None and state.batch >= last.batch):
            return None
        if last.is_replay:  # its events are still in quarantine: nothing of it was published
            self.ledger.forget(last.batch)
            return None
        gone = self.gone(last.files)
        if not gone:
            return last
        quarantine = self.project.format_of(self.name).state(self.name.with_suffix("quarantine"))
        if quarantine is not None and quarantine.batch >= last.batch:
            raise BatchContentChangedError(
                table=self.name,
                batch=last.batch,
                detail=f"{len(gone)} planned files are gone or replaced: {gone[0]}",
            )
        self.ledger.forget(last.batch)  # a damaged file was replaced before anything of it was published
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
            found = self._reader.discover(self._lines(filled), self._layout) if filled else []
            return line_shapes(landed, found)
        return shapes(
            [(f, self.source.load_of(f)) for f in files],
            file_format=config.file_format, options=dict(self.source.options), table=self.name,
            headers=dict(self.source.headers), fallback=dict(self.source.unnamed_columns),
        )  # fmt: skip

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
            content_hash=planned.content_hash or content_hash(planned.files), unchanged=unchanged,
            counted=counted, at_least=at_least,
        )  # fmt: skip
