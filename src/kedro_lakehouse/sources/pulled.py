"""The files of sealed pulls: what a source that is asked for its records gives to ingestion."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Literal

from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.errors import UnreadableFileError
from kedro_lakehouse.pulls.manifest import SealedPulls
from kedro_lakehouse.pulls.names import read_name
from kedro_lakehouse.sources.base import FolderSource
from kedro_lakehouse.sources.extract import refuse_unfit
from kedro_lakehouse.sources.files import LandedFile, Load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.changes import ChangesLayout
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.extract import ExtractOrder
    from kedro_lakehouse.sources.files import FileShape


def pulled_files(
    config: PulledSourceConfig, name: TableName, table: TableConfig
) -> PulledExtracts | PulledChanges:
    """The sealed pulls of a table: rows of windows are changes, whole tables are extracts."""
    kind = PulledChanges if config.mode_of(table) == "incremental" else PulledExtracts
    return kind(config, name, table)


class _PulledFiles(FolderSource[PulledSourceConfig]):
    """The files that sealed manifests name; others do not exist for ingestion."""

    config_model: ClassVar[type[PulledSourceConfig]] = PulledSourceConfig

    def files(self) -> list[LandedFile]:
        """The landed files, the earliest pull first; one that was archived is none of them any more."""
        import fsspec

        root = self._config.path.rstrip("/")
        fs, path = fsspec.core.url_to_fs(root)
        base, mode = fs.unstrip_protocol(path).rstrip("/"), self._config.mode_of(self._table)
        sealed = [m for m in SealedPulls(root, str(self._name)).all() if m.mode == mode]
        fs.invalidate_cache()  # object storage's client caches listings for the life of the process
        folders = {file.path.partition("/")[0] for manifest in sealed for file in manifest.files}
        there = {fs.unstrip_protocol(name) for folder in folders for name in fs.find(f"{path}/{folder}")}
        return [
            LandedFile(f"{base}/{file.path}", file.size, _milliseconds(manifest.sealed_at))
            for manifest in sealed
            for file in manifest.files
            if f"{base}/{file.path}" in there
        ]


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


class PulledExtracts(_PulledFiles):
    """Pulls of which each holds a whole table."""

    gives: ClassVar[Literal["changes", "extracts", "ranges"]] = "extracts"
    load: ClassVar[Load] = "full_load"

    def __init__(self, config: PulledSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; nothing is listed yet."""
        super().__init__(config, name, table)
        refuse_unfit(name, table)

    def order_of(self, file: LandedFile) -> ExtractOrder:
        """The time of the state that was pulled, and the file's name, which begins with time and number.

        Raises:
            UnreadableFileError: The name is not that of a pulled file.
        """
        found = read_name(file.name)
        if found is None:
            raise UnreadableFileError(table=self._name, file=file.name, detail="it is the file of no pull")
        return found.to or datetime.fromtimestamp(0, UTC), file.name


class PulledChanges(_PulledFiles):
    """Pulls of which each holds the rows of a window: an absent key stays as it was."""

    decoder: ClassVar[str] = "changes"

    def layout(self) -> ChangesLayout:
        """Every row is an upsert."""
        from kedro_lakehouse.decoders.changes import ChangesLayout

        return ChangesLayout(op=None, mapping={}, upserts_only=self._table.write != "merge")

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse files that lack an order column or the effective time.

        Raises:
            MissingColumnError: A file with rows lacks such a column.
        """
        table = self._table
        for shape in shapes:
            found = {table.rename.get(n, n) for n, _ in shape.columns}
            self._refuse_lack(
                shape, [c for c in (*table.order_by, table.effective_time) if c and c not in found]
            )
