"""The reference pages are what the code says."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parents[2] / "docs/generate_reference.py"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_reference", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_pages_are_up_to_date(generator):
    assert generator.stale() == [], "run .venv/bin/python docs/generate_reference.py"


def test_a_changed_page_is_told(generator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "FOLDER", tmp_path)
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    (tmp_path / "errors.md").write_text("old", encoding="utf-8")
    assert generator.main(["--check"]) == 1
    assert "errors.md" in capsys.readouterr().err
