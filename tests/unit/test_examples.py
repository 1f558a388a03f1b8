"""Examples have the project's own datasets and settings, and what their pages show."""

import pytest
from harness.project import ROOT

pytestmark = pytest.mark.unit

SHARED = sorted(
    path
    for name in ("catalog.yml", "spark.yml", "logging.yml")
    for path in (ROOT / "examples").glob(f"*/conf/**/{name}")
)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_datasets_and_settings_are_the_projects_own(path):
    own = ROOT.joinpath(*path.relative_to(ROOT / "examples").parts[1:])
    assert path.read_text(encoding="utf-8") == own.read_text(encoding="utf-8")


def test_both_examples_are_looked_at():
    assert {path.relative_to(ROOT / "examples").parts[0] for path in SHARED} >= {"dimension", "sports"}
