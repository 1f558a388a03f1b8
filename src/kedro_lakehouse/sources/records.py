"""Records of streams, and the ranges of partitions that hold them."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANGE: Final = re.compile(
    r"(\w+)://(?P<id>[^/]+)/(?P<first>\d+)-(?P<end>\d+)/(?P<stream>[^/:]+):(?P<part>.+)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamRange:
    """The records of a partition from position ``first`` up to, and without, ``end``.

    ``size`` are their bytes, as far as known. ``until`` is the time up to which the partition was read, in
    milliseconds since the epoch, where the stream tells times.
    """

    stream: str
    identity: str
    partition: str
    first: int
    end: int
    size: int = 0
    until: int = 0

    @property
    def name(self) -> str:
        """The name of the partition."""
        return f"{self.stream}:{self.partition}"

    def planned(self, scheme: str) -> LandedFile:
        """The range as the ledger holds it."""
        path = f"{scheme}://{self.identity}/{self.first}-{self.end}/{self.name}"
        return LandedFile(path, self.size, self.until)

    @classmethod
    def of(cls, planned: LandedFile) -> StreamRange:
        """The range that a plan of the ledger names."""
        found = _RANGE.fullmatch(planned.path)
        assert found is not None, planned.path  # noqa: S101 - ``planned`` wrote it
        return cls(
            stream=found["stream"], identity=found["id"], partition=found["part"],
            first=int(found["first"]), end=int(found["end"]), size=planned.size, until=planned.modified,
        )  # fmt: skip


class Record(NamedTuple):
    """A record: where it lies (see ``StreamSource``), its key and its value.

    ``time`` is when it was stored or made, in milliseconds since the epoch, if the stream tells it.
    """

    file: str
    row: int
    key: bytes | None
    value: bytes | None
    time: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def number(self) -> int:
        """Its place in its partition, as ranges count: an offset or a sequence number."""
        parts = self.file.split(":", 2)
        return int(parts[2]) if len(parts) > 2 else self.row  # noqa: PLR2004 - stream, partition, number
