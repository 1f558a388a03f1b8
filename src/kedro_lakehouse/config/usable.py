"""What of configuration files can be used where parts of them cannot be read, for a look at all mistakes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kedro_lakehouse.config.files import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kedro_lakehouse.config.files import ConfigurationFiles

_BEGIN: Final = re.compile(r"^(?=[^\s#])", re.MULTILINE)
_CANNOT: Final = (yaml.YAMLError, OmegaConfBaseException, ValueError)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    r"""The parts of a text that begin without indentation, each with the number of lines before it.

    Example:
        >>> list(blocks("a:\n  b: 1\nc: 2\n"))
        [(0, 'a:\n  b: 1\n'), (2, 'c: 2\n')]
    """
    lines = 0
    for part in _BEGIN.split(text):
        if part.strip():
            yield lines, part
        lines += part.count("\n")


def usable(files: ConfigurationFiles, kind: str) -> dict[str, Any]:
    """What can be read of the files of a kind, merged as Kedro does; what cannot be resolved is None."""
    merged: dict[str, Any] = {}
    for environment in reversed(files.environments):
        folder = files.folder / environment
        parts = [_readable(file) for file in files.of_kind(kind) if file.is_relative_to(folder)]
        if parts:
            found = _resolved(OmegaConf.unsafe_merge(*parts))
            merged = merged | found if kind == "credentials" else _merged(merged, found)
    return {key: value for key, value in merged.items() if not str(key).startswith("_")}


def _readable(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return OmegaConf.create({})
    found = _created(text)
    if found is None:
        parts = [one for _, part in blocks(text) if (one := _created(part)) is not None]
        found = OmegaConf.unsafe_merge(OmegaConf.create({}), *parts)
    return found


def _created(text: str) -> Any:
    """The mapping that a text holds; None if it is none."""
    try:
        found = OmegaConf.create(text)
    except _CANNOT:
        return None
    return found if OmegaConf.is_dict(found) else None


def _resolved(config: Any) -> dict[str, Any]:
    for key in leaves(OmegaConf.to_container(config, resolve=False)):
        try:
            OmegaConf.select(config, key, throw_on_resolution_failure=True)
        except _CANNOT:
            OmegaConf.update(config, key, None)
    return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        known = found.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        found[key] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return found
