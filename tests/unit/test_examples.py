"""Examples have the project's own datasets and settings, and what their pages show."""

import pytest
import yaml
from harness import pages
from harness.project import ROOT

pytestmark = pytest.mark.unit

SHARED = sorted(
    path
    for name in ("catalog.yml", "spark.yml", "parameters.yml", "logging.yml")
    for path in (ROOT / "examples").glob(f"*/conf/**/{name}")
)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_datasets_and_settings_are_the_projects_own(path):
    own = ROOT.joinpath(*path.relative_to(ROOT / "examples").parts[1:])
    assert path.read_text(encoding="utf-8") == own.read_text(encoding="utf-8")


def test_both_examples_are_looked_at():
    assert {path.relative_to(ROOT / "examples").parts[0] for path in SHARED} >= {"dimension", "sports"}


@pytest.mark.parametrize(
    ("page", "example"),
    [("tutorials/many-tables.md", "sports"), ("how-to/dimension-from-two-tables.md", "dimension")],
)
def test_what_the_page_shows_is_what_the_example_declares(page, example):
    declared = {}
    for name in ("sources", "tables"):
        declared |= yaml.safe_load((ROOT / f"examples/{example}/conf/base/{name}.yml").read_text())
    shown = [block for block in pages.blocks(ROOT / "docs" / page) if block.language == "yaml"]
    assert shown
    for block in shown:
        assert yaml.safe_load(block.text).items() <= declared.items(), block
