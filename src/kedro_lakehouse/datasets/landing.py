"""The landing folder of a table: loads planned batches, one after the other."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.datasets.columns import resolve_columns
from kedro_lakehouse.datasets.extracts import ExtractBatches
from kedro_lakehouse.datasets.token import BatchToken
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.errors import BatchContentChangedError, UnsupportedError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.sources.files import LandedFile, bounded, shapes
from kedro_lakehouse.sources.ledger import Ledger, PlannedFiles, content_hash
from kedro_lakehouse.sources.read import read_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.base import ChangeDecoder
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import FileShape

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LandedChanges:
    """A planned batch of raw change records."""

    token: BatchToken
    decoder: ChangeDecoder
    groups: Sequence[RecordGroup]
    layout: Any
    columns: Columns


class LandingDataset(DeclaredDataset):
    """What has landed for a table and is in no batch yet, cut into bounded batches.

    Loading gives an iterator; taking a batch from it writes the batch into the ledger, and taking
    the next one is only right after the batch was saved.

    Example:
        In YAML::

            "{namespace}.{table}.landing":
              type: kedro_lakehouse.datasets.LandingDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "landing"

    def load(self) -> Iterator[Any]:
        """Plan what has landed, batch by batch; nothing is listed before the first is asked for.

        Raises:
            SourceNotFoundError: The landing folder is not there.
            UnreadableFileError: A file is not what it is declared to be.
            BatchContentChangedError: A planned batch's files were replaced before it was done.
            RefusedExtractsError: Extracts were refused; raised after all others were given out.
        """
        project, name = self.project, self._name
        table = project.table(name)
        source: FileSource = load_plugin(SOURCES, project.source(name).type)(
            project.source(name), name, table
        )  # type: ignore[operator]
        with lease(project.leases, name, "ingestion"):
            ledger = Ledger(project.ops, name, project.run_id)
            planner = Planner(project, name, table, source, ledger)
            if source.gives == "extracts":
                yield from ExtractBatches(planner, TableContract.of(name, table), table).batches()
            else:
                yield from planner.batches()

    def save(self, data: object) -> None:
        """Refuse: files land from outside."""
        del data
        raise UnsupportedError(
            what=f"Saving to the landing folder of {self._name}.", remedy="Save to another dataset."
        )

    def _exists(self) -> bool:
        return True


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
        config = self.project.source(self.name)
        for files in bounded(self.ledger.new(self.source.files()), config.max_files, config.max_bytes):
            looked = self.look(files)
            if all(shape.has_rows is False for shape in looked):
                logger.info("%s: %s files without rows wait for the first with rows", self.name, len(files))
                continue
            self.source.require_columns(looked)  # type: ignore[attr-defined]
            columns = self.columns(looked)
            planned = self.ledger.plan(self.next_batch(), files, {})
            enter_phase("planned", self.name, "ingestion", planned.batch)
            yield self._landed(planned, looked, columns)

    def _landed(
        self, planned: PlannedFiles, looked: Sequence[FileShape], columns: Columns | None = None
    ) -> LandedChanges:
        return LandedChanges(
            token=self.token(planned),
            decoder=load_decoder(self.source.decoder),  # type: ignore[attr-defined]
            groups=self.read(looked),
            layout=self.source.layout(),  # type: ignore[attr-defined]
            columns=columns or self.columns(looked),
        )

    def state(self) -> TableState | None:
        """Where the record of changes stands."""
        return self.project.iceberg.state(self.name.with_suffix("changes"))

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
        there = set(self.source.files())
        gone = [f.name for f in last.files if f not in there]
        if not gone:
            return last
        quarantine = self.project.iceberg.state(self.name.with_suffix("quarantine"))
        if quarantine is not None and quarantine.batch >= last.batch:
            raise BatchContentChangedError(
                table=self.name,
                batch=last.batch,
                detail=f"{len(gone)} planned files are gone or replaced: {gone[0]}",
            )
        self.ledger.forget(last.batch)  # a damaged file was replaced before anything of it was published
        return None

    def look(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """Look into files for their columns."""
        config: Any = self.project.source(self.name)
        return shapes(
            [(f, self.source.load_of(f)) for f in files],
            file_format=config.file_format, options=dict(self.source.options), table=self.name,
            headers=dict(self.source.headers), fallback=dict(self.source.unnamed_columns),
        )  # fmt: skip

    def columns(self, looked: Sequence[FileShape]) -> Columns:
        """Settle the table's columns."""
        state = self.state()
        return resolve_columns(self.name, self.table, self.source, looked, state.columns if state else {})

    def read(self, looked: Sequence[FileShape]) -> list[RecordGroup]:
        """Read files as raw records, lazily."""
        config: Any = self.project.source(self.name)
        return read_groups(
            self.project.session, looked, file_format=config.file_format, options=self.source.options,
            headers=self.source.headers,
        )  # fmt: skip

    def token(
        self, planned: PlannedFiles, unchanged: int | None = None, counted: dict[str, int] | None = None
    ) -> BatchToken:
        """The token of a planned batch, with what planning counted for the report of its commit."""
        return BatchToken(
            table=str(self.name), batch=planned.batch, after=planned.batch - 1,
            content_hash=planned.content_hash or content_hash(planned.files), unchanged=unchanged,
            counted=counted,
        )  # fmt: skip
