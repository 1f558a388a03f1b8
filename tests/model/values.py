"""Values in one total order, the one of the contract's section 3; equal ranks are equal values."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class MapValue(dict[Any, Any]):
    """A map, which is compared as its sorted entries; a plain dict is a struct."""


def rank(value: Any) -> tuple[Any, ...]:
    """What a value is compared by: nulls lowest, text by its bytes, times by their instant."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - only NaN differs from itself
        return (1, 1, 0.0)
    return (1, 0, _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, MapValue):
        return tuple(sorted((rank(k), rank(v)) for k, v in value.items()))
    if isinstance(value, dict):
        fields = [rank(v) for v in value.values()]
        while fields and fields[-1] == rank(None):
            fields.pop()  # a field that came later is null in a row from before
        return tuple(fields)
    if isinstance(value, (list, tuple)):
        return tuple(rank(v) for v in value)
    if isinstance(value, dt.datetime):
        zone_less = value.tzinfo is None
        return value.replace(tzinfo=dt.UTC) if zone_less else value
    return value


def ranks(values: Iterable[Any]) -> tuple[Any, ...]:
    """The ranks of several values, compared one after the other."""
    return tuple(rank(v) for v in values)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal; null equals null."""
    return rank(left) == rank(right)


def same_on(left: Mapping[str, Any], right: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether two rows are equal on some columns, null-safe and column by column."""
    return all(same(left[n], right[n]) for n in names)
