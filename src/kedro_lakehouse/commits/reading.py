"""Landed files that Spark cannot read, named."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from kedro_lakehouse.names import TableName

# What Spark 4 calls a file that it cannot read, and what Spark 3 does.
_UNREADABLE: Final = ("FAILED_READ_FILE", "Encountered error while reading file")
_TORN: Final = ("Unexpected end of input stream", "java.util.zip.ZipException", "incorrect data check")
"""What a damaged archive is called by Spark 3, which does not name the file of a text."""


@contextlib.contextmanager
def reading_errors(table: TableName, rows: DataFrame) -> Iterator[None]:
    """Name the file where Spark could not read one of those that ``rows`` come from.

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
