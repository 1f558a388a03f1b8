"""What the values of documents are, counted at every path: the ground on which types are chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.config.documents import ITEMS, VALUES
from kedro_lakehouse.decoders.bson.documents import document_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kedro_lakehouse.config.documents import Path

STRUCT: Final = "struct"
ARRAY: Final = "array"
NULL: Final = "null"
OTHER: Final = "other"
_UUID: Final = 4
_NAMES: Final[Mapping[str, str]] = {
    "str": "string",
    "int": "int",
    "Int64": "long",
    "float": "double",
    "bool": "boolean",
    "DatetimeMS": "date",
    "ObjectId": "objectid",
    "Decimal128": "decimal",
    "bytes": "binary",
    "NoneType": NULL,
    "dict": STRUCT,
    "list": ARRAY,
}
"""Kinds by the names of Python's types: so no module of the driver is needed to count."""
LARGEST_EXACT: Final = 2**53
"""A double holds every whole number up to this one."""


def kind_of(value: Any) -> str:
    """The kind of a decoded value."""
    found = _NAMES.get(type(value).__name__)
    if found is not None:
        return found
    if isinstance(value, bytes):
        return "uuid" if getattr(value, "subtype", 0) == _UUID else "binary"
    return OTHER


@dataclass(slots=True)
class Kinds:
    """The kinds of the values at one path, with their numbers, and what lies below it.

    ``fields`` are those of structs, or under ``VALUES`` all values of a map; ``items`` those of arrays.
    ``large`` counts whole numbers that a double does not hold.
    """

    counts: Counter[str] = field(default_factory=Counter)
    fields: dict[str, Kinds] = field(default_factory=dict)
    items: Kinds | None = None
    large: int = 0

    def add(self, value: Any, maps: Collection[Path] = (), path: Path = ()) -> None:
        """Count a value, and all that is in it."""
        kind = kind_of(value)
        self.counts[kind] += 1
        if kind == STRUCT:
            is_map = path in maps
            for name, inner in value.items():
                key = VALUES if is_map else name
                if (below := self.fields.get(key)) is None:
                    below = self.fields[key] = Kinds()
                below.add(inner, maps, (*path, key))
        elif kind == ARRAY:
            if self.items is None:
                self.items = Kinds()
            for inner in value:
                self.items.add(inner, maps, (*path, ITEMS))
        elif kind in ("int", "long") and abs(value) > LARGEST_EXACT:
            self.large += 1

    def merge(self, other: Kinds) -> None:
        """Add what another one has counted."""
        self.counts += other.counts
        self.large += other.large
        for name, kinds in other.fields.items():
            if name in self.fields:
                self.fields[name].merge(kinds)
            else:
                self.fields[name] = kinds
        if other.items is not None:
            if self.items is None:
                self.items = other.items
            else:
                self.items.merge(other.items)

    @property
    def present(self) -> Mapping[str, int]:
        """The kinds without null."""
        return {kind: count for kind, count in self.counts.items() if kind != NULL}

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Kinds, Kinds]]:
        """Every path below this one, with its kinds and those of what it lies in."""
        for name, inner in self.fields.items():
            yield (*path, name), inner, self
            yield from inner.walk((*path, name))
        if self.items is not None:
            yield (*path, ITEMS), self.items, self
            yield from self.items.walk((*path, ITEMS))

    def to_plain(self) -> list[Any]:
        """The same as JSON can hold it."""
        fields = {name: inner.to_plain() for name, inner in self.fields.items()}
        return [dict(self.counts), self.large, fields, self.items.to_plain() if self.items else None]

    @classmethod
    def from_plain(cls, plain: Any) -> Kinds:
        """What ``to_plain`` gave."""
        counts, large, fields, items = plain
        return cls(
            counts=Counter(counts),
            fields={name: cls.from_plain(inner) for name, inner in fields.items()},
            items=cls.from_plain(items) if items else None,
            large=large,
        )


def kinds_of(documents: Iterable[bytes | None], maps: Collection[Path] = ()) -> Kinds:
    """The kinds in documents of raw BSON; what is no document is left out: its row is set aside later."""
    found = Kinds()
    for raw in documents:
        document = document_of(raw)
        if document is not None:
            found.add(document, maps)
    return found
