"""How documents become rows: what sources.yml says of the documents of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from kedro_lakehouse.config.base import Name, refuse

DocumentShape = Literal["nested", "flatten", "raw"]
OnMixed = Literal["quarantine", "string"]
Path = tuple[str, ...]
"""A place in documents: names of fields, with `ITEMS` for the items of an array."""
ITEMS: Final = "[]"
VALUES: Final = "{}"
"""Stands in a path for the values of a map, whatever their keys."""
_PART: Final = re.compile(r"([^.\[\]]+)((?:\[\])*)")


def parse_path(text: str) -> Path:
    """The path that a text names.

    Example:
        >>> parse_path("name.native"), parse_path("hosts[].verified")
        (('name', 'native'), ('hosts', '[]', 'verified'))
    """
    parts: list[str] = []
    for part in text.split("."):
        found = _PART.fullmatch(part)
        if found is None:
            raise refuse(
                "the text is no path of a field",
                "Write for example currencies, or name.native, or items[].tags.",
            )
        parts += [found[1], *[ITEMS] * (len(found[2]) // len(ITEMS))]
    return tuple(parts)


def path_text(path: Path) -> str:
    """A path as a person writes it.

    Example:
        >>> path_text(("hosts", "[]", "verified"))
        'hosts[].verified'
    """
    return ".".join(path).replace(f".{ITEMS}", ITEMS).replace(f".{VALUES}", VALUES)


def _path(text: str) -> str:
    parse_path(text)
    return text


FieldPath = Annotated[Name, AfterValidator(_path)]


@dataclass(frozen=True, kw_only=True)
class DocumentRules:
    """How the documents of one table become rows.

    Attributes:
        flatten: The fields of structs are columns of their own, named `outer__inner`.
        as_text: A field whose values have no common type becomes text; else values of another type than
            most are set aside.
        maps: Paths whose fields are data, such as codes of countries: they become maps.
    """

    flatten: bool = False
    as_text: bool = False
    maps: frozenset[Path] = frozenset()
