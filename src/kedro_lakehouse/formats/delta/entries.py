"""Read the data files that a Delta table's log names, and write an entry to it, without Spark.

delta-rs reads these tables' logs, but neither tells which rows of a file are deleted nor writes to a table
whose types can be widened and whose entries bear the time of their commit.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

LOG_FOLDER: Final = "_delta_log"
_NEWEST_CHECKPOINT: Final = "_last_checkpoint"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A data file of a table, as its entry in the log describes it."""

    path: str
    """Relative to the table's folder."""
    added: Mapping[str, Any]
    """The action that added it."""
    stats: Mapping[str, Any]

    @property
    def partition(self) -> Mapping[str, str | None]:
        """The values of the columns by which the table is partitioned, by their physical names."""
        found: Mapping[str, str | None] = self.added.get("partitionValues") or {}
        return found

    @property
    def vector(self) -> Mapping[str, Any] | None:
        """Where its deletion vector is; None if none of its rows is deleted."""
        return self.added.get("deletionVector") or None

    def bytes_to_read(self) -> int:
        """Its size, with that of its deletion vector."""
        return int(self.added["size"]) + int((self.vector or {}).get("sizeInBytes", 0))


@dataclass(frozen=True, kw_only=True)
class WrittenFiles:
    """Files that an entry of the log may add to a table, and what it says of them."""

    planned_on: int
    """The version of the table to whose files the change applies: the entry must be the next one."""
    actions: tuple[Mapping[str, Any], ...]
    paths: tuple[Path, ...]
    added: int
    removed: int


def data_files(folder: Path, version: int) -> list[DataFile] | None:
    """The data files of a table at its newest version; None if its log is written in another way.

    Source:
        Delta Transaction Log Protocol, "Action Reconciliation": what a file is known by is its path and its
        deletion vector.
    """
    start, live = _checkpoint(folder, version)
    if live is None:
        return None
    for number in range(start + 1, version + 1):
        entry = [json.loads(line) for line in entry_path(folder, number).read_text().splitlines()]
        for action in entry:
            if removed := action.get("remove"):
                live.pop(_identity(removed), None)
        for action in entry:
            if added := action.get("add"):
                live[_identity(added)] = added
    found = [
        DataFile(path=a["path"], added=a, stats=json.loads(a.get("stats") or "{}")) for a in live.values()
    ]
    # Of a file without statistics its rows are not known; one with such a path is not in this folder.
    plain = all("numRecords" in f.stats and not f.path.startswith("/") and ":" not in f.path for f in found)
    return found if plain and not any("%" in f.path for f in found) else None


def write_entry(folder: Path, version: int, actions: Iterable[Mapping[str, Any]]) -> bool:
    """Write an entry of the log as a whole; False if there is one with this version already."""
    log = folder / LOG_FOLDER
    text = "".join(json.dumps(a, ensure_ascii=False, separators=(",", ":")) + "\n" for a in actions)
    unseen = log / f".{uuid.uuid4().hex}.tmp"
    unseen.write_text(text, encoding="utf-8")
    try:
        os.link(unseen, entry_path(folder, version))  # unlike a rename, it never replaces a file
    except FileExistsError:
        return False
    finally:
        unseen.unlink()
    return True


def commit_info(operation: str, read: int, note: str, after: int | None) -> dict[str, Any]:
    """What an entry says of its commit.

    Args:
        operation: Its name in the table's history.
        read: The version that it was planned on.
        note: Its text of ours.
        after: When the entry before it was committed, in milliseconds since the epoch, if entries of the
            table bear such times, which always grow; else None.
    """
    now = time.time_ns() // 1_000_000
    first = {} if after is None else {"inCommitTimestamp": max(now, after + 1)}  # Delta asks for this order
    facts: dict[str, Any] = {
        "timestamp": now,
        "operation": operation,
        "operationParameters": {},
        "readVersion": read,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {},
        "userMetadata": note,
        "engineInfo": f"kedro-lakehouse/{__version__}",
        "txnId": str(uuid.uuid4()),
    }
    return first | facts


def removal(file: DataFile) -> dict[str, Any]:
    """The action that removes a data file from a table."""
    facts: dict[str, Any] = {
        "path": file.path,
        "deletionTimestamp": time.time_ns() // 1_000_000,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": file.partition,
        "size": file.added["size"],
    }
    return {"remove": facts | ({"deletionVector": file.vector} if file.vector else {})}


def addition(
    path: str, size: int, partition: Mapping[str, str | None], stats: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """The action that adds a data file to a table."""
    facts: dict[str, Any] = {
        "path": path,
        "partitionValues": partition,
        "size": size,
        "modificationTime": time.time_ns() // 1_000_000,
        "dataChange": True,
        "stats": json.dumps(stats, ensure_ascii=False, separators=(",", ":")),
    }
    return {"add": facts | more}


def entry_path(folder: Path, version: int) -> Path:
    """Where the entry of a version is in the log of a table's folder."""
    return folder / LOG_FOLDER / f"{version:020}.json"


def _identity(action: Mapping[str, Any]) -> tuple[str, ...]:
    vector = action.get("deletionVector") or {}
    return (action["path"], *(str(vector.get(k)) for k in ("storageType", "pathOrInlineDv", "offset")))


def _checkpoint(folder: Path, version: int) -> tuple[int, dict[tuple[str, ...], Mapping[str, Any]] | None]:
    """The version of the newest checkpoint and its data files; -1 and no files without one.

    None instead of files if it is of a kind that is not read here.
    """
    import pyarrow.parquet as pq

    named = folder / LOG_FOLDER / _NEWEST_CHECKPOINT
    if not named.exists():
        return -1, {}
    newest = json.loads(named.read_text())
    at, parts = int(newest["version"]), newest.get("parts")
    whole = folder / LOG_FOLDER / f"{at:020}.checkpoint.parquet"
    if at > version or parts or not whole.exists():
        return at, None
    rows: Sequence[Any] = pq.read_table(whole, columns=["add"])["add"].drop_null().to_pylist()
    plain = [{k: v for k, v in row.items() if v is not None} for row in rows]
    return at, {_identity(row): row | {"partitionValues": dict(row["partitionValues"])} for row in plain}
