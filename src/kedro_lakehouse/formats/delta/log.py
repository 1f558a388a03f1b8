"""Read the log of a Delta table with delta-rs: no Spark job, no JVM."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from kedro_lakehouse.errors import BookmarkGoneError
from kedro_lakehouse.formats.base import Bounds
from kedro_lakehouse.formats.delta.entries import LOG_FOLDER, entry_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from kedro_lakehouse.names import TableName

APP_ID: Final = "kedro_lakehouse"
"""The identifier of our transactions in a table: Delta stores the last one's number in every checkpoint."""
_CHECKPOINT_EVERY: Final = 10
"""Delta's own interval of checkpoints, in entries of the log."""
_MOST_KNOWN: Final = 500
_TIDY: Final = frozenset(
    {
        "OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
        "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "DROP COLUMNS", "UPGRADE PROTOCOL", "CLUSTER BY",
        "COMPUTE STATS", "ADD FEATURE",
    }
)  # fmt: skip
"""Operations that do not change a table's rows."""
_CUT: Final = timedelta(milliseconds=1)
"""Delta cuts times to milliseconds in its statistics: the true highest time may be later by up to this."""
_S3A: Final = "spark.hadoop.fs.s3a."
_WORDS: Final = {
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}


@dataclass(frozen=True, kw_only=True)
class Note:
    """What each of our commits writes into Delta's log, as its user metadata: one JSON text.

    ``number`` counts our commits; ``token`` distinguishes this commit from another one with its number;
    ``bookmark`` is the commit's report; ``rows`` is the table's row count after it.
    """

    number: int
    token: str
    rows: int
    bookmark: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """Write the note as the text that the log holds."""
        return json.dumps({APP_ID: asdict(self)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str | None) -> Self | None:
        """Read a note from its text; None for user metadata that is not ours."""
        try:
            found = json.loads(text or "null")
        except ValueError:
            return None
        return cls(**found[APP_ID]) if isinstance(found, dict) and APP_ID in found else None


@dataclass(frozen=True, kw_only=True)
class Head:
    """Our last commit, and version and time of the newest commit by anybody that may have changed rows.

    ``alone`` says that nobody else changed rows since our commit.
    """

    note: Note | None
    version: int
    time: int
    alone: bool


class DeltaLog:
    """The log of one table, as it was when it was opened."""

    def __init__(self, table: TableName, opened: DeltaTable, storage: dict[str, str]) -> None:
        """Store the opened table."""
        self.table, self._opened, self._storage = table, opened, storage

    @classmethod
    def open(cls, table: TableName, path: str, storage: dict[str, str]) -> Self | None:
        """Open a log at its newest version; None if there is no table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return cls(table, DeltaTable(path, storage_options=storage or None), storage)
        except TableNotFoundError:
            return None

    def at(self, version: int) -> Self | None:
        """The log as of a version; None if that can no longer be read."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            there = DeltaTable(self._opened.table_uri, version=version, storage_options=self._storage or None)
        except DeltaError:
            return None
        return type(self)(self.table, there, self._storage)

    @property
    def files(self) -> set[str]:
        """The addresses of the table's data files."""
        return set(self._opened.file_uris())

    @property
    def uuid(self) -> str:
        """The table's identifier."""
        return str(self._opened.metadata().id)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self._opened.metadata().configuration)

    @property
    def schema(self) -> list[dict[str, Any]]:
        """The table's columns as Delta describes them in JSON, in the same form as Spark."""
        return list(json.loads(self._opened.schema().to_json())["fields"])

    @property
    def protocol(self) -> tuple[int, int, frozenset[str]]:
        """The least versions of readers and writers, and the features that these must know."""
        found = self._opened.protocol()
        features = frozenset(found.reader_features or ()) | frozenset(found.writer_features or ())
        return found.min_reader_version, found.min_writer_version, features

    @property
    def partitions(self) -> Sequence[str]:
        """The columns by which the table is partitioned."""
        return list(self._opened.metadata().partition_columns)

    @property
    def newest_time(self) -> int | None:
        """When the newest entry was committed, in milliseconds; None if entries bear no such times."""
        if self.properties.get("delta.enableInCommitTimestamps") != "true":
            return None
        return int(next(iter(self._entries()))["inCommitTimestamp"])

    def is_due_for_checkpoint(self, version: int) -> bool:
        """Whether the writer of a version has to write a checkpoint as well."""
        return version % int(self.properties.get("delta.checkpointInterval", _CHECKPOINT_EVERY)) == 0

    def checkpoint(self) -> None:
        """Write a list of all files of this version, from which readers start."""
        self._opened.create_checkpoint()

    @property
    def version(self) -> int:
        """The newest version."""
        return int(self._opened.version())

    @cached_property
    def head(self) -> Head:
        """Our last commit, searched backwards from the newest entry.

        Raises:
            BookmarkGoneError: Somebody else cleaned the log, and the entry is gone.
        """
        number = self._opened.transaction_version(APP_ID)
        newest: dict[str, Any] = {}
        alone = True
        for entry in self._entries():
            note = Note.from_text(entry.get("userMetadata"))
            if note is not None and note.number == number:
                return Head(note=note, alone=alone, **_place(newest or entry))
            if entry["operation"] not in _TIDY:
                newest, alone = newest or entry, False
            if number is None:
                return Head(note=None, alone=False, **_place(entry))
        raise BookmarkGoneError(table=self.table, number=number or 0)

    @property
    def state_version(self) -> str:
        """Identifies the state that our last commit published, also against states of an earlier table.

        Raises:
            BookmarkGoneError: Somebody else cleaned the log, and the entry is gone.
        """
        note = self.head.note
        return f"{self.uuid}:{note.number}:{note.token}" if note else no_commit_yet(self.uuid)

    def version_of(self, note: Note) -> int | None:
        """The version that one of our commits made, even if others followed; None if it is not in the log.

        Raises:
            BookmarkGoneError: Somebody else cleaned the log, so it cannot say.
        """
        reached = self._opened.transaction_version(APP_ID) or 0
        oldest = 0
        for entry in self._entries():
            found, oldest = Note.from_text(entry.get("userMetadata")), int(entry["version"])
            if found is not None and found.token == note.token:
                return oldest
            # The table never got this number, or the search has passed the place where it would be.
            if reached < note.number or (found is not None and found.number < note.number):
                return None
        if oldest:
            raise BookmarkGoneError(table=self.table, number=note.number)
        return None

    def notes(self) -> Iterator[tuple[Note, int]]:
        """The notes of our commits in the log, newest first, each with its version."""
        for entry in self._entries():
            if note := Note.from_text(entry.get("userMetadata")):
                yield note, int(entry["version"])

    def _entries(self) -> Iterator[dict[str, Any]]:
        """The log's entries, newest first; read in steps, because mostly the first one is enough."""
        seen = 0
        for limit in (1, 20, None):
            entries = self._opened.history(limit)
            yield from entries[seen:]
            if limit is None or len(entries) < limit:
                return
            seen = len(entries)

    def rows(self) -> int:
        """Row count of the data files, including rows that deletion vectors mark as deleted."""
        return sum(f["num_records"] or 0 for f in self._files())

    def size(self) -> int:
        """The bytes of all of the table's data files."""
        return sum(f["size_bytes"] or 0 for f in self._files())

    def sizes(self) -> list[tuple[str, int]]:
        """The partition, as text, and the bytes of each data file."""
        return [(str(f.get("partition") or ""), int(f["size_bytes"] or 0)) for f in self._files()]

    def forgotten(self, older_than: timedelta) -> set[str]:
        """The files in the table's folder that no version younger than ``older_than`` has used."""
        hours = int(older_than.total_seconds() // 3600)
        listed = self._opened.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False)
        return set(listed)

    def may_hold(self, column: str, low: Any, high: Any) -> bool:
        """Whether some file may hold a value of a column between two bounds; True without statistics."""
        return any(_meets(span, low, high) for _, span in self._spans(column))

    def bounds(self, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """Row count and value ranges of the files whose column ``where`` may lie in a range."""
        spans = self._spans(where)
        chosen = {i for i, (_, span) in enumerate(spans) if _meets(span, low, high)}
        ranges: dict[str, tuple[Any, Any]] = {}
        for name in columns:
            ends = [span for i, (_, span) in enumerate(self._spans(name)) if i in chosen]
            known = [e for e in ends if e is not None and all(isinstance(v, int | str | Decimal) for v in e)]
            if ends and len(known) == len(ends):
                ranges[name] = (min(e[0] for e in known), max(e[1] for e in known))
        return Bounds(rows=sum(spans[i][0] for i in chosen), ranges=ranges)

    def _files(self) -> list[dict[str, Any]]:
        import pyarrow as pa

        return list(pa.table(self._opened.get_add_actions()).to_pylist())

    def _spans(self, column: str) -> list[tuple[int, tuple[Any, Any] | None]]:
        """Of each file: its row count, and the lowest and highest value of a column (or a struct's field)."""
        path = _physical(column.split("."), self.schema)
        found: list[tuple[int, tuple[Any, Any] | None]] = []
        for file in self._files():
            rows = int(file["num_records"] or 0)
            held = (file.get("partition") or {}).get(column)
            if held is not None:
                found.append((rows, (held, held)))
                continue
            ends = _at(file.get("min"), path), _at(file.get("max"), path)
            found.append((rows, None if None in ends else ends))
        return found


class KnownLogs:
    """Opens logs, and keeps that of a table on a local disk until something is written to its folder.

    A small commit looks at each of its tables' logs some fifteen times, and delta-rs takes 5 ms to open one.
    """

    def __init__(self, storage: dict[str, str]) -> None:
        """Take the settings of the object store."""
        self._storage = storage
        self._known: dict[str, tuple[tuple[int, int], DeltaLog]] = {}

    def open(self, table: TableName, path: str) -> DeltaLog | None:
        """Open a log at its newest version; None if there is no table."""
        if "://" in path:
            return DeltaLog.open(table, path, self._storage)
        folder = Path(path)
        try:
            found = (folder / LOG_FOLDER).stat()
        except FileNotFoundError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns)
        known = self._known.get(path)
        # Two entries may come within one tick of the file system's clock, so the next one is looked for.
        if known and known[0] == stamp and not entry_path(folder, known[1].version + 1).exists():
            return known[1]
        log = DeltaLog.open(table, path, self._storage)
        if log is not None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[path] = stamp, log
        return log


