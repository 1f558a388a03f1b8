"""Names and values as words: the same splitting for the index and for every query."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_MIN_FUSED: Final = 5

# What data models shorten everywhere; words of one trade are left to the model.
_SHORT: Final = {
    "acct": "account", "addr": "address", "amt": "amount", "avg": "average", "cat": "category",
    "cd": "code", "cnt": "count", "cntry": "country", "cust": "customer", "desc": "description",
    "dept": "department", "descr": "description", "dob": "date of birth", "dt": "date", "emp": "employee",
    "freq": "frequency", "fname": "first name", "hist": "history", "img": "image", "lang": "language",
    "lat": "latitude", "lname": "last name", "lng": "longitude", "loc": "location", "lon": "longitude",
    "max": "maximum", "min": "minimum", "mgr": "manager", "msg": "message", "nbr": "number",
    "num": "number", "org": "organization", "pct": "percent", "perc": "percent", "prod": "product",
    "pwd": "password", "qty": "quantity", "ref": "reference", "seq": "sequence", "st": "state",
    "std": "standard", "tel": "telephone", "temp": "temperature", "ts": "timestamp", "txn": "transaction",
    "usr": "user", "val": "value", "yr": "year", "zcode": "zip code", "zipcode": "zip code",
}  # fmt: skip
# Words that names end with, also where no separator stands before them.
_ENDINGS: Final = (
    "address", "amount", "code", "count", "country", "date", "district", "email", "group", "level",
    "location", "name", "number", "percent", "phone", "price", "quantity", "rate", "size", "status",
    "street", "time", "title", "total", "type", "value", "year",
)  # fmt: skip
_WHOLE: Final = frozenset(
    {"update", "candidate", "mandate", "validate", "barcode", "decode", "encode", "sometime", "lifetime",
     "prototype", "username", "surname", "rename", "discount", "account", "subtotal", "subtitle", "generate",
     "separate", "corporate", "operate", "moderate", "subgroup", "runtime", "overtime", "uptime", "nickname",
     "genotype", "phenotype", "subtype", "filename", "hostname", "passphrase", "encounter", "consolidate"}
)  # fmt: skip


@lru_cache(maxsize=200_000)
def name_words(name: str) -> tuple[str, ...]:
    """The lower-case words of a name, shortened ones written out.

    Example:
        >>> name_words("custAddr_postalcode2")
        ('customer', 'address', 'postal', 'code', '2')
    """
    found: list[str] = []
    for word in _WORD.findall(_CAMEL.sub(" ", name)):
        lower = word.lower()
        if lower in _SHORT:
            found += _SHORT[lower].split()
        else:
            found += [part for piece in _DIGITS.split(lower) for part in _unfused(piece)]
    return tuple(found)


def _unfused(word: str) -> list[str]:
    if word in _SHORT:
        return _SHORT[word].split()
    if len(word) >= _MIN_FUSED and word not in _WHOLE:
        for ending in _ENDINGS:
            if word.endswith(ending) and word != ending:
                return [word.removesuffix(ending), ending]
    return [word]


def expanded(name: str) -> str:
    """A name as a phrase; a name without any letter or digit stays as it is.

    Example:
        >>> expanded("PickupDt")
        'pickup date'
    """
    return " ".join(name_words(name)) or name.strip()


def trigrams(name: str) -> frozenset[str]:
    """The runs of three characters of a name's words, each word with its borders."""
    return frozenset(
        padded[place : place + 3]
        for word in name_words(name)
        for padded in (f" {word} ",)
        for place in range(max(1, len(padded) - 2))
    )


def value_words(value: str) -> list[str]:
    """The lower-case words of a value, in their order."""
    return [word.lower() for word in _WORD.findall(value)]
