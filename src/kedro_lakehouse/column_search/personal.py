"""Columns that hold personal data, told by their names and by what their values look like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.column_search.words import name_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARE: Final = 0.5
_PATTERNS: Final = (
    re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", re.IGNORECASE),  # e-mail
    re.compile(r"(?:\+\d{1,3}[\s.-]?)?\(?\d{2,4}\)?[\s.-]\d{3,4}[\s.-]?\d{3,4}"),  # telephone
    re.compile(r"\+\d{8,15}"),
    re.compile(r"\d{3}-\d{2}-\d{4}"),  # US social security
    re.compile(r"[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}(?:\s?[A-Z0-9]{1,3})?"),  # IBAN
)
_CARD: Final = re.compile(r"(?:\d[ -]?){12,18}\d")
# All words of one set in a name tell of a person.
_NAMES: Final = tuple(
    frozenset(words.split())
    for words in (
        "email", "e mail", "phone", "telephone", "mobile number", "ssn", "social security", "passport",
        "iban", "first name", "last name", "full name", "middle name", "maiden name", "family name",
        "given name", "surname", "date of birth", "birth date", "birthday", "street address",
        "home address", "ip address", "credit card", "card number", "password", "tax id", "username",
    )
)  # fmt: skip
_PEOPLE: Final = frozenset(
    {"person", "people", "customer", "client", "user", "patient", "employee", "contact", "member",
     "subscriber", "player", "passenger", "guest", "student", "teacher", "driver", "owner"}
)  # fmt: skip
_OF_PEOPLE: Final = frozenset({"name", "address", "street", "display"})


def looks_personal(name: str, table: str, values: Sequence[str]) -> bool:
    """Tell whether a column seems to hold data about people: declare it where this cannot know.

    Example:
        >>> looks_personal("contact", "shop", ["ann@mail.org"]), looks_personal("name", "person", [])
        (True, True)
    """
    words = frozenset(name_words(name))
    if any(needed <= words for needed in _NAMES):
        return True
    if words & _OF_PEOPLE and frozenset(map(_singular, name_words(table))) & _PEOPLE:
        return True
    return bool(values) and sum(map(_is_personal, values)) >= _SHARE * len(values)


def _singular(word: str) -> str:
    return word.removesuffix("s") if word != "address" else word


def _is_personal(value: str) -> bool:
    text = value.strip()
    is_card = bool(_CARD.fullmatch(text)) and _passes_luhn(text)
    return is_card or any(pattern.fullmatch(text) for pattern in _PATTERNS)


def _passes_luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0
