"""Land the chunks of a pull in one file, under a name of its attempt."""

from __future__ import annotations

import contextlib
import hashlib
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import PlaceUnusableError
from kedro_lakehouse.names import SNAPSHOT_ID
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault
from kedro_lakehouse.pulls.manifest import PulledFile
from kedro_lakehouse.pulls.watch import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    from kedro_lakehouse.pulls.protocol import Chunk

_JSON_START: Final = b"{"
_PATIENCE: Final = 2.0
"""So many seconds a file that is removed waits for a chunk that is being written."""


class LandingFile:
    """One file that grows chunk by chunk; closed, it is whole, and until its manifest names it, nobody's.

    Parquet is written in storage types: a reader must not need what a driver registers as its own.
    """

    def __init__(self, root: str, path: str, *, snapshot: str | None) -> None:
        """Take the place; the file is made with the first chunk.

        Args:
            root: The source's folder.
            path: The file's place in it.
            snapshot: The id that each row gets; None: none.
        """
        self._root, self.path, self._snapshot = root, path, snapshot
        self._file: _Counted | None = None
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._writing: Future[None] | None = None
        self.rows = 0

    @property
    def size(self) -> int:
        """How many bytes are written."""
        return self._file.size if self._file else 0

    def add(self, chunk: Chunk) -> None:
        """Write the rows of a chunk; those of a table are written while the next chunk is read.

        Raises:
            InexactFault: This chunk or the one before has columns that the first one lacks, or another type.
        """
        self.settle()
        self._open()
        if isinstance(chunk.rows, list | tuple):
            self._add_lines(chunk.rows)
        else:
            self._writing = in_background(partial(self._add_table, chunk.rows))

    def settle(self) -> None:
        """Wait until all chunks are written; raises what `add` raises."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _add_lines(self, lines: Sequence[bytes]) -> None:
        file = self._open()
        head = f'{{"{SNAPSHOT_ID}":"{self._snapshot}",'.encode() if self._snapshot else b""
        for line in lines:
            if head:
                rest = line.lstrip()[1:]
                line = (head[:-1] if rest.lstrip().startswith(b"}") else head) + rest  # noqa: PLW2901
            file.write(line.rstrip(b"\r\n") + b"\n")
        self.rows += len(lines)

    def _add_table(self, table: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = in_storage_types(table)
        if self._snapshot is not None:
            table = table.append_column(SNAPSHOT_ID, pa.repeat(pa.scalar(self._snapshot), table.num_rows))
        if self._writer is None:
            self._schema = table.schema
            # A dictionary of values that hardly repeat, such as keys, costs more than all else.
            plain = {"compression": "zstd", "use_dictionary": False}
            self._writer = pq.ParquetWriter(self._open(), table.schema, **plain)
        elif table.schema != self._schema:
            try:
                table = table.cast(self._schema)
            except (pa.ArrowInvalid, ValueError, KeyError) as error:
                reason = "its columns or their types changed while they were read"
                raise InexactFault(reason, "Pull again; or read the column as text.") from error
        self._writer.write_table(table)
        self.rows += table.num_rows

    def _open(self) -> _Counted:
        if self._file is None:
            self._file = _Counted(f"{self._root}/{self.path}")
        return self._file

    def close(self) -> PulledFile:
        """Finish the file.

        Raises:
            TerminalFault: A source that lands parquet gave no chunk, and so no columns.
        """
        self.settle()
        if self._writer is not None:
            self._writer.close()
        elif self.path.endswith(".parquet"):
            reason = "its source gave no chunk, so its columns are not known"
            raise TerminalFault(reason, "Let the source yield an empty Arrow table where there are no rows.")
        file = self._open()
        file.close()
        return PulledFile(path=self.path, size=file.size, sha256=file.sha256, rows=self.rows)

    def discard(self) -> None:
        """Remove what was written."""
        if self._file is None:
            return
        if self._writing is not None:
            wait([self._writing], _PATIENCE)
        with contextlib.suppress(Exception):
            if self._writer is not None and not self._file.closed:
                self._writer.close()
        self._file.discard()
        self._file = self._writer = None


@contextlib.contextmanager
def written_to(root: str) -> Iterator[None]:
    """Say so where a file cannot be written: the disk is full, or it is not allowed.

    Raises:
        PlaceUnusableError: That is so.
    """
    try:
        yield
    except OSError as error:
        raise PlaceUnusableError(
            path=root,
            problem=f"what was pulled cannot be written ({error.strerror or type(error).__name__})",
            remedy="Nothing of it is ingested. Make room there, or give the right to write there.",
        ) from error


class _Counted:
    """A file that is written, with its size and hash."""

    def __init__(self, place: str) -> None:
        import fsspec

        self._fs, self._path = fsspec.core.url_to_fs(place)
        self._fs.makedirs(self._path.rpartition("/")[0], exist_ok=True)
        self._file = self._fs.open(self._path, "wb")
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, content: Any) -> int:
        self._hash.update(content)
        length = memoryview(content).nbytes
        self.size += length
        self._file.write(bytes(content))
        return length

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path)


def in_storage_types(table: Any) -> Any:
    """A table without extension types, which not every reader knows, and without a driver's notes.

    Raises:
        InexactFault: Times in nanoseconds do not fit into microseconds.
    """
    import pyarrow as pa

    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        if isinstance(column.type, pa.BaseExtensionType):
            stored = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(stored, column.type.storage_type)  # noqa: PLW2901
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            try:
                column = column.cast(pa.timestamp("us", kind.tz))  # noqa: PLW2901
            except pa.ArrowInvalid as error:
                reason = f"the column {field.name} has times in nanoseconds"
                raise InexactFault(reason, "Read it as text.") from error
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    return pa.table(columns, schema=pa.schema(fields))
