"""Name the landed files that Spark cannot read."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from kedro_lakehouse.names import TableName

# What the errors of Spark 4 and of Spark 3 say about a file that cannot be read.
_UNREADABLE: Final = ("FAILED_READ_FILE", "Encountered error while reading file")
_TORN: Final = ("Unexpected end of input stream", "java.util.zip.ZipException", "incorrect data check")
"""What the errors of Spark 3 say about a damaged archive; for text they do not name the file."""


@contextlib.contextmanager
def reading_errors(table: TableName, rows: DataFrame) -> Iterator[None]:
    """While the block runs, name the file in the error if Spark cannot read an input of ``rows``.

    Raises:
        UnreadableFileError: A landed file is truncated, or not of its declared format.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        text = str(error)
        unreadable = isinstance(error, PySparkException) or "Py4JJavaError" in type(error).__name__
        if unreadable and any(sign in text for sign in _UNREADABLE):
            path = re.search(r"file (?:file:)?(\S+?)[.:]?\s", text)
            name = path[1].rpartition("/")[2] if path else "unknown"
            raise UnreadableFileError(table=table, file=name, detail="it ends early or is damaged") from error
        if unreadable and any(sign in text for sign in _TORN):
            packed = [f for f in (path.rpartition("/")[2] for path in rows.inputFiles()) if _is_packed(f)]
            detail = "it, or one of them, ends early or is damaged"
            raise UnreadableFileError(
                table=table, file=", ".join(packed) or "unknown", detail=detail
            ) from error
        raise


def _is_packed(name: str) -> bool:
    return name.rpartition(".")[2] in ("gz", "bz2", "deflate", "lz4", "snappy", "zst")
