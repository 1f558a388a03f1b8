"""A copy of what was read from a stream, as it was sent: parquet, in a folder for each partition.

A file holds the records of a range and is named by it, so it is written once, whoever reads the range again.
Ranges of plans that were given up, or of a table that is built anew, may overlap: then only what no file has
yet is written. So each record of a partition is in one file.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from kedro_lakehouse.aws import client, code_of
from kedro_lakehouse.errors import SourceUnreachableError
from kedro_lakehouse.sources.records import StreamRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.records import Record

Span = tuple[int, int]
"""Positions of a partition: from the first up to, and without, the second."""

_NAME: Final = re.compile(r"(\d+)-(\d+)-(.+)\.parquet")
_AT_ONCE: Final = 5_000
"""So many records are one row group."""
_held: Final[dict[tuple[str, str], list[Span]]] = {}
"""What files of a folder hold, by folder and identity of the stream, as this process last knew it."""


@dataclass(frozen=True)
class RawCopy:
    """The copy of one table's records below a folder; ``missing`` are the spans of ranges that no file has.

    A process that reads few records finds out by itself what is missing. Spark's workers get it from
    ``looked_at``.
    """

    folder: str
    table: str
    missing: Mapping[str, tuple[Span, ...]] | None = None

    @property
    def root(self) -> str:
        """The folder of the table's copies."""
        root = self.folder if "://" in self.folder else str(Path(self.folder).expanduser().absolute())
        return f"{root.rstrip('/')}/{self.table}"

    def looked_at(self, planned: Sequence[LandedFile]) -> RawCopy:
        """The same, with what is missing of planned ranges as the folders are now."""
        missing = {}
        for one in planned:
            wanted = StreamRange.of(one)
            missing[one.path] = self._missing(wanted, anew=True)
            _held.pop(self._key(wanted), None)  # it changes as the workers write
        return replace(self, missing=missing)

    def copied(self, planned: LandedFile, records: Iterable[Record]) -> Iterator[Record]:
        """The records of a range, which are in files when the last of them has been taken.

        If they are not all taken, nothing is written.

        Raises:
            SourceUnreachableError: The copy cannot be written.
        """
        wanted = StreamRange.of(planned)
        missing = self._missing(wanted) if self.missing is None else self.missing.get(planned.path, ())
        if not missing:
            yield from records
            return
        with contextlib.ExitStack() as opened:
            files = [(span, opened.enter_context(_Written(self._place(wanted, span)))) for span in missing]
            for record in records:
                for (first, end), file in files:
                    if first <= record.number < end:
                        file.add(record)
                yield record
            with self._folder_named(wanted):
                for span, file in files:
                    file.publish()
                    if self._key(wanted) in _held:
                        _hold(_held[self._key(wanted)], span)

    def _place(self, wanted: StreamRange, span: Span) -> str:
        first, end = (f"{number:020}" for number in span)
        return f"{self._folder_of(wanted)}/{first}-{end}-{wanted.identity}.parquet"

    def _folder_of(self, wanted: StreamRange) -> str:
        return f"{self.root}/{wanted.stream}/partition={wanted.partition}"

    def _key(self, wanted: StreamRange) -> tuple[str, str]:
        return self._folder_of(wanted), wanted.identity

    def _missing(self, wanted: StreamRange, *, anew: bool = False) -> tuple[Span, ...]:
        """The spans of a range that no file holds; a folder is listed once a process, or ``anew``."""
        key = self._key(wanted)
        if anew or key not in _held:
            with self._folder_named(wanted):
                _held[key] = _spans_of(*key)
        return tuple(_without((wanted.first, wanted.end), _held[key]))

    @contextlib.contextmanager
    def _folder_named(self, wanted: StreamRange) -> Iterator[None]:
        """Say which folder cannot be listed or written."""
        try:
            yield
        except SourceUnreachableError:
            raise
        except Exception as error:
            if not isinstance(error, OSError) and not _is_of_aws(error):
                raise
            place = f"the folder of raw copies {self._folder_of(wanted)}"
            raise SourceUnreachableError(table=self.table, place=place, detail=str(error)) from error


