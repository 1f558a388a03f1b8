"""Files that AWS DMS writes: ``LOAD*`` files, then change files, in one folder for each table."""

from __future__ import annotations

import datetime as dt
import fnmatch
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import MissingColumnError
from kedro_lakehouse.sources.files import FileShape, LandedFile, Load, list_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.decoders.dms import DmsLayout
    from kedro_lakehouse.names import TableName

LOADS: Final[tuple[Load, Load]] = ("full_load", "changes")


class DmsSource:
    """The files of one table of a DMS task."""

    config_model: ClassVar[type[DmsSourceConfig]] = DmsSourceConfig
    gives: ClassVar[Literal["changes", "extracts"]] = "changes"

    def __init__(self, config: DmsSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""
        self._config, self._name, self._table = config, name, table

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
        root = self._config.path.rstrip("/")
        if not self._config.shared:
            root = f"{root}/{self._table.entity}"
        found = list_files(
            root, [self._config.full_load, self._config.changes], table=self._name, within=self._config.path
        )
        return sorted(found, key=lambda f: (self.load_of(f) == "changes", f.name, f.path))

    def load_of(self, file: LandedFile) -> Load:
        """A full load is recognised by its file name, never by a missing Op."""
        return "full_load" if fnmatch.fnmatchcase(file.name, self._config.full_load) else "changes"

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """CSV options of each kind of file."""
        return {load: self._config.csv_for(load) for load in LOADS}

    @property
    def headers(self) -> Mapping[Load, bool]:
        """DMS writes no header unless it is configured to."""
        return {load: bool(self._config.csv_for(load).header) for load in LOADS}

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """The columns of ``types`` in their order; DMS puts Op first."""
        names = list(self._table.types)
        return {"full_load": names, "changes": [self._config.op_column, *names] if names else []}

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """Op, before images, commit time, sequence and columns of transformation rules, unless listed."""
        config, wanted = self._config, self._table.columns
        listed = set(wanted.include or ()) if wanted else set()
        named = {config.op_column, config.sequence_column, self._timestamp, *config.control_columns}
        prefix = config.before_image_prefix
        images = {
            c for c in source_columns if c.startswith(prefix) and c.removeprefix(prefix) in source_columns
        }
        return frozenset(c for c in (named | images) - listed if c)

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
            if missing and load == "changes" and shape.has_rows is not False:
                raise MissingColumnError(
                    table=self._name, missing=missing, found=names, place=shape.file.name
                )
