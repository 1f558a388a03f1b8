"""The gallery: a picture of each page of the console at both widths, none of them heavy."""

import re
import struct

import pytest
from harness.project import ROOT, script

pytestmark = pytest.mark.unit

DOCS = ROOT / "docs"
SCRIPT = DOCS / "take_screenshots.py"
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def shots():
    return script(SCRIPT)


def test_each_page_has_a_picture_at_both_widths(shots):
    app = (ROOT / "src/kedro_lakehouse/console/app.py").read_text(encoding="utf-8")
    pages = {"", *re.findall(r'url_path="(\w+)"', app)}
    assert pages == {shot.path.partition("?")[0] for shot in shots.SHOTS}
    for shot in shots.SHOTS:
        for width, highest in shots.HEIGHTS.items():
            head = (DOCS / "images" / shot.file(width)).read_bytes()[:24]
            shown = struct.unpack(">II", head[16:])
            assert shown[0] == width
            assert shown[1] <= highest


def test_the_gallery_shows_every_picture_and_there_are_no_others(shots):
    taken = {shot.file(width) for shot in shots.SHOTS for width in shots.HEIGHTS}
    shown = set(re.findall(r"\(images/([\w-]+\.png)\)", (DOCS / "gallery.md").read_text(encoding="utf-8")))
    kept = {path.name for path in (DOCS / "images").glob("console-*.png")}
    assert taken == shown == kept
    assert sum((DOCS / "images" / name).stat().st_size for name in taken) <= MOST_BYTES
