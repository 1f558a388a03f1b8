"""JSON objects that this process reads without Spark: only those of which it is known what Spark reads.

At anything else (what is no object, a name that comes twice, half a character, our own mark), a
``NotPlainError`` leaves the text to Spark, which knows what it is.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Spark's JSON functions read numbers with a fraction as doubles, which loses digits. So before parsing such
# numbers are made strings that start with this mark (a private-use character; no other text starts with it).
MARK: Final = "\ue000#"
_LONGEST_NAME: Final = 1_000
_LONGEST_NUMBER: Final = 100
_DIGITS: Final = 18


class NotPlainError(ValueError):
    """A text of which only Spark is known to tell the meaning."""


class Number(str):
    """A number, as the text that was sent."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it has neither a fraction nor an exponent."""
        return self.isdigit() or self[1:].isdigit()


def object_of(text: str | None, *, digits: int = _DIGITS) -> dict[str, Any]:
    """The fields of an object: a string, a ``Number``, an object as a dict, an array as a list, or None.

    True and false are strings, too.

    Args:
        text: The object.
        digits: So many digits has a whole number at most.

    Raises:
        NotPlainError: It is no object, or Spark may read it in another way.
    """
    if text is None or MARK[0] in text:
        raise NotPlainError
    try:
        found = _decoder(digits).decode(text)
    except (ValueError, RecursionError) as error:
        raise NotPlainError from error
    if not isinstance(found, dict):
        raise NotPlainError
    return found


@cache
def _decoder(digits: int) -> json.JSONDecoder:
    def whole(text: str) -> Number:
        if len(text.lstrip("-")) > digits or text == "-0":
            raise NotPlainError
        return Number(text)

    return json.JSONDecoder(
        object_pairs_hook=_object, parse_int=whole, parse_float=_fraction, parse_constant=_refused
    )


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = {_sound(name): _value(value) for name, value in pairs}
    if len(found) < len(pairs) or any(len(name) > _LONGEST_NAME for name in found):
        raise NotPlainError
    return found


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _sound(value) if type(value) is str else value


def _sound(text: str) -> str:
    """Text without half a character, and without our own mark."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotPlainError from error
    if MARK[0] in text:
        raise NotPlainError
    return text


def _fraction(text: str) -> Number:
    if len(text) > _LONGEST_NUMBER:
        raise NotPlainError
    return Number(text)


def _refused(text: str) -> Any:
    raise NotPlainError(text)
