"""The state of each query in a file of its own, beside the results that it names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.private import private_file, private_folder
from kedro_lakehouse.query.errors import QueryNotFoundError, QueryOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.query.results import Format

State = Literal["running", "done", "failed", "cancelled"]
_ID: Final = re.compile(r"[0-9a-f]{32}")
_PART: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}")
_MOST_PARTS: Final = 5
_STATES: Final = "_queries"
"""Folder of the state files; no part of an output's name begins as one of a role's may not."""
EVERYBODY: Final = "_all"
"""Folder of the results of queries that no role asks."""


@dataclass(frozen=True, kw_only=True)
class TableRead:
    """What a query read of one table: its state by Iceberg's number, and the files with their bytes."""

    table: str
    snapshot: str | None
    snapshot_id: int | None
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class QueryState:
    """How far a query has come.

    Attributes:
        query: The text of the query.
        role: Whose grants apply; None: everything was in its reach.
        location: The file of the result; it is there when the state is ``done``.
        tables: What was read.
        error: Code, message and remedy of what went wrong.

    Units:
        bytes: of the result's file.
        scanned: bytes that Athena has read, and charges for.
    """

    id: str
    state: State
    query: str
    format: Format
    location: str
    started_at: str
    role: str | None = None
    ended_at: str | None = None
    rows: int | None = None
    bytes: int | None = None
    tables: Sequence[TableRead] = ()
    scanned: int | None = None
    error: Mapping[str, str] | None = None
    snapshots: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state != "running"

    def ended(self, state: State, **facts: Any) -> QueryState:
        """The state of the query that ends now."""
        return replace(self, state=state, ended_at=now(), **facts)


def now() -> str:
    """This moment, as states write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class ResultFolder:
    """A folder of results: a folder for each role in it, and one of states."""

    def __init__(self, folder: str) -> None:
        """Store the folder; it is made with its first query."""
        self.root = Path(folder).absolute()

    def place(self, query: str, output: str | None, kind: Format, role: str | None) -> Path:
        """The file of a result that is not there yet, with its folders.

        Raises:
            QueryOutputError: It would lie outside of the folder, or there is such a file.
        """
        shown = output if output is not None else query
        parts = shown.removesuffix(f".{kind}").split("/")
        if len(parts) > _MOST_PARTS or not all(map(_PART.fullmatch, parts)):
            raise QueryOutputError(output=shown, problem="is no name below the folder of results")
        own = private_folder(self.root) / (role or EVERYBODY)
        file = own.joinpath(*parts[:-1], f"{parts[-1]}.{kind}")
        # A link on the way may lead anywhere.
        if not file.parent.resolve().is_relative_to(self.root.resolve() / own.name) or own.is_symlink():
            raise QueryOutputError(output=shown, problem="lies outside of the folder of results")
        if file.exists() or file.is_symlink():
            raise QueryOutputError(output=shown, problem="is the name of another result")
        private_folder(file.parent)
        return file

    def new_id(self) -> str:
        """An id that nobody can guess."""
        return secrets.token_hex(16)

    def write(self, state: QueryState) -> None:
        """Put a state in the place of the one before."""
        file = self._file(state.id, "json")
        private_folder(file.parent)
        part = private_file(file.with_suffix(".part"))
        part.write_text(json.dumps(asdict(state), ensure_ascii=False), encoding="utf-8")
        part.replace(file)

    def read(self, query: str) -> QueryState:
        """The state of a query.

        Raises:
            QueryNotFoundError: There is none of that id.
        """
        try:
            raw = json.loads(self._file(query, "json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise QueryNotFoundError(query=query) from error
        tables = tuple(TableRead(**one) for one in raw.pop("tables"))
        return QueryState(**raw, tables=tables)

    def written_before(self, time: datetime) -> list[str]:
        """The queries whose state was last written before a time."""
        found = []
        for file in (self.root / _STATES).glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # another process removes old results, too
                if file.stat().st_mtime < time.timestamp():
                    found.append(file.stem)
        return found

    def forget(self, state: QueryState) -> None:
        """Remove the result of a query that has ended, and its state."""
        result = Path(state.location)
        if result.resolve().is_relative_to(self.root.resolve()):
            result.unlink(missing_ok=True)
        self._file(state.id, "json").unlink(missing_ok=True)

    def made_lock(self, query: str) -> int:
        """Make and open the file whose lock says that the query's process lives; the caller closes it."""
        file = self._file(query, "lock")
        private_folder(file.parent)
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)

    def lock(self, query: str) -> int | None:
        """Open the same file; None if it is gone, with the process."""
        with contextlib.suppress(FileNotFoundError):
            return os.open(self._file(query, "lock"), os.O_RDWR)
        return None

    def is_cancelled(self, query: str) -> bool:
        """Whether somebody asked for the query's end."""
        return self._file(query, "cancel").exists()

    def ask_to_cancel(self, query: str) -> None:
        """Ask the process that started a query to end it."""
        private_file(self._file(query, "cancel"))

    def tidy_up(self, query: str) -> None:
        """Remove what only a running query needs."""
        for kind in ("lock", "cancel"):
            self._file(query, kind).unlink(missing_ok=True)

    def _file(self, query: str, kind: str) -> Path:
        if not _ID.fullmatch(query):
            raise QueryNotFoundError(query=query)
        return self.root / _STATES / f"{query}.{kind}"
