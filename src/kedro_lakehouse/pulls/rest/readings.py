"""Readings of all pages: once, or twice with a comparison where pages move while they are read."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.pulls.errors import UnstableFault
from kedro_lakehouse.pulls.protocol import Chunk
from kedro_lakehouse.pulls.rest.paging import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.pulls.rest.paging import Position

    PagesFrom = Callable[[Position], Iterator[tuple[Sequence[bytes], Position]]]
    """The records of each page from a position on, with the position after it."""

_NOTHING: Final = ""
"""The digest of no records."""


def read_once(pages: PagesFrom, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    """The pages after a state, as they come."""
    at: Position = state or {}
    if at == END:
        return
    for records, following in pages(at):
        yield Chunk(rows=records, state=following)


def read_twice(pages: PagesFrom, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    """The pages of the first reading, then chunks without rows while everything is read again.

    A state holds the position, and a digest of all records of each reading so far; so either reading goes
    on where it was stopped.

    Raises:
        UnstableFault: The second reading gave other records, or the same in another order.
    """
    held = state or {"at": {}, "first": _NOTHING}
    if "again" not in held:
        for records, following in _from(pages, held["at"]):
            held = {"at": following, "first": _digest(held["first"], records)}
            if following == END:
                held = {"at": {}, "first": held["first"], "again": _NOTHING}
            yield Chunk(rows=records, state=held)
    for records, following in _from(pages, held["at"]):
        held = {**held, "at": following, "again": _digest(held["again"], records)}
        if following == END and held["again"] != held["first"]:
            break
        yield Chunk(rows=[], state=held)
    if held["again"] != held["first"]:
        raise UnstableFault(
            "Two readings of all pages differ: rows came, went or changed meanwhile",
            "Pull when the source is quiet, or page by cursor.",
        )


def _from(pages: PagesFrom, at: Position) -> Iterator[tuple[Sequence[bytes], Position]]:
    return iter(()) if at == END else pages(at)


def _digest(before: str, records: Sequence[bytes]) -> str:
    """The digest of records that follow those of an earlier digest, however they are divided into pages."""
    for record in records:
        before = blake2b(before.encode() + record, digest_size=16).hexdigest()
    return before
