"""The change log and the quarantine: one ingestion writes both."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.logs.context import working_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.commits.token import NothingLanded
    from kedro_lakehouse.datasets.viz import TablePreview
    from kedro_lakehouse.names import Role


class QuarantineDataset(DeclaredDataset):
    """Events that cannot be applied: raw record, position and reasons.

    Saving only holds the frame in memory until the accepted events of the same batch are saved: one pass
    over the batch validates both, and neither is published without the other.

    Schema:
        ``_batch`` bigint, ``_position`` struct<file, row>, ``_reasons`` array<string> (the first one
        decides), ``_op`` string, ``_raw`` string (the record as it landed).
    """

    role: ClassVar[str] = "quarantine"
    _stored_as: Role = "quarantine"

    def load(self) -> DataFrame:
        """All quarantined events; an empty frame where there are none."""
        from pyspark.sql import types as T

        from kedro_lakehouse.commits.rows import QUARANTINE_COLUMNS

        if not self._exists():
            fields = [T.StructField(n, t) for n, t in QUARANTINE_COLUMNS.items()]
            return self.table.session.createDataFrame([], T.StructType(fields))
        return self.table.format.read(self._stored)

    def preview(self, nrows: int = 5) -> TablePreview:
        """Some quarantined events for kedro-viz: where they came from and why, without their records."""
        return self._preview(nrows, "_batch", "_position", "_reasons", "_op")

    def save(self, data: DataFrame | NothingLanded) -> None:
        """Hold the checked events, to be quarantined together with the commit of the accepted ones."""
        from kedro_lakehouse.commits.token import NothingLanded

        if isinstance(data, NothingLanded):
            return
        self.project.quarantined[self._name] = data


class ChangesDataset(DeclaredDataset):
    """The change log: every accepted event of a table, append only, and the only state beside the targets.

    Saving takes checked events: those with reasons are written to quarantine, the others here, in one
    commit each, published after both were validated. A batch that is already there is skipped.

    Raises (save):
        TooManyInvalidError: More than ``max_invalid_fraction`` are invalid; nothing was written.
        BatchContentChangedError: The same batch number was saved before with other content.
    """

    role: ClassVar[str] = "changes"
    _stored_as: Role = "changes"

    def load(self) -> DataFrame:
        """All accepted events; an empty frame with the framework's columns where nothing has landed yet.

        They are read when the frame is first used.
        """
        from kedro_lakehouse.commits.token import BatchToken

        table, state = self.table, self.table.state("changes")
        if state is None:
            return BatchToken.at(table.name, None, after=0).read_later(
                lambda: table.session.createDataFrame([], "_op string, _batch bigint")
            )
        token = BatchToken.at(table.name, state.bookmark, after=0, log=state.uuid)
        return token.read_later(lambda: table.read("changes"))

    def preview(self, nrows: int = 5) -> TablePreview:
        """Some accepted events for kedro-viz; personal columns stay closed."""
        return self._preview(nrows, "_op", "_batch")

    def save(self, data: DataFrame | NothingLanded) -> None:
        """Commit one batch: quarantine, then changes with the bookmark.

        If the commit of a batch from the landing dataset loses a race, that dataset plans the batch again.
        """
        from kedro_lakehouse.commits.token import BatchToken, NothingLanded
        from kedro_lakehouse.ingestion.landing import ingest_batch

        if isinstance(data, NothingLanded):
            return
        project, name = self.project, self._name
        quarantined = project.quarantined.pop(name, None)
        if quarantined is None:
            raise UnsupportedError(
                what=f"Saving changes of {name} without their quarantined events.",
                remedy="Let the node give (quarantine, changes), in this order.",
            )
        token = BatchToken.of(data)
        with working_on(batch=token.batch):
            ingest_batch(self.table, token, accepted=data, rejected=quarantined)
