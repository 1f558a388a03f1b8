"""Which changes of a declaration or of the incoming columns a table takes: section 10."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAMEWORK = {
    "_order", "_time", "_op", "_batch", "_position", "_order_from", "_order_to", "_order_last", "_deleted",
    "effective_from", "effective_to", "is_current",
}  # fmt: skip
_WIDER = {
    "tinyint": {"smallint", "int", "bigint"}, "smallint": {"int", "bigint"}, "int": {"bigint"},
    "float": {"double"}, "date": {"timestamp", "timestamp_ntz"},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a batch brings: the declared keys and tracked columns, its columns and its order, typed."""

    keys: tuple[str, ...]
    track: tuple[str, ...] | None
    types: Mapping[str, str]
    order: tuple[str, ...]


def refusal(before: Shape | None, after: Shape) -> str | None:  # noqa: PLR0911 - one line a code
    """The code with which a table refuses a batch of another shape than it has; None where it takes it."""
    if FRAMEWORK & set(after.types):
        return "RESERVED_COLUMN"
    if len({n.lower() for n in after.types}) < len(after.types):
        return "UNSUPPORTED"
    if not set(after.keys) <= set(after.types):
        return "MISSING_COLUMN"
    if before is None:
        return None
    if before.keys != after.keys or any(before.types[k] != after.types[k] for k in after.keys):
        return "KEY_SCHEMA_DRIFT"
    if before.order != after.order:
        return "SEQUENCE_TYPE_DRIFT"
    if before.track != after.track:
        return "TRACK_HISTORY_DRIFT"
    pairs = [(before.types[n], t) for n, t in after.types.items() if n in before.types]
    return None if all(fits(old, new) for old, new in pairs) else "INCOMPATIBLE_TYPE"


def merged(before: Shape, after: Shape) -> Shape:
    """The shape of a table after it took a batch."""
    types = dict(before.types)
    for name, kind in after.types.items():
        types[name] = kind if name not in types or wider(types[name], kind) else types[name]
    return Shape(keys=after.keys, track=after.track, types=types, order=after.order)


def fits(held: str, incoming: str) -> bool:
    """Whether values of an incoming type go into a column: as they are, or after it is widened."""
    return held == incoming or wider(held, incoming) or wider(incoming, held)


def wider(held: str, incoming: str) -> bool:
    """Whether a column is widened for an incoming type."""
    one, two = (re.fullmatch(r"decimal\((\d+),(\d+)\)", t) for t in (held, incoming))
    if one and two:
        return one[2] == two[2] and int(one[1]) < int(two[1])
    nested = held.partition("<")[0] == incoming.partition("<")[0] in ("struct", "array", "map")
    return incoming in _WIDER.get(held, ()) or (nested and held != incoming)
