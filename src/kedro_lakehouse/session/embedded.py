"""Read an embedded catalog and its small tables without pyiceberg, whose import takes longer than that.

What is not as this project's own tables usually are is refused here, and read by pyiceberg.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

_LOCATIONS: Final = """
SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
WHERE catalog_name = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)
"""
_ONE: Final = " AND table_namespace = ? AND table_name = ?"
_VERSIONS: Final = (1, 2)
"""The versions of Iceberg's format that are known here."""
_DELETED: Final = 2
"""The status of a manifest's entry whose file is no part of the table any more."""
_SMALL: Final = 200_000
"""The bytes of a data file up to which its rows are kept in memory, 64 files at most."""

_UNREADABLE: Final = (
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    sqlite3.Error,
)
"""What is raised where a file is missing, or its content is not of the kind that is expected."""


class UnusualError(Exception):
    """Something is missing, damaged, or of a kind that only pyiceberg reads."""


@contextmanager
def _usual() -> Iterator[None]:
    """Turn what goes wrong while a file is read into ``UnusualError``."""
    try:
        yield
    except _UNREADABLE as error:
        raise UnusualError from error


def locations(file: Path, catalog: str, name: tuple[str, str] | None = None) -> dict[tuple[str, str], str]:
    """Where the metadata of each table of an SQLite catalog is, or of one table, by namespace and name.

    Raises:
        UnusualError: The file cannot be read, or it holds no such catalog.
    """
    query = _LOCATIONS + (_ONE if name else "")
    with _usual(), closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        rows = connection.execute(query, (catalog, *(name or ()))).fetchall()
    return {(namespace, table): location for namespace, table, location in rows if location}


@dataclass(frozen=True)
class EmbeddedTable:
    """A table of an embedded catalog, by one of its metadata files."""

    metadata: Mapping[str, Any]

    @classmethod
    def read(cls, location: str) -> EmbeddedTable:
        """Read a metadata file.

        Raises:
            UnusualError: It is not on this machine, not there or damaged, or of another version.
        """
        with _usual():
            made = cls(json.loads(_local(location).read_bytes()))
            if made.metadata["format-version"] not in _VERSIONS:
                raise UnusualError
            _ = made.columns, made.summary, made.properties, made.location
        return made

    @cached_property
    def _schemas(self) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """The columns of each schema that the table has had."""
        return {schema["schema-id"]: schema["fields"] for schema in self.metadata["schemas"]}

    @cached_property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [field["name"] for field in self._schemas[self.metadata["current-schema-id"]]]

    @property
    def properties(self) -> Mapping[str, str]:
        """Its properties."""
        found: Mapping[str, str] = self.metadata["properties"]
        return found

    @property
    def location(self) -> str:
        """Its folder."""
        return str(self.metadata["location"])

    @cached_property
    def _snapshot(self) -> Mapping[str, Any] | None:
        current = self.metadata.get("current-snapshot-id")
        if current in (None, -1):
            return None
        found: Mapping[str, Any] = {one["snapshot-id"]: one for one in self.metadata["snapshots"]}[current]
        return found

    @property
    def snapshot_id(self) -> int | None:
        """The id of its current snapshot; None where it has none yet."""
        return None if self._snapshot is None else self._snapshot["snapshot-id"]

    @cached_property
    def summary(self) -> Mapping[str, str]:
        """The counts of its current snapshot."""
        return (self._snapshot and self._snapshot.get("summary")) or {}

    @property
    def _reads_by_name(self) -> bool:
        """Whether the files hold every column, and under its present name and type."""
        present = {f["id"]: (f["name"], f["type"]) for f in self._schemas[self.metadata["current-schema-id"]]}
        ever = [field for fields in self._schemas.values() for field in fields]
        partitioned = any(spec["fields"] for spec in self.metadata["partition-specs"])
        return not partitioned and all(present.get(f["id"]) == (f["name"], f["type"]) for f in ever)

    def data_files(self) -> list[Path]:
        """The data files of the current snapshot.

        Raises:
            UnusualError: A manifest cannot be read, a file has deletes, or its columns were renamed.
        """
        with _usual():
            if not self._reads_by_name:
                raise UnusualError
            if self._snapshot is None:
                return []
            manifests = _records(self._snapshot["manifest-list"])
            return [file for manifest in manifests for file in _files_of(manifest)]

    def read_rows(
        self, where: tuple[str, object] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All rows, or at least those with this value in this column; of all columns, or of some.

        Raises:
            UnusualError: There is no file, or not all of them can be read by the names of the columns.
        """
        import pyarrow as pa

        with _usual():
            wanted = self.columns if columns is None else list(columns)
            found = [_rows_of(path, where, columns) for path in self.data_files()]
            return pa.concat_tables(found, promote_options="permissive").select(wanted)

    def rows_in(self, path: Path, where: tuple[str, object]) -> pa.Table:
        """The rows of one of its files: at least those with this value in this column.

        Raises:
            UnusualError: The file is not there any more, or it cannot be read by the names of the columns.
        """
        with _usual():
            return _rows_of(path, where, None)


def _rows_of(path: Path, where: tuple[str, object] | None, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a file: of a small one all, which are kept; else those of row groups that may fit."""
    from pyarrow.parquet import ParquetFile  # pyarrow.dataset would import pandas

    size = path.stat().st_size
    if size <= _SMALL:
        return _small_file(path, size)
    with ParquetFile(path) as file:
        groups = list(range(file.num_row_groups))
        if where is not None:
            groups = [group for group in groups if _may_hold(file.metadata.row_group(group), *where)]
        return file.read_row_groups(groups, columns=None if columns is None else list(columns))


@lru_cache(maxsize=64)
def _small_file(path: Path, size: int) -> pa.Table:  # noqa: ARG001 - one that was cut off is another file
    """The rows of a data file; a file of a table is never written again."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        return file.read()


def _may_hold(group: Any, column: str, value: object) -> bool:
    """Whether a row group may hold a text in a column, by its bounds."""
    for at in range(group.num_columns):
        found = group.column(at)
        if found.path_in_schema != column:
            continue
        bounds = found.statistics
        if not isinstance(value, str) or bounds is None or not bounds.has_min_max:
            return True
        return bool(bounds.min <= value <= bounds.max)
    return True


def _files_of(manifest: Mapping[str, Any]) -> Iterator[Path]:
    """The files that a manifest adds to a table, all of which have to be Parquet."""
    if manifest.get("content", 0):
        raise UnusualError  # it is one of deletes
    for entry in _records(manifest["manifest_path"]):
        if entry["status"] == _DELETED:
            continue
        file = entry["data_file"]
        if file.get("content", 0) or file["file_format"].upper() != "PARQUET":
            raise UnusualError
        yield _local(file["file_path"])


def _records(location: str) -> Sequence[Mapping[str, Any]]:
    """The records of an Avro file, which is never written again."""
    path = _local(location)
    return _records_of(path, path.stat().st_size)


@lru_cache(maxsize=256)
def _records_of(path: Path, size: int) -> Sequence[Mapping[str, Any]]:  # noqa: ARG001 - as in `_small_file`
    from fastavro import reader

    with path.open("rb") as file:
        records: Any = list(reader(file))
    return list(records)


def _local(location: str) -> Path:
    """The path of a file on this machine."""
    path = location.removeprefix("file://").removeprefix("file:")
    if not path.startswith("/"):
        raise UnusualError
    return Path(path)
