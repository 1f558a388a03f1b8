"""Plug-ins are found by their names, and imported only when they are used."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from kedro_lakehouse import plugins
from kedro_lakehouse.config import DmsSourceConfig
from kedro_lakehouse.errors import UnknownPluginError, UnsupportedError

pytestmark = pytest.mark.unit

POINTS = EntryPoints(
    [
        EntryPoint("dms", "kedro_lakehouse.config:DmsSourceConfig", plugins.SOURCES),
        EntryPoint("dms", "kedro_lakehouse.config:DmsSourceConfig", plugins.SOURCES),
        EntryPoint("broken", "kedro_lakehouse.no_such_module:x", plugins.SOURCES),
        EntryPoint("twice", "a:b", plugins.EMBEDDERS),
        EntryPoint("twice", "c:d", plugins.EMBEDDERS),
    ]
)


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(plugins, "_installed", lambda group, _path: POINTS.select(group=group))


def test_plugins_are_listed_without_being_imported(installed):
    assert plugins.list_plugins(plugins.SOURCES) == {
        "broken": "kedro_lakehouse.no_such_module:x",
        "dms": "kedro_lakehouse.config:DmsSourceConfig",
    }


def test_plugin_is_loaded_by_its_name(installed):
    assert plugins.load_plugin(plugins.SOURCES, "dms") is DmsSourceConfig


def test_unknown_plugin_is_refused_with_the_known_ones(installed):
    with pytest.raises(UnknownPluginError, match=r"known: broken, dms\. Did you mean 'dms'\?"):
        plugins.load_plugin(plugins.SOURCES, "dmss")


def test_broken_and_ambiguous_plugins_are_refused(installed):
    with pytest.raises(UnsupportedError, match="cannot be imported"):
        plugins.load_plugin(plugins.SOURCES, "broken")
    with pytest.raises(UnsupportedError, match="a:b, c:d"):
        plugins.list_plugins(plugins.EMBEDDERS)
