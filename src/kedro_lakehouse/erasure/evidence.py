"""What an erasure proves: which files were read after it, what they still hold, and a signature."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kedro_lakehouse.erasure.rows import Erased
    from kedro_lakehouse.file_search.search import Searched


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One erasure: whose rows were removed where, which files were searched, and what is still to be done.

    Subjects are keyed hashes; no value of a row is in it.
    """

    erasure: str
    erased_at: str
    subjects: tuple[str, ...]
    tables: tuple[str, ...]
    removed: tuple[Mapping[str, Any], ...] = ()
    rewritten: tuple[str, ...] = ()
    """Landed files from which records were removed."""
    places: tuple[str, ...] = ()
    files: int = 0
    read: int = 0
    """Bytes of the searched files."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    found: tuple[Mapping[str, Any], ...] = ()
    arrived: tuple[Mapping[str, Any], ...] = ()
    """Landed files that hold a subject and were written after the erasure had begun."""
    unsure: tuple[str, ...] = ()
    common_values: int = 0
    pending: tuple[str, ...] = ()
    out_of_reach: tuple[str, ...] = ()

    @classmethod
    def unproved(
        cls, erasure: str, subjects: Iterable[str], tables: Iterable[str], left: Iterable[str]
    ) -> Evidence:
        """The evidence of an erasure of which nobody knows any more what to search the files for.

        Args:
            subjects: Keyed hashes.
            left: What is left to do beside that.
        """
        search = (
            "The requests were gone before every file was searched. Whoever knows the persons looks with "
            "`kedro lakehouse find-value`."
        )
        return cls(
            erasure=erasure,
            erased_at=datetime.now(UTC).isoformat(),
            subjects=tuple(sorted(subjects)),
            tables=tuple(tables),
            pending=(*left, search),
        )

    @property
    def is_done(self) -> bool:
        """Whether no file holds a value of a subject, and nothing is left to do."""
        return not self.found and not self.pending

    def signed(self, key: bytes) -> dict[str, Any]:
        """The evidence with its signature, as it is kept and written to a file."""
        facts: dict[str, Any] = json.loads(self.text())
        return facts | {"signature": signature(facts, key)}

    def text(self) -> str:
        """The evidence as JSON, always the same for the same evidence."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)


def signature(facts: Mapping[str, Any], key: bytes) -> str:
    """The HMAC-SHA256 of evidence without its signature."""
    signed = {name: value for name, value in facts.items() if name != "signature"}
    text = json.dumps(signed, sort_keys=True, ensure_ascii=False)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_signed(facts: Mapping[str, Any], key: bytes) -> bool:
    """Whether evidence is as it was signed."""
    return hmac.compare_digest(str(facts.get("signature", "")), signature(facts, key))


def findings(found: Iterable[Searched]) -> tuple[dict[str, Any], ...]:
    """What a search found, a file and place each."""
    return tuple(
        {"file": one.path, "kind": one.kind, "place": hit.place, "count": hit.count}
        for one in found
        for hit in one.hits
    )


def removals(erased: Sequence[Erased]) -> tuple[dict[str, Any], ...]:
    """What was removed, a stored table each."""
    return tuple(asdict(one) for one in erased)
