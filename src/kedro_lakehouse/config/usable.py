"""What of configuration files can be used where parts of them cannot be read, for a look at all mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kedro_lakehouse.config.files import leaves, readable_part

if TYPE_CHECKING:
    from pathlib import Path

    from kedro_lakehouse.config.files import ConfigurationFiles

_CANNOT: Final = (yaml.YAMLError, OmegaConfBaseException, ValueError)


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
    try:
        found = OmegaConf.create(readable_part(text))
    except _CANNOT:
        return OmegaConf.create({})
    return found if OmegaConf.is_dict(found) else OmegaConf.create({})


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
