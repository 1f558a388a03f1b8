"""Which type a field of documents gets, by the kinds of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T

from kedro_lakehouse.config.documents import ITEMS, VALUES
from kedro_lakehouse.decoders.bson.kinds import ARRAY, OTHER, STRUCT, Kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.documents import DocumentRules, Path

BETWEEN: Final = "__"
"""What joins the names of a flattened field."""
DECIMAL: Final = T.DecimalType(38, 18)
"""Decimals of BSON float; this one holds whole numbers of 64 bits beside 18 digits after the point."""
_FAMILIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int", "long", "double", "decimal"), "number"),
    **dict.fromkeys(("string", "objectid", "uuid", OTHER), "text"),
}
_FITTING: Final[Mapping[str, tuple[type[T.DataType], ...]]] = {
    "number": (T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType),
    "text": (T.StringType,),
    "boolean": (T.BooleanType,),
    "date": (T.TimestampType, T.TimestampNTZType),
    "binary": (T.BinaryType,),
    STRUCT: (T.StructType, T.MapType),
    ARRAY: (T.ArrayType,),
}
"""The types in which values of a family are stored as they are, or are set aside."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column made of documents: its name, where its values lie, and its type.

    ``any_text``: where the type is text, it holds values of any kind.
    """

    name: str
    path: Path
    type: T.DataType
    any_text: bool = False


def families_of(kinds: Kinds) -> dict[str, int]:
    """How many values are of each family of kinds that have a common type."""
    found: dict[str, int] = {}
    for kind, count in kinds.present.items():
        family = _FAMILIES.get(kind, kind)
        found[family] = found.get(family, 0) + count
    return found


def is_mixed(kinds: Kinds) -> bool:
    """Whether no type holds all values of a field exactly."""
    counts = kinds.counts
    inexact = counts["double"] > 0 and (kinds.large > 0 or counts["decimal"] > 0)
    return len(families_of(kinds)) > 1 or inexact


def main_family(kinds: Kinds) -> str | None:
    """The family of most values, None where there is none; of equally many the first by name."""
    found = families_of(kinds)
    return min(found, key=lambda family: (-found[family], family)) if found else None


def type_of(kinds: Kinds, rules: DocumentRules, path: Path = ()) -> T.DataType:
    """The type of a field; ``NullType`` where no value tells one: only nulls, empty arrays, empty structs."""
    if rules.as_text and is_mixed(kinds):
        return T.StringType()
    family = main_family(kinds)
    if family == "number":
        return _number(kinds)
    if family == ARRAY:
        element = type_of(kinds.items, rules, (*path, ITEMS)) if kinds.items else T.NullType()
        return T.NullType() if isinstance(element, T.NullType) else T.ArrayType(element)
    if family == STRUCT and path in rules.maps:
        below = kinds.fields.get(VALUES)
        value = type_of(below, rules, (*path, VALUES)) if below else T.NullType()
        return T.NullType() if isinstance(value, T.NullType) else T.MapType(T.StringType(), value)
    if family == STRUCT:
        typed = {name: type_of(inner, rules, (*path, name)) for name, inner in kinds.fields.items() if name}
        known = [T.StructField(name, t) for name, t in typed.items() if not isinstance(t, T.NullType)]
        return T.StructType(known) if known else T.NullType()
    simple: Mapping[str | None, T.DataType] = {
        "text": T.StringType(),
        "boolean": T.BooleanType(),
        "date": T.TimestampType(),
        "binary": T.BinaryType(),
    }
    return simple.get(family, T.NullType())


def _number(kinds: Kinds) -> T.DataType:
    counts = kinds.counts
    if counts["double"] > counts["decimal"]:
        return T.DoubleType()
    if counts["decimal"]:
        return DECIMAL
    return T.LongType() if counts["long"] else T.IntegerType()


def fits(kinds: Kinds, kind: T.DataType) -> bool:
    """Whether a type can hold values of the kind that most are."""
    family = main_family(kinds)
    return family is None or isinstance(kind, _FITTING[family])


def fields_of(kinds: Kinds, rules: DocumentRules) -> dict[str, tuple[Path, Kinds]]:
    """The columns of documents: where the values of each lie, and their kinds.

    Raises:
        ValueError: Two fields would give one column; its name is the error's text.
    """
    found: dict[str, tuple[Path, Kinds]] = {}
    for path, inner in _columns(kinds, rules, ()):
        name = BETWEEN.join(path)
        if name in found:
            raise ValueError(name)
        found[name] = path, inner
    return found


def _columns(kinds: Kinds, rules: DocumentRules, path: Path) -> list[tuple[Path, Kinds]]:
    found: list[tuple[Path, Kinds]] = []
    for name, inner in kinds.fields.items():
        if not name:  # no column can be without a name
            continue
        place = (*path, name)
        text = rules.as_text and is_mixed(inner)
        if rules.flatten and main_family(inner) == STRUCT and place not in rules.maps and not text:
            found += _columns(inner, rules, place)
        else:
            found.append((place, inner))
    return found
