"""Objects in S3 that were written anew in their place keep the time that the ledger knows them by.

S3 gives each object the time when it was put. So one that is put in another one's place says in its metadata
what time that one had. An empty object beside it says that there is something to ask: others cost nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

LANDED_AT: Final = "landed-at"
"""The key of an object's metadata: milliseconds since the epoch, as the ledger has them."""
_MARK: Final = "_rewritten."
_AT_ONCE: Final = 8
_known: Final[dict[tuple[str, str, str], int | None]] = {}
"""What objects say, by name, tag of their content and the time when they were put."""


def mark_of(path: str) -> str:
    """The path of the empty object that stands for one written anew; no listing of landed files shows it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{_MARK}{name}"


def known_times(fs: AbstractFileSystem, listed: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The times, in milliseconds, by which the ledger knows those of listed files that were written anew."""
    if "s3" not in fs.protocol:
        return {}
    folders = (name.rpartition("/") for name in listed)
    named = (f"{folder}/{name.removeprefix(_MARK)}" for folder, _, name in folders if name.startswith(_MARK))
    marked = [name for name in named if name in listed]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        times = list(pool.map(lambda name: _time_of(fs, name, listed[name]), marked))
    return {name: time for name, time in zip(marked, times, strict=True) if time is not None}


def _time_of(fs: Any, name: str, facts: Mapping[str, Any]) -> int | None:
    """What a listed object says; None if nobody wrote it anew, or it went meanwhile."""
    key = name, str(facts.get("ETag")), str(facts.get("LastModified"))
    if key not in _known:
        try:
            time = fs.metadata(name).get(LANDED_AT)
        except FileNotFoundError:
            return None
        _known[key] = None if time is None else int(time)
    return _known[key]
