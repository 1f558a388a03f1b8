"""What a search returns: hits that say where a column is, how it scored, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.column_search.signature import ColumnSignature

Mode = Literal["name", "content", "both", "hybrid"]
"""What is compared: names, values, both in one vector, or all that is known."""
_SHARED: Final = 5


@dataclass(frozen=True, kw_only=True)
class ColumnFilter:
    """Which columns may be found; an empty part lets everything through.

    Attributes:
        kinds: Logical types such as ``integer`` or ``text``.
        personal: True for columns with personal data only, False for the others only.
    """

    namespaces: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    personal: bool | None = None

    def lets(self, one: ColumnSignature) -> bool:
        """Whether a column may be found; a table is named with or without its namespace."""
        table = one.table
        return (
            (not self.namespaces or table.namespace in self.namespaces)
            and (not self.tables or table.table in self.tables or str(table) in self.tables)
            and (not self.kinds or one.profile.kind in self.kinds)
            and (not self.tags or bool(set(self.tags) & set(table.tags)))
            and (self.personal is None or one.profile.personal == self.personal)
        )


@dataclass(frozen=True, kw_only=True)
class ColumnHit:
    """One column that was found.

    Attributes:
        score: 1 and more is as good as the same; hits of one search compare, those of two searches do not.
        why: What each feature added to the score.
        shared: Values that it shares with the column it was compared to; none of personal data.
        formats: The formats of its values with their shares.
        location: Where the table's data lie.
    """

    column_id: str
    namespace: str
    table: str
    column: str
    kind: str
    score: float
    rows: int
    null_fraction: float
    distinct: int
    personal: bool
    sample: tuple[str, ...]
    formats: tuple[tuple[str, float], ...]
    source: str
    location: str
    tags: tuple[str, ...] = ()
    why: Mapping[str, float] = field(default_factory=dict)
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JoinHit:
    """A column to join with.

    Attributes:
        containment: Share of the asking column's distinct values that the found one has, by sketch.
        exact: The same, counted; None where it was not verified.
        distinctness: Distinct values to values of the found column: 1 for a key.
    """

    hit: ColumnHit
    containment: float
    distinctness: float
    exact: float | None = None


@dataclass(frozen=True, kw_only=True)
class TableHit:
    """A table that was found, and which of its columns stand for which of the asking one's."""

    namespace: str
    table: str
    location: str
    score: float
    pairs: tuple[tuple[str, ColumnHit], ...]


def make_hit(
    one: ColumnSignature, score: float, why: Mapping[str, float], asking: ColumnSignature | None = None
) -> ColumnHit:
    """Make a hit of a found column."""
    profile, table = one.profile, one.table
    return ColumnHit(
        column_id=one.column_id,
        namespace=table.namespace,
        table=table.table,
        column=profile.name,
        kind=profile.kind,
        score=round(score, 4),
        rows=profile.rows,
        distinct=profile.distinct,
        null_fraction=round(profile.null_fraction, 4),
        personal=profile.personal,
        sample=profile.sample,
        formats=profile.formats,
        source=table.source,
        location=table.location,
        tags=table.tags,
        why={name: round(share, 4) for name, share in why.items() if abs(share) >= 5e-5},  # noqa: PLR2004
        shared=_shared(asking, one) if asking else (),
    )


def _shared(asking: ColumnSignature, found: ColumnSignature) -> tuple[str, ...]:
    """Values that both samples show; a private column has no sample."""
    theirs = {value.casefold() for value in found.profile.sample}
    return tuple(value for value in asking.profile.sample if value.casefold() in theirs)[:_SHARED]
