"""Files that AWS DMS writes: ``LOAD*`` files, then change files, in one folder for each table."""

from __future__ import annotations

import datetime as dt
import fnmatch
from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.sources.base import FolderSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.decoders.dms import DmsLayout
    from kedro_lakehouse.sources.files import FileShape, LandedFile, Load


class DmsSource(FolderSource[DmsSourceConfig]):
    """The files of one table of a DMS task."""

    config_model: ClassVar[type[DmsSourceConfig]] = DmsSourceConfig

    @property
    def decoder(self) -> str:
        """The decoder's name. Files of JSON hold the messages that DMS writes to Kinesis and Kafka."""
        return "dms-json" if self._config.file_format == "json" else "dms"

    @property
    def _timestamp(self) -> str | None:
        from kedro_lakehouse.decoders.dms_json import COMMIT_TIME

        return self._config.timestamp_column or (COMMIT_TIME if self._config.file_format == "json" else None)

    def files(self) -> list[LandedFile]:
        """The landed files: the full load first, then changes by name."""
        config = self._config
        found = self._listed(config.full_load, config.changes, shared=config.shared)
        return sorted(found, key=lambda f: self.load_of(f) == "changes")

    def load_of(self, file: LandedFile) -> Load:
        """A full load is recognised by its file name, never by a missing Op."""
        return "full_load" if fnmatch.fnmatchcase(file.name, self._config.full_load) else "changes"

    @property
    def headers(self) -> Mapping[Load, bool]:
        """DMS writes no header unless it is configured to."""
        return {load: bool(csv.header) for load, csv in self.options.items()}

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """The columns of ``types`` in their order; DMS puts Op first."""
        names = list(self._table.types)
        return {"full_load": names, "changes": [self._config.op_column, *names] if names else []}

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """Op, before images, commit time, sequence and columns of transformation rules, unless listed."""
        config = self._config
        named = {config.op_column, config.sequence_column, self._timestamp, *config.control_columns}
        prefix = config.before_image_prefix
        images = {
            c for c in source_columns if c.startswith(prefix) and c.removeprefix(prefix) in source_columns
        }
        return self._unless_chosen(named | images)

    def layout(self) -> DmsLayout:
        """How the decoder finds the columns that the DMS task added."""
        from kedro_lakehouse.decoders.dms import DmsLayout

        config = self._config
        first = self._table.initial_valid_from
        start = {"event": None, "epoch": dt.date(1970, 1, 1)}[first] if isinstance(first, str) else first
        return DmsLayout(
            op=config.op_column,
            sequence=config.sequence_column,
            timestamp=self._timestamp,
            timestamp_format=config.csv_for("changes").timestamp_format,
            before_prefix=config.before_image_prefix,
            entity=tuple(self._table.entity.split("/")) if config.shared else None,
            first_valid_from=None if start is None else dt.datetime(start.year, start.month, start.day),  # noqa: DTZ001
        )

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse change files that lack an operation, or the declared position in the log.

        Raises:
            MissingColumnError: A file with rows lacks such a column.
        """
        config = self._config
        op = None if config.file_format == "json" else config.op_column
        needed = [c for c in (op, config.sequence_column, config.timestamp_column) if c]
        for shape in shapes:
            names = [n for n, _ in shape.columns]
            missing = [c for c in needed if c not in names]
            load = shape.load if shape.lines is None else shape.lines.kind
            if load == "changes":
                self._refuse_lack(shape, missing)
