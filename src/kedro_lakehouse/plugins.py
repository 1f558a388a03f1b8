"""Entry-point groups, through which the built-ins and other distributions register alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Final, cast

from kedro_lakehouse.errors import UnknownPluginError, UnsupportedError, listed

SOURCES: Final = "kedro_lakehouse.sources"
CHANGE_DECODERS: Final = "kedro_lakehouse.change_decoders"
TABLE_FORMATS: Final = "kedro_lakehouse.table_formats"
EMBEDDERS: Final = "kedro_lakehouse.embedders"
VECTOR_INDEXES: Final = "kedro_lakehouse.vector_indexes"
NOTIFIERS: Final = "kedro_lakehouse.notifiers"
REGISTRIES: Final = "kedro_lakehouse.schema_registries"
GROUPS: Final = (SOURCES, CHANGE_DECODERS, TABLE_FORMATS, EMBEDDERS, VECTOR_INDEXES, NOTIFIERS, REGISTRIES)


def list_plugins(group: str) -> dict[str, str]:
    """Return the installed plug-ins of a group by name, each as ``module:attribute``; none is imported."""
    return {name: point.value for name, point in sorted(_points(group).items())}


def load_plugin(group: str, name: str) -> object:
    """Import the object that ``name`` is registered for in ``group``.

    Raises:
        UnknownPluginError: No installed distribution registers the name.
        UnsupportedError: Two distributions register it for different objects, or its import fails.
    """
    points = _points(group)
    if name not in points:
        raise UnknownPluginError(group=group, name=name, known=sorted(points))
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(
            what=f"The plug-in '{name}' of {group} ({points[name].value}) cannot be imported: {error}.",
            remedy="Install what it needs, or remove the distribution that registers it.",
        ) from error


class ConfigModels(Mapping[str, Any]):
    """The ``config_model`` of each plug-in of a group, by name; a plug-in is imported when its model is read.

    Raises:
        UnsupportedError: Two distributions register a name, or the plug-in cannot be imported.
    """

    def __init__(self, group: str) -> None:
        """Look up the names."""
        self._group, self._names = group, list_plugins(group)

    def __getitem__(self, name: str) -> Any:
        """The model of a plug-in."""
        if name not in self._names:
            raise KeyError(name)
        return cast("Any", load_plugin(self._group, name)).config_model

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names)


@cache
def _every(_path: tuple[str, ...]) -> Mapping[str, EntryPoints]:
    """The entry points on a path, by group: to read them opens a file of each distribution, some hundred."""
    found = entry_points()
    return {group: found.select(group=group) for group in GROUPS}


def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    return _every(path).get(group, EntryPoints())


def _points(group: str) -> dict[str, EntryPoint]:
    points: dict[str, EntryPoint] = {}
    for point in _installed(group, tuple(sys.path)):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            found = listed(sorted((first.value, point.value)))
            raise UnsupportedError(
                what=f"Two plug-ins of {group} are named '{point.name}': {found}.",
                remedy="Remove one of the two distributions: the name alone cannot tell them apart.",
            )
    return points
