"""A stage of a Delta table, which may hold files that were written without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kedro_lakehouse.formats.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.formats.delta.commit import DeltaCommit
    from kedro_lakehouse.formats.delta.entries import WrittenFiles
    from kedro_lakehouse.ops.report import CommitReport


class DeltaStage(StagedFiles):
    """Stages rows as Spark writes them, or files that are there already beside the table's own."""

    def __init__(self, *args: Any, **facts: Any) -> None:
        """Take what the stage needs to know, see ``StagedFiles``."""
        super().__init__(*args, **facts)
        self._files: WrittenFiles | None = None

    def put(self, files: WrittenFiles) -> None:
        """Stage files that hold new rows and the places of deleted ones: nothing is written for that."""
        self._files = files

    def _counted_rows(self) -> int:
        files = self._files
        return super()._counted_rows() if files is None else self._before + files.added - files.removed

    def _committed(
        self, report: CommitReport, properties: Mapping[str, str], without: Sequence[str]
    ) -> int | None:
        if self._files is None:
            return super()._committed(report, properties, without)
        commit = cast("DeltaCommit", self._commit)
        version = commit(self._files, report, properties, without, self.rows())
        self._files = None  # they are the table's now
        return version

    def drop(self) -> None:
        """Drop what is staged; published rows are untouched, and another change can be staged."""
        super().drop()
        if self._files is not None:
            for path in self._files.paths:
                path.unlink(missing_ok=True)
            self._files = None
