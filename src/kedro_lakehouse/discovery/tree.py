"""The files below a place: which of them are tables of a format, and which belong together as one dataset."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import SourceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from kedro_lakehouse.config.discovery import DatasetKind

_ENDINGS: Final[tuple[tuple[str, DatasetKind], ...]] = (
    (".parquet", "parquet"),
    (".pq", "parquet"),
    (".csv", "csv"),
    (".tsv", "csv"),
    (".json", "json"),
    (".jsonl", "json"),
    (".ndjson", "json"),
)
_PACKED: Final = (".gz", ".bz2", ".zst", ".xz")
_ROOTS: Final[tuple[tuple[DatasetKind, re.Pattern[str]], ...]] = (
    ("delta", re.compile(r"^(?:(?P<root>.+)/)?_delta_log/\d{20}(?:\.json|\.checkpoint.*\.parquet)$")),
    ("hudi", re.compile(r"^(?:(?P<root>.+)/)?\.hoodie/hoodie\.properties$")),
    ("iceberg", re.compile(r"^(?:(?P<root>.+)/)?metadata/[^/]+\.metadata\.json(?:\.gz)?$")),
)
_PARTITION: Final = re.compile(r"([^/=]+)=([^/]*)")
_DATED: Final = re.compile(
    r"(?:19|20)\d\d(?:[-_.]?[01]\d(?:[-_.]?[0-3]\d)?)?(?:[T_-]?\d\d[-:]?\d\d.*)?|[0-3]\d"
)
"""A folder that is named after a year, a month, a day or a moment."""
_UNFINISHED: Final = (".tmp", ".part", ".crc")


def ending_of(name: str) -> str:
    """The endings of a file's name that say what kind of file it is.

    Example:
        >>> ending_of("prices.2026.csv.gz")
        '.csv.gz'
    """
    packed = next((ending for ending in _PACKED if name.endswith(ending)), "")
    inner = name.removesuffix(packed)
    return next((ending for ending, _ in _ENDINGS if inner.endswith(ending)), "") + packed


@dataclass(frozen=True)
class TreeFile:
    """A file, by its path below the place; ``size`` in bytes."""

    path: str
    size: int
    changed: datetime

    @property
    def folder(self) -> str:
        """Its folder below the place; empty for the place itself."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """Its name without the endings that say what kind of file it is."""
        name = self.name
        for ending in _PACKED:
            name = name.removesuffix(ending)
        return next((name.removesuffix(e) for e, _ in _ENDINGS if name.endswith(e)), name)

    @property
    def kind(self) -> DatasetKind | None:
        """What its name says that it is."""
        name = self.name.lower()
        for ending in _PACKED:
            name = name.removesuffix(ending)
        return next((kind for ending, kind in _ENDINGS if name.endswith(ending)), None)

    @property
    def partition(self) -> tuple[tuple[str, str], ...]:
        """The columns and values that folders named ``column=value`` give its rows."""
        found = (_PARTITION.fullmatch(part) for part in self.folder.split("/"))
        return tuple((match[1], match[2]) for match in found if match)

    @property
    def dataset_folder(self) -> str:
        """Its folder without the trailing ones that are partitions, or dates such as ``2026/01/05``."""
        parts = self.folder.split("/")
        while parts and (_PARTITION.fullmatch(parts[-1]) or _DATED.fullmatch(parts[-1])):
            parts.pop()
        return "/".join(parts)


@dataclass(frozen=True)
class Tree:
    """All files below a place, as they were listed once.

    ``root`` is the place's address, ``path`` the same as the file system takes it.
    """

    fs: AbstractFileSystem
    root: str
    path: str
    files: Sequence[TreeFile]

    def at(self, below: str) -> str:
        """A path as the file system takes it."""
        return f"{self.path}/{below}" if below else self.path

    def address(self, below: str) -> str:
        """The address of what lies below the place: a path of a local disk, else with its scheme."""
        whole = f"{self.root}/{below}" if below else self.root
        return whole.removeprefix("file://")

    def below(self, folder: str) -> list[TreeFile]:
        """The files of a folder and those below it."""
        return [f for f in self.files if not folder or f.path.startswith(f"{folder}/")]

    def without(self, folders: Sequence[str]) -> Tree:
        """The same place without what lies below some folders."""
        starts = tuple(f"{folder}/" if folder else "" for folder in folders)
        left = [f for f in self.files if not f.path.startswith(starts)] if starts else self.files
        return Tree(self.fs, self.root, self.path, left)


def list_tree(place: str, *, exclude: Sequence[str] = (), apart: str = "") -> Tree:
    """List a place once, with all that lies below it, but for the folder ``apart``.

    Raises:
        SourceNotFoundError: There is neither a folder nor a file.
    """
    import fsspec

    fs, path = fsspec.core.url_to_fs(place)
    path = path.rstrip("/")
    fs.invalidate_cache()  # object storage's client caches listings for the life of the process
    listing: Mapping[str, Any] = fs.find(path, detail=True)
    if fs.isfile(path):
        base, _, _ = path.rpartition("/")
        listing = {path: fs.info(path)}
        path = base
    elif not listing and not fs.isdir(path):
        remedy = "Correct `path` in discovery.yml, or create the folder."
        raise SourceNotFoundError(table="discovery", path=place, remedy=remedy)
    if apart:
        own = f"{fs._strip_protocol(apart)}/"  # noqa: SLF001 - fsspec has no public way
        listing = {name: facts for name, facts in listing.items() if not name.startswith(own)}
    files = sorted(_files(listing, path, exclude), key=lambda f: f.path)
    return Tree(fs, fs.unstrip_protocol(path).removeprefix("file://"), path, files)


def _files(listing: Mapping[str, Any], path: str, exclude: Sequence[str]) -> Iterator[TreeFile]:
    for name, facts in listing.items():
        below = name.removeprefix(path).lstrip("/")
        if facts.get("type") == "directory" or name.endswith(_UNFINISHED):
            continue
        if not any(fnmatch.fnmatchcase(below, pattern) for pattern in exclude):
            yield TreeFile(below, int(facts["size"]), _changed(facts))


def _changed(facts: Mapping[str, Any]) -> datetime:
    stamp = facts.get("mtime", facts.get("LastModified", 0))
    found = stamp if isinstance(stamp, datetime) else datetime.fromtimestamp(float(stamp), UTC)
    return found.astimezone(UTC).replace(microsecond=found.microsecond // 1000 * 1000)


def table_roots(tree: Tree) -> dict[str, DatasetKind]:
    """The folders that are tables of Delta, Hudi or Iceberg; one within another is a part of that one."""
    found: dict[str, DatasetKind] = {}
    for kind, pattern in _ROOTS:
        for file in tree.files:
            if match := pattern.match(file.path):
                found.setdefault(match["root"] or "", kind)
    outer: dict[str, DatasetKind] = {}
    for root in sorted(found):
        if not any(not above or root.startswith(f"{above}/") for above in outer):
            outer[root] = found[root]
    return outer


def file_groups(tree: Tree) -> dict[str, list[TreeFile]]:
    """The data files by the folder of their dataset; hidden ones, and those of no known kind, left out."""
    found: dict[str, list[TreeFile]] = {}
    for file in tree.files:
        hidden = any(part.startswith(("_", ".")) for part in file.path.split("/"))
        if file.kind is not None and not hidden and file.size:
            found.setdefault(file.dataset_folder, []).append(file)
    return found


def mark_of(files: Sequence[TreeFile]) -> str:
    """A digest of the paths, sizes and times of files: another one where any of them changed."""
    text = "\n".join(
        f"{f.path} {f.size} {f.changed.isoformat()}" for f in sorted(files, key=lambda f: f.path)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def identity_of(files: Sequence[TreeFile], folder: str) -> str:
    """A digest of names and sizes of files in their folder: the same where the folder is moved."""
    names = sorted((f.path.removeprefix(folder).lstrip("/"), f.size) for f in files)
    return hashlib.sha256(repr(names).encode()).hexdigest()[:32]
