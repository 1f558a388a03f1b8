"""Columns that hold personal data, told by their names and by what their values look like."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.column_search.words import name_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARE: Final = 0.5
_PATTERNS: Final = (
    ("e-mail addresses", re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", re.IGNORECASE)),
    ("telephone numbers", re.compile(r"(?:\+\d{1,3}[\s.-]?)?\(?\d{2,4}\)?[\s.-]\d{3,4}[\s.-]?\d{3,4}")),
    ("telephone numbers", re.compile(r"\+\d{8,15}")),
    ("US social security numbers", re.compile(r"\d{3}-\d{2}-\d{4}")),
    ("IBANs", re.compile(r"[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}(?:\s?[A-Z0-9]{1,3})?")),
)
_CARDS: Final = "card numbers"
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
    return personal_evidence(name, table, values) is not None


def personal_evidence(name: str, table: str, values: Sequence[str]) -> str | None:
    """Why a column seems to hold data about people, without any of its values; None if it does not.

    Example:
        >>> personal_evidence("contact", "shop", ["ann@mail.org", "none"])
        '1 of 2 values are e-mail addresses'
        >>> personal_evidence("birth_date", "person", [])
        'its name says so: birth date'
    """
    words = frozenset(name_words(name))
    if found := next((needed for needed in _NAMES if needed <= words), None):
        return f"its name says so: {' '.join(word for word in name_words(name) if word in found)}"
    if words & _OF_PEOPLE and frozenset(map(_singular, name_words(table))) & _PEOPLE:
        return "its name, in a table about people"
    kinds = Counter(filter(None, map(_kind_of, values)))
    if not values or sum(kinds.values()) < _SHARE * len(values):
        return None
    likeliest, _ = kinds.most_common(1)[0]
    return f"{sum(kinds.values())} of {len(values)} values are {likeliest}"


def _singular(word: str) -> str:
    return word.removesuffix("s") if word != "address" else word


def _kind_of(value: str) -> str | None:
    """What kind of personal data a value looks like; None if it looks like none."""
    text = value.strip()
    if _CARD.fullmatch(text) and _passes_luhn(text):
        return _CARDS
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(text)), None)


def _passes_luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0
