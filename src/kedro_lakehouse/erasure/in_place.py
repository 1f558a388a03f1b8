"""Put other bytes in a file's place, on a disk or in S3, so that the ledger knows the file again."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlencode

import fsspec

from kedro_lakehouse.aws import client, code_of, is_unanswered
from kedro_lakehouse.file_search.search import address
from kedro_lakehouse.sources.rewritten import LANDED_AT, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

logger = logging.getLogger(__name__)

Writer = Callable[[BinaryIO], object]
"""Writes the new bytes of a file."""
_ENCRYPTION: Final = ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")
_KEPT: Final = (
    "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "StorageClass",
    *_ENCRYPTION,
)  # fmt: skip
"""What an object that is put in another one's place has in common with it, beside metadata and tags."""


def can_be_rewritten(place: str) -> bool:
    """Whether files of a place can be written anew: it is on a disk or in S3."""
    return "://" not in place or place.startswith(("file://", "s3://"))


def files_below(folder: str) -> list[str]:
    """The paths of all files below a folder, sorted; none where there is no such folder."""
    fs, path = fsspec.core.url_to_fs(folder)
    fs.invalidate_cache()
    return [address(fs, name) for name in sorted(fs.find(path))]


def rewrite(path: str, make: Callable[[BinaryIO], Writer | None], *, modified: int | None = None) -> bool:
    """Put other bytes in a file's place at once; whether that was done.

    A file on a disk keeps time and mode, an object its metadata, tags and kind of storage. An object is left
    that was replaced since it was read, or that may not be written: a warning says so.

    Args:
        make: Takes the opened file; gives what writes the new bytes, or None to leave the file as it is.
        modified: The time by which the ledger knows the file, in milliseconds since the epoch; None if the
            ledger does not know it by its time.
    """
    if path.startswith("s3://"):
        return _rewrite_object(path, make, modified)
    local = Path(path.removeprefix("file://"))
    if not can_be_rewritten(path) or not local.is_file():
        return False
    with local.open("rb") as file:
        write = make(file)
        if write is not None:
            replace_file(local, write)
    return write is not None


def of_bytes(make: Callable[[bytes], bytes | None]) -> Callable[[BinaryIO], Writer | None]:
    """What ``rewrite`` asks for, made of a function of all the bytes of a file; None leaves it as it is."""

    def writer(file: BinaryIO) -> Writer | None:
        made = make(file.read())
        return None if made is None else lambda out: out.write(made)

    return writer


def replace_file(path: Path, write: Writer) -> None:
    """Let a file on a disk be replaced, with its time and its mode."""
    before = path.stat()
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as out:
        write(out)
    part.chmod(before.st_mode)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    part.replace(path)


def _rewrite_object(path: str, make: Callable[[BinaryIO], Writer | None], modified: int | None) -> bool:
    from botocore.exceptions import ClientError

    stored = _Object(path)
    try:
        with stored.read() as content, tempfile.TemporaryFile() as made:
            write = make(content)
            if write is not None:
                write(made)
                made.seek(0)
                stored.replace(made, modified)
    except ClientError as error:
        if is_unanswered(error):
            raise
        logger.warning("%s was left as it is, for S3 answered %s", path, code_of(error))
        return False
    return write is not None


class _Object:
    """An object in S3, and what S3 said of it when it was read."""

    def __init__(self, path: str) -> None:
        self._bucket, _, self._key = path.removeprefix("s3://").partition("/")
        self._s3: Any = client("s3")
        self._facts: dict[str, Any] = {}

    @contextlib.contextmanager
    def read(self) -> Iterator[BinaryIO]:
        """Its bytes, as a file in which one may seek."""
        self._facts = self._s3.get_object(Bucket=self._bucket, Key=self._key)
        with tempfile.TemporaryFile() as content:
            with self._facts["Body"] as body:
                shutil.copyfileobj(body, content)
            content.seek(0)
            yield content

    def replace(self, content: BinaryIO, modified: int | None) -> None:
        """Put other bytes in the place of those that were read; its mark first, without which nobody asks."""
        metadata = dict(self._facts.get("Metadata", {}))
        if modified is not None:
            metadata[LANDED_AT] = str(modified)
            self._put(mark_of(self._key), b"", **self._kept(_ENCRYPTION))
        same = self._kept(_KEPT)
        if self._facts.get("TagCount"):
            tags = self._s3.get_object_tagging(Bucket=self._bucket, Key=self._key)["TagSet"]
            same["Tagging"] = urlencode({tag["Key"]: tag["Value"] for tag in tags})
        self._put(self._key, content, IfMatch=self._facts["ETag"], Metadata=metadata, **same)

    def _put(self, key: str, content: BinaryIO | bytes, **more: Any) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content, **more)

    def _kept(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self._facts[name] for name in names if self._facts.get(name)}


def keeps_earlier_versions(bucket: str) -> bool | None:
    """Whether a bucket keeps what was replaced or deleted in it; None if it does not say."""
    from botocore.exceptions import ClientError

    try:
        status = client("s3").get_bucket_versioning(Bucket=bucket).get("Status")
    except ClientError as error:
        if is_unanswered(error):
            raise
        return None
    return status is not None