def storage_options(spark_conf: Mapping[str, str], place: str) -> dict[str, str]:
    """Spark's settings of an object store as delta-rs takes them; without credentials both use AWS's own."""
    if not place.startswith(("s3:", "s3a:")):
        return {}
    found = {word: spark_conf[_S3A + key] for key, word in _WORDS.items() if spark_conf.get(_S3A + key)}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http:"):
        found["AWS_ALLOW_HTTP"] = "true"
    if spark_conf.get(_S3A + "path.style.access") != "true":
        found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "true"
    return found


def no_commit_yet(uuid: str) -> str:
    """The ``state_version`` of a table to which we have committed nothing."""
    return f"{uuid}:0"


def _place(entry: Mapping[str, Any]) -> dict[str, int]:
    time = entry.get("inCommitTimestamp") or entry.get("timestamp") or 0
    return {"version": int(entry["version"]), "time": int(time)}


def physical_name(field: Mapping[str, Any]) -> str:
    """A column's name in files and statistics: with column mapping it is Delta's own."""
    return str((field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"]))


def _physical(path: Sequence[str], fields: Sequence[Mapping[str, Any]]) -> list[str]:
    """The path of a column, or of a field within it, as files and statistics name it."""
    found: list[str] = []
    for name in path:
        one = next((f for f in fields if f["name"] == name), None)
        if one is None:
            return []
        found.append(physical_name(one))
        kind = one["type"]
        fields = kind.get("fields", ()) if isinstance(kind, dict) else ()
    return found


def _at(values: Any, path: Sequence[str]) -> Any:
    if not path:
        return None
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _meets(span: tuple[Any, Any] | None, low: Any, high: Any) -> bool:
    if span is None:
        return True
    least, most = span
    if isinstance(most, datetime):
        low, high = (v.astimezone(UTC) if most.tzinfo and isinstance(v, datetime) else v for v in (low, high))
        most += _CUT
    try:
        return bool(least <= high and low <= most)
    except TypeError:  # values of another type than the statistics'
        return True
