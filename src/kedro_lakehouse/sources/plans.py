"""A planned batch, as the ledger records it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.sources.files import LandedFile

REPLAY: Final = "replay:"
REPAIR: Final = "repair:"
"""What the identities of such plans begin with."""


@dataclass(frozen=True)
class PlannedFiles:
    """A planned batch as the ledger records it.

    ``content_hash`` is the identity of the plan: it stands for its files, and for everything that was
    published before it. ``follows`` is the identity of the plan before it.
    """

    batch: int
    files: tuple[LandedFile, ...]
    content_hash: str
    refused: frozenset[LandedFile] = frozenset()
    epoch: int = 0
    follows: str = ""
    references: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The snapshots that its events are looked up in, by the stored tables that are references."""

    @property
    def is_replay(self) -> bool:
        """Whether the batch replays events from quarantine; its files are in other batches too."""
        return self.content_hash.startswith(REPLAY)

    @property
    def is_repair(self) -> bool:
        """Whether the batch looks up events of earlier batches again; it has no files."""
        return self.content_hash.startswith(REPAIR)
