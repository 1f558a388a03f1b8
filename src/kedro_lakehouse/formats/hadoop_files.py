"""Folders and files beside the tables, through the Hadoop file system that Spark itself writes with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
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
    """The paths of the direct subfolders whose names begin with ``prefix``; none if there is no folder."""
    if "://" not in path:  # on a local disk, which Python reads without the JVM
        return sorted(map(str, filter(Path.is_dir, Path(path).glob(f"{prefix}*"))))
    files, place, _ = _file_system(session, path)
    if not files.exists(place):
        return []
    found = [entry.getPath() for entry in files.listStatus(place) if entry.isDirectory()]
    return sorted(f"{path}/{one.getName()}" for one in found if one.getName().startswith(prefix))


def delete_folder(session: SparkSession, path: str) -> None:
    """Delete a folder with everything in it, if it exists."""
    files, place, _ = _file_system(session, path)
    recursive = True
    files.delete(place, recursive)


def delete_unfinished(session: SparkSession, path: str) -> None:
    """Delete the temporary files and empty folders that a killed writer left; everything else stays."""
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
    with suppress(Py4JJavaError):  # not empty: it holds files of another writer
        files.delete(place, recursive)


def move_folder(session: SparkSession, source: str, target: str) -> None:
    """Move a folder to a path where nothing exists: in one step, if the file system can.

    Raises:
        FileExistsError: Something exists there already.
    """
    files, place, _ = _file_system(session, source)
    wanted = java_class(session, _PATH)(target)
    if files.exists(wanted):  # a rename would move the source into it
        raise FileExistsError(target)
    if not files.rename(place, wanted):
        message = f"{source} cannot be moved to {target}"
        raise OSError(message)


def is_there(session: SparkSession, path: str) -> bool:
    """Whether a file or folder exists at this path."""
    files, place, _ = _file_system(session, path)
    return bool(files.exists(place))


def parquet_rows(session: SparkSession, path: str) -> int:
    """Row count of the parquet files directly in a folder, read from their footers: no Spark job."""
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
