"""Settings of tables that stand outside of tables.yml: a block a table, merged over that file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from kedro_lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECRET: Final = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # a key of AWS
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^/\s:@]+:[^/\s@]+@"  # an address with a password
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\."  # a signed token
)


def merged_over(
    tables: Mapping[str, Any], blocks: Mapping[str, str], *, store: str, below: str
) -> dict[str, Any]:
    """What tables.yml says, with the blocks of a store over it: a key that is null is removed.

    Args:
        tables: The tables of tables.yml, by ``namespace.table``.
        blocks: The text of each block, in YAML or JSON, by ``namespace/table``. A table that tables.yml lacks
            is added.
        store: What the blocks stand in, for messages.
        below: The path or prefix that their names have there.

    Raises:
        ConfigurationError: A name is not of that form, or its text is no mapping or holds a secret.
    """
    merged = dict(tables)
    for name, text in blocks.items():
        place = f"{below}{name}"
        if name.count("/") != 1:
            problem = "its name is not of the form <namespace>/<table>."
            raise ConfigurationError(
                file=store, key=place, problem=problem, remedy="Rename it, or put it elsewhere."
            )
        merged[name.replace("/", ".")] = _merged(
            merged.get(name.replace("/", ".")) or {}, _block(text, store, place)
        )
    return merged


def _block(text: str, store: str, place: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:  # it would show the text
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            file=store,
            key=place,
            problem="it holds no mapping of keys, in YAML or JSON.",
            remedy="Write the keys that the table would have in tables.yml.",
        )
    if any(_SECRET.search(value) for value in _texts(found)):
        raise ConfigurationError(
            file=store,
            key=place,
            problem="a value looks like a secret.",
            remedy="Name an entry of credentials.yml in its place; settings are printed and logged.",
        )
    return found


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another one, key by key, as environments are merged."""
    merged = dict(under)
    for key, value in over.items():
        beneath = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(beneath, dict) and isinstance(value, dict):
            merged[key] = _merged(beneath, value)
        else:
            merged[key] = value
    return merged
