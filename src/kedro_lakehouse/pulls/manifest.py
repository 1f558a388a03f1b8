"""Sealed pulls: a manifest names the files of a pull, and is put once or not at all.

The manifests of a table lie in one folder, whatever the layout of the files: ``<path>/_manifests/<table>/``,
one a number. So of two pullers one wins, also if the day ends between them, and one listing finds them all.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"(\d{6,})\.json")
_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class PulledFile:
    """A landed file of a pull; ``path`` is relative to the source's folder."""

    path: str
    size: int
    sha256: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What one pull holds. Two pulls of the same number differ in ``attempt``."""

    table: str
    entity: str
    number: int
    attempt: str
    mode: str
    from_: str | None
    to: str | None
    files: tuple[PulledFile, ...]
    rows: int
    sealed_at: str
    """When it was sealed, by the clock of the machine that did; nothing is ordered by it."""
    seconds: float
    """How long it took."""
    identity: Mapping[str, str] = field(default_factory=dict)
    position: str | None = None
    declaration: str = ""
    """Hash of the keys that say what is pulled."""
    version: int = _VERSION

    def text(self) -> str:
        """The manifest as JSON."""
        facts = asdict(self)
        facts["from"] = facts.pop("from_")
        return json.dumps(facts, indent=1, sort_keys=True)

    @classmethod
    def of(cls, text: str) -> Manifest:
        """Read a manifest."""
        facts: dict[str, Any] = json.loads(text)
        facts["from_"] = facts.pop("from")
        facts["files"] = tuple(PulledFile(**file) for file in facts["files"])
        return cls(**facts)


class SealedPulls:
    """The manifests of one table's pulls; each is read once a process, as none ever changes."""

    def __init__(self, folder: str, table: str) -> None:
        """Take the source's folder and the table's name; nothing is listed yet."""
        self.root = folder.rstrip("/")
        self._folder = f"{self.root}/_manifests/{table}"

    def numbers(self) -> list[int]:
        """The numbers of the sealed pulls, ascending; none where there is no folder yet."""
        fs, path = _opened(self._folder)
        fs.invalidate_cache()
        try:
            names = fs.ls(path, detail=False)
        except FileNotFoundError:
            return []
        found = (_NAME.fullmatch(name.rpartition("/")[2]) for name in names)
        return sorted(int(match[1]) for match in found if match)

    def read(self, number: int) -> Manifest:
        """One manifest."""
        place = self._place(number)
        if place not in _read:
            fs, path = _opened(place)
            _read[place] = Manifest.of(fs.cat_file(path).decode())
        return _read[place]

    def all(self) -> list[Manifest]:
        """All manifests, in the order of their numbers."""
        numbers = self.numbers()
        if not numbers:
            return []
        with ThreadPoolExecutor(max_workers=8) as pool:
            return list(pool.map(self.read, numbers))

    def last(self) -> Manifest | None:
        """The manifest of the greatest number; None before the first."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def seal(self, manifest: Manifest) -> bool:
        """Put a manifest, unless its number is sealed already; whether it is this one that is there now."""
        place, text = self._place(manifest.number), manifest.text()
        if place.startswith("s3://"):
            return _put_in_s3(place, text, manifest)
        if "://" in place and not place.startswith("file://"):
            raise UnsupportedError(
                what=f"Pulls cannot be sealed in {place.partition('://')[0]}: nothing there is put only if "
                "absent.",
                remedy="Let `path` be a folder or an address in S3.",
            )
        return _put_on_disk(Path(place.removeprefix("file://")), text)

    def _place(self, number: int) -> str:
        return f"{self._folder}/{number:06d}.json"


_read: Final[dict[str, Manifest]] = {}
"""The manifests that this process has read, by their places."""


def _opened(place: str) -> tuple[Any, str]:
    import fsspec

    fs, path = fsspec.core.url_to_fs(place)
    return fs, path


def _put_on_disk(path: Path, text: str) -> bool:
    """Write a file under another name and link it: unlike a rename, a link never replaces a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unseen = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with unseen.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(unseen, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            unseen.unlink()
    return True


def _put_in_s3(place: str, text: str, manifest: Manifest) -> bool:
    from kedro_lakehouse.aws import client, code_of, is_unanswered

    bucket, _, key = place.removeprefix("s3://").partition("/")
    s3: Any = client("s3", timeout=30.0)
    for last in (False, False, True):
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), IfNoneMatch="*")
        except Exception as error:
            if code_of(error) != "PreconditionFailed" and (last or not is_unanswered(error)):
                raise
            # It may have been put all the same, also by the request before this one.
            if (found := _found(s3, bucket, key)) is not None:
                return found.attempt == manifest.attempt
        else:
            return True
    return False


def _found(s3: Any, bucket: str, key: str) -> Manifest | None:
    try:
        return Manifest.of(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode())
    except s3.exceptions.NoSuchKey:
        return None
