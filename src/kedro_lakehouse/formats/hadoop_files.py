"""Folders and files where the tables are, through the file system that Spark itself writes with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATH: Final = "org.apache.hadoop.fs.Path"
_READERS: Final = ("ParquetFileReader", "util.HadoopInputFile")


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any, Any]:
    conf = session._jsparkSession.sessionState().newHadoopConf()
    place = java_class(session, _PATH)(path)
    return place.getFileSystem(conf), place, conf


def folders_in(session: SparkSession, path: str, prefix: str) -> list[str]:
    """The paths of the folders directly in a folder whose names begin so; none where it is not there."""
    files, place, _ = _file_system(session, path)
    if not files.exists(place):
        return []
    found = [entry.getPath() for entry in files.listStatus(place) if entry.isDirectory()]
    return sorted(f"{path}/{one.getName()}" for one in found if one.getName().startswith(prefix))


def delete_folder(session: SparkSession, path: str) -> None:
    """Delete a folder with all that is in it, where it is there."""
    files, place, _ = _file_system(session, path)
    recursive = True
    files.delete(place, recursive)


def delete_unfinished(session: SparkSession, path: str) -> None:
    """Delete what a killed writer leaves of a folder: temporary files and empty folders; all else stays."""
    from py4j.protocol import Py4JJavaError

    files, place, _ = _file_system(session, path)
    if not files.exists(place):
        return
    recursive = False
    for entry in files.listStatus(place):
        name = entry.getPath().getName()
        if entry.isDirectory():
            delete_unfinished(session, f"{path}/{name}")
        elif name.endswith(".tmp"):
            files.delete(entry.getPath(), recursive)
    with suppress(Py4JJavaError):  # not empty: somebody else's
        files.delete(place, recursive)


def move_folder(session: SparkSession, source: str, target: str) -> None:
    """Move a folder to where none is: at once, where the file system can.

    Raises:
        FileExistsError: There is something already.
    """
    files, place, _ = _file_system(session, source)
    wanted = java_class(session, _PATH)(target)
    if files.exists(wanted):  # it would be put into that one
        raise FileExistsError(target)
    if not files.rename(place, wanted):
        message = f"{source} cannot be moved to {target}"
        raise OSError(message)


def is_there(session: SparkSession, path: str) -> bool:
    """Whether there is a file or folder."""
    files, place, _ = _file_system(session, path)
    return bool(files.exists(place))


def parquet_rows(session: SparkSession, path: str) -> int:
    """How many rows the parquet files directly in a folder hold, by their footers: no Spark job."""
    files, place, conf = _file_system(session, path)
    footers, inputs = (java_class(session, f"org.apache.parquet.hadoop.{n}") for n in _READERS)
    rows = 0
    for entry in files.listStatus(place):
        if entry.isDirectory() or not entry.getPath().getName().endswith(".parquet"):
            continue
        reader = footers.open(inputs.fromStatus(entry, conf))
        rows += int(reader.getRecordCount())
        reader.close()
    return rows
