"""What a collection of documents holds: the kinds of each field, and which fields have data for names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T

from kedro_lakehouse.config.documents import ITEMS, VALUES, DocumentRules, path_text
from kedro_lakehouse.decoders.bson.kinds import ARRAY, NULL, STRUCT, Kinds
from kedro_lakehouse.decoders.bson.types import families_of, is_mixed, main_family, type_of
from kedro_lakehouse.discovery.found import FoundColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kedro_lakehouse.config.documents import Path

_CODE: Final = re.compile(
    r"[a-z]{2,3}|[A-Z]{2,3}|[a-z]{2}[-_][A-Za-z]{2}|[0-9]+|[0-9a-f]{24}|\d{4}-\d\d(-\d\d)?"
)
_MANY: Final = 10
"""A struct with so many fields, of which most documents have few, has data for names."""
_SPARSE: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class FoundField:
    """A field at a path of documents: how many values of which kind it has, and in how many it is missing."""

    path: str
    type: str
    kinds: Mapping[str, int]
    missing: int
    mixed: bool


def fields_in(kinds: Kinds, rules: DocumentRules) -> list[FoundField]:
    """All fields of documents, outer ones before those in them."""
    return [
        FoundField(
            path=path_text(path),
            type=_shallow(below, rules, path),
            kinds=dict(sorted(below.counts.items(), key=lambda one: (-one[1], one[0]))),
            missing=_missing(path, below, around),
            mixed=is_mixed(below),
        )
        for path, below, around in kinds.walk()
    ]


def columns_in(fields: Collection[FoundField]) -> tuple[FoundColumn, ...]:
    """The fields as the columns of what was found."""
    return tuple(FoundColumn(name=field.path, type=field.type) for field in fields)


def _missing(path: Path, below: Kinds, around: Kinds) -> int:
    """In how many documents around it a field is not there; items and values of maps are never missing."""
    if path[-1] in (ITEMS, VALUES):
        return 0
    return around.counts[STRUCT] - sum(below.counts.values())


def _shallow(kinds: Kinds, rules: DocumentRules, path: Path) -> str:
    """The type of a field without what lies in it, so that a change within it is that of another path."""
    found = sorted(families_of(kinds))
    if len(found) > 1:
        return " or ".join(_word(family) for family in found)
    if found in ([STRUCT], [ARRAY]):
        return "map" if path in rules.maps else found[0]
    kind = type_of(kinds, rules, path)
    return NULL if isinstance(kind, T.NullType) else kind.simpleString()


def _word(family: str) -> str:
    return {"text": "string", "date": "timestamp"}.get(family, family)


def maps_in(kinds: Kinds, path: Path = ()) -> list[Path]:
    """The paths of structs whose fields have data for names, the outermost of each place.

    Their values are alike. And there are many names, of which most documents have few; or each value is a
    struct of its own, and its name is a code, such as `fra`.
    """
    found: list[Path] = []
    for name, inner in kinds.fields.items():
        place = (*path, name)
        if _is_map(inner):
            found.append(place)
        else:
            found += maps_in(inner, place)
    if kinds.items is not None:
        found += maps_in(kinds.items, (*path, ITEMS))
    return found


def _is_map(kinds: Kinds) -> bool:
    names, structs = list(kinds.fields), kinds.counts[STRUCT]
    if len(names) < 2 or main_family(kinds) != STRUCT:  # noqa: PLR2004 - of one value nothing is alike
        return False
    if len({_outline(inner) for inner in kinds.fields.values()}) > 1:
        return False
    there = sum(sum(inner.counts.values()) for inner in kinds.fields.values())
    if len(names) >= _MANY and there / (structs * len(names)) < _SPARSE:
        return True
    nested = all(main_family(inner) in (STRUCT, ARRAY) for inner in kinds.fields.values())
    return nested and all(_CODE.fullmatch(name) for name in names)


def _outline(kinds: Kinds) -> tuple[str | None, tuple[str, ...]]:
    """What two values must share to be of one map: their family, and the names of a struct's fields."""
    return main_family(kinds), tuple(sorted(kinds.fields))


def with_maps(kinds: Kinds, maps: Collection[Path], path: Path = ()) -> Kinds:
    """The kinds as they are if these structs are maps: all their values are counted together.

    Example:
        >>> found = Kinds()
        >>> found.add({"rate": {"eur": 1, "usd": 2.5}})
        >>> [path for path, _, _ in with_maps(found, {("rate",)}).walk()]
        [('rate',), ('rate', '{}')]
    """
    made = Kinds(counts=kinds.counts.copy(), large=kinds.large)
    for name, inner in kinds.fields.items():
        key = VALUES if path in maps else name
        changed = with_maps(inner, maps, (*path, key))
        if key in made.fields:
            made.fields[key].merge(changed)
        else:
            made.fields[key] = changed
    if kinds.items is not None:
        made.items = with_maps(kinds.items, maps, (*path, ITEMS))
    return made
