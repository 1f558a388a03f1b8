"""Search all files below some places for values, side by side."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from kedro_lakehouse.file_search.readers import OPAQUE, Hit, hits_in, searched_as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.file_search.wanted import Wanted

_SIDE_BY_SIDE: Final = 4
UNREAD: Final = "unread"
"""Kind of a file that could not be read."""
NAME: Final = "name"
"""Place of a hit in a file's own name, where a partition by the value puts it."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """One file: what was read of it, and what holds a value."""

    path: str
    kind: str
    size: int
    written_at: datetime | None = None
    hits: Sequence[Hit] = ()
    problem: str = ""
    """Why the file could not be read by the reader of its kind; its bytes were searched instead."""


@dataclass(kw_only=True)
class SearchReport:
    """What was searched, and which files hold a value."""

    roots: Sequence[str]
    files: int = 0
    bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    found: list[Searched] = field(default_factory=list)
    unsure: list[Searched] = field(default_factory=list)
    """Files without a hit of which bytes alone were searched: blocks in them may be compressed."""
    unread: list[Searched] = field(default_factory=list)
    """Files that nobody could read, such as objects in Glacier: nothing is known of what they hold."""

    def add(self, one: Searched) -> None:
        """Count a file in."""
        self.files += 1
        self.kinds[one.kind] += 1
        if one.hits:
            self.found.append(one)
        if one.kind == UNREAD:
            self.unread.append(one)
            return
        self.bytes += one.size
        if not one.hits and (one.kind == OPAQUE or one.problem):
            self.unsure.append(one)


def search_files(roots: Iterable[str], wanted: Wanted) -> SearchReport:
    """Read every file below some folders, or some files, and report those that hold a wanted value.

    Hidden files are read too, and folders to which links lead. A folder that does not exist holds nothing. A
    file that goes while the search is on is left out, as are pipes and sockets. One that cannot be read is
    named.
    """
    roots = _outermost(roots)
    report = SearchReport(roots=roots)
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="search") as pool:
        for one in pool.map(partial(_searched, wanted), _files(roots)):
            if one is not None:
                report.add(one)
    report.found.sort(key=lambda one: one.path)
    return report


def _outermost(roots: Iterable[str]) -> list[str]:
    """The places without those that lie in another one."""
    chosen: list[str] = []
    for root in sorted({root.rstrip("/") for root in roots}, key=len):
        if not any(root == outer or root.startswith(f"{outer}/") for outer in chosen):
            chosen.append(root)
    return sorted(chosen)


def _files(roots: Sequence[str]) -> Iterator[tuple[Any, str, Mapping[str, Any], str]]:
    for root in roots:
        fs, path = fsspec.core.url_to_fs(root)
        fs.invalidate_cache()  # object storage's client caches listings for the life of the process
        for name, facts in _below(fs, path, frozenset({Path(path).resolve()})):
            yield fs, name, facts, name.removeprefix(path)


def _below(fs: Any, path: str, entered: frozenset[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files below a folder; those of a folder to which a link leads have paths through the link.

    Args:
        fs: Where the folder is.
        path: The folder.
        entered: The folders on the way here: a link back into one of them is not followed.
    """
    for name, facts in sorted(fs.find(path, detail=True).items()):
        if not facts.get("islink"):
            if facts["type"] == "file":
                yield name, facts
        elif fs.isfile(name):
            yield name, facts
        elif fs.isdir(name):
            target = Path(name).resolve()
            if not any(target.is_relative_to(folder) for folder in entered):
                yield from _below(fs, name, entered | {target})


def _searched(wanted: Wanted, listed: tuple[Any, str, Mapping[str, Any], str]) -> Searched | None:
    fs, name, facts, below = listed
    hits = [Hit(place=NAME, count=1)] if wanted.in_path(below) else []
    try:
        kind, found, problem = _read(fs, name, wanted)
    except FileNotFoundError:
        return None
    return Searched(
        path=address(fs, name),
        kind=kind,
        size=int(facts["size"]),
        written_at=_written_at(facts),
        hits=[*hits, *found],
        problem=problem,
    )


def _read(fs: Any, name: str, wanted: Wanted, *, again: bool = True) -> tuple[str, list[Hit], str]:
    """The kind of a file, its hits, and what was the matter with it; once more if it changed meanwhile.

    Raises:
        FileNotFoundError: The file went while the search was on.
    """
    try:
        with fs.open(name, "rb") as file:
            try:
                return *hits_in(file, wanted), ""
            except FileNotFoundError:
                raise
            except Exception as error:  # noqa: BLE001 - a broken file of a kind is searched as bytes
                file.seek(0)
                problem = f"{type(error).__name__}: its reader could not read it"
                return "bytes", searched_as_bytes(file, wanted), problem
    except FileNotFoundError:
        raise
    except OSError as error:
        if again:
            fs.invalidate_cache()  # an object is read as it was listed, or not at all
            return _read(fs, name, wanted, again=False)
        return UNREAD, [], f"{type(error).__name__}: {error.strerror or error}"


def address(fs: Any, name: str) -> str:
    """How a listed file is named: by its path on a disk, elsewhere with the scheme."""
    return name if isinstance(fs, LocalFileSystem) else str(fs.unstrip_protocol(name))


def _written_at(facts: Mapping[str, Any]) -> datetime | None:
    """When a file was written last: a local disk gives seconds, an object store a moment."""
    seconds, moment = facts.get("mtime"), facts.get("LastModified")
    if isinstance(seconds, int | float):
        return datetime.fromtimestamp(seconds, UTC)
    return moment if isinstance(moment, datetime) else None
