"""The reference pages are what the code says, and the pictures are what their script draws."""

import importlib.util
import sys
from pathlib import Path

import pytest

from kedro_lakehouse.config.base import Declaration

pytestmark = pytest.mark.unit

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(params=["generate_reference", "draw_pictures"])
def generator(request, monkeypatch):
    spec = importlib.util.spec_from_file_location(request.param, DOCS / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, request.param, module)  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def test_what_is_made_is_up_to_date(generator):
    assert generator.stale() == [], f"run .venv/bin/python docs/{generator.__name__}.py"


def test_a_changed_file_is_told(generator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "FOLDER", tmp_path)
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    changed = min(tmp_path.iterdir())
    changed.write_text("old", encoding="utf-8")
    assert generator.main(["--check"]) == 1
    assert changed.name in capsys.readouterr().err


def _models(cls):
    return {cls}.union(*(_models(sub) for sub in cls.__subclasses__()))


@pytest.mark.parametrize("generator", ["generate_reference"], indirect=True)
def test_every_key_has_a_description(generator):
    own = [model for model in _models(Declaration) if model.__module__.startswith("kedro_lakehouse.")]
    for model in own:
        assert set(model.model_fields) <= set(generator.meanings(model)), model.__name__
