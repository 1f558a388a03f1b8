"""Make deleted rows of a Delta table go from its files and from its log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import fsspec

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.delta.entries import LOG_FOLDER
from kedro_lakehouse.formats.maintenance import modified_at

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.delta.log import DeltaLog

_VERSION: Final = re.compile(r"^\.?(\d{20})\.")
_HIDDEN_LOG: Final = f"/{LOG_FOLDER}/"


def rewrite_deleted_rows(session: SparkSession, path: str) -> None:
    """Rewrite each data file of which a deletion vector hides rows; one Spark job."""
    session.sql(f"REORG TABLE delta.`{path.replace('`', '``')}` APPLY (PURGE)").collect()


def remove_dead_files(path: str, log: DeltaLog, before: dt.datetime) -> None:
    """Remove the files older than ``before`` that the present version does not use.

    A writer that has written a file before that time has planned on a state that is no longer the newest:
    its commit fails, and it writes anew. VACUUM knows ages in hours only, and would take new files too.
    """
    fs, root = fsspec.core.url_to_fs(path)
    used = {_bare(uri) for uri in log.files}
    for name, facts in fs.find(root, detail=True).items():
        below = name.removeprefix(root)
        is_ours = not below.startswith(_HIDDEN_LOG) and not any(
            p.startswith(".") for p in below.split("/")[:-1]
        )
        if is_ours and modified_at(facts) < before.timestamp() and _bare(name) not in used:
            fs.rm_file(name)


def expire_log(path: str, log: DeltaLog) -> None:
    """Write a checkpoint of the newest version, then remove the log's entries of all versions before it.

    The newest entry must be ours: it holds the bookmark. Statistics of removed files are in earlier entries
    and checkpoints alone.

    Raises:
        CommitConflictError: The newest entry is another writer's.
    """
    newest = next(iter(log.notes()), None)
    if newest is None or newest[1] != log.version:
        raise CommitConflictError(table=log.table, attempts=1)
    log.checkpoint()
    fs, root = fsspec.core.url_to_fs(f"{path}/{LOG_FOLDER}")
    for name in fs.find(root):
        version = _VERSION.match(name.rpartition("/")[2])
        if version and int(version[1]) < log.version:
            fs.rm_file(name)


def _bare(name: str) -> str:
    """A path without what precedes it in an address, and decoded as Delta writes it into its log."""
    return unquote(re.sub(r"^[a-z0-9]+:/*", "", name)).lstrip("/")
