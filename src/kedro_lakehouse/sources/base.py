"""The interface of a file source: what it says about a table's landed records, whatever its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.config.sources import CsvOptions, SourceConfig
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.files import FileShape, LandedFile, Load


class FileSource(Protocol):
    """A source of files; register it in the entry-point group ``kedro_lakehouse.sources``."""

    config_model: ClassVar[type[SourceConfig]]
    gives: ClassVar[Literal["changes", "extracts"]]

    def __init__(self, config: Any, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""

    def files(self) -> list[LandedFile]:
        """The landed files, the earliest first."""

    def load_of(self, file: LandedFile) -> Load:
        """Whether a file belongs to a full load or to the changes."""

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """How text files of each load are read."""

    @property
    def headers(self) -> Mapping[Load, bool]:
        """Whether text files name their columns in their first line."""

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """Column names of text files without a header, for which the source declares no names."""

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """The source's columns that describe the change, not the row, such as the operation."""


class GivesChanges(FileSource, Protocol):
    """A source of change records; a class attribute ``keyed = True`` says that its lines have keys."""

    decoder: ClassVar[str]
    """A name of the entry-point group ``kedro_lakehouse.change_decoders``."""

    def layout(self) -> Any:
        """What the decoder must know about how this source writes its records."""

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse files that lack a column without which their changes have no meaning.

        Raises:
            MissingColumnError: A file with rows lacks such a column.
        """


class GivesExtracts(FileSource, Protocol):
    """A source of files, each of which is the whole table at one time."""

    def order_of(self, file: LandedFile) -> tuple[datetime, str]:
        """The time and name by which an extract is ordered among the others; never the clock."""