class _Written:
    """A file of records that is seen whole or not at all, and never replaced."""

    def __init__(self, place: str) -> None:
        self._place, self._rows = place, list[Any]()
        self._writer: Any = None
        self._is_local = "://" not in place or place.startswith("file://")
        self._final = place.removeprefix("file://")
        self._part = Path()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._part.unlink(missing_ok=True)

    def add(self, record: Record) -> None:
        """Add a record."""
        self._rows.append(record)
        if len(self._rows) >= _AT_ONCE:
            self._flush()

    def publish(self) -> None:
        """Put the file in its place, if no other is there; none is written for no records."""
        if self._rows:
            self._flush()
        if self._writer is None:
            return
        self._writer.close()
        if self._is_local:
            self._put_here()
        elif self._place.startswith("s3://"):
            self._put_in_s3()
        else:
            self._put_elsewhere()

    def _flush(self) -> None:
        import pyarrow.parquet as pq

        batch = _as_rows(self._rows)
        if self._writer is None:
            self._part = self._new_part()
            self._writer = pq.ParquetWriter(self._part, batch.schema, compression="zstd")
        self._writer.write_table(batch)
        self._rows = []

    def _new_part(self) -> Path:
        """Where the file grows: hidden beside its place, on the same disk, or in a folder for such files."""
        name = f".{uuid.uuid4().hex}.part"
        if not self._is_local:
            return Path(tempfile.gettempdir()) / name
        folder = Path(self._final).parent
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def _put_here(self) -> None:
        try:
            os.link(self._part, self._final)
        except FileExistsError:
            return
        except OSError:  # a disk without links
            if not Path(self._final).exists():
                self._part.replace(self._final)

    def _put_in_s3(self) -> None:
        from botocore.exceptions import ClientError

        bucket, _, key = self._place.removeprefix("s3://").partition("/")
        try:
            with self._part.open("rb") as content:
                client("s3").put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
        except ClientError as error:
            if code_of(error) != "PreconditionFailed":
                raise

    def _put_elsewhere(self) -> None:
        import fsspec

        fs, path = fsspec.core.url_to_fs(self._place)
        if not fs.exists(path):
            fs.put_file(str(self._part), path)


def _as_rows(records: Sequence[Record]) -> pa.Table:
    """Records as they were sent, with the positions that the change log names them by."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    place = pa.struct([("file", pa.string()), ("row", pa.int64())])
    rows = [
        {
            "_position": {"file": one.file, "row": one.row},
            "key": one.key,
            "value": one.value,
            "timestamp": None if one.time is None else one.time * 1000,
            "headers": [{"key": name, "value": value} for name, value in one.headers],
        }
        for one in records
    ]
    kinds = {
        "_position": place, "key": pa.binary(), "value": pa.binary(), "timestamp": pa.timestamp("us", "UTC"),
        "headers": pa.list_(header),
    }  # fmt: skip
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))


def _spans_of(folder: str, identity: str) -> list[Span]:
    """What the files of a folder hold of a stream."""
    import fsspec

    fs, path = fsspec.core.url_to_fs(folder)
    fs.invalidate_cache()
    found = list[Span]()
    with contextlib.suppress(FileNotFoundError):
        for name in fs.ls(path, detail=False):
            named = _NAME.fullmatch(str(name).rpartition("/")[2])
            if named is not None and named[3] == identity:
                _hold(found, (int(named[1]), int(named[2])))
    return found


def _hold(held: list[Span], span: Span) -> None:
    """Add a span; those that touch become one, so that a loop keeps one for each partition."""
    first, end = span
    apart = [one for one in held if one[1] < first or one[0] > end]
    joined = [one for one in held if one not in apart] + [span]
    held[:] = sorted([*apart, (min(one[0] for one in joined), max(one[1] for one in joined))])


def _without(span: Span, held: Iterable[Span]) -> Iterator[Span]:
    """The parts of a span that are not held.

    Example:
        >>> list(_without((0, 10), [(2, 4), (6, 20)]))
        [(0, 2), (4, 6)]
    """
    first, end = span
    for start, stop in sorted(held):
        if stop <= first or start >= end:
            continue
        if start > first:
            yield first, start
        first = stop
    if first < end:
        yield first, end


def _is_of_aws(error: Exception) -> bool:
    """Whether it is an error of a client of AWS."""
    return type(error).__module__.startswith(("botocore", "boto3"))
