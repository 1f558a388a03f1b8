"""Take the pictures of the console: ``.venv/bin/python docs/take_screenshots.py [NAME ...]``.

They show the lake that ``make run`` and ``make demo-lake`` make of the bundled data, each page on a wide and
on a narrow screen. Chromium and chromedriver must be installed.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
FOLDER: Final = ROOT / "docs" / "images"
HEIGHTS: Final = {1280: 1500, 390: 1900}
"""The widths of the screens, and how much of a long page is shown."""
FROM_THE_TOP: Final = """
document.activeElement.blur();
document.querySelector("[data-testid='stMain']").scrollTop = 0;
"""
QUERY: Final = (
    'select "GICS Sector", count(*) as companies from sp500.constituents group by 1 order by 2 desc limit 8'
)


class Shot(NamedTuple):
    """A picture of a page: its name, the page's address, what is done there, what is then shown."""

    name: str
    path: str
    shows: str
    act: Callable[[Chrome], None] | None = None

    def file(self, width: int) -> str:
        """The name of its file for a screen of this width."""
        return f"console-{self.name}{'' if width == max(HEIGHTS) else f'-{width}'}.png"


def _ask(driver: Chrome) -> None:
    from harness.console import write

    write(driver, "What are you looking for?", "where do customers live")


def _enter_key(driver: Chrome) -> None:
    from harness.console import write

    write(driver, "Symbol", "AAPL")


def _query(driver: Chrome) -> None:
    from harness.console import press, write

    write(driver, "Query", QUERY)
    press(driver, "Ask")


SHOTS: Final = (
    Shot("health", "health", "Last batches"),
    Shot("search", "", "added to the score", _ask),
    Shot("table", "table?table=sp500.constituents&column=GICS+Sector", "Commits of the table"),
    Shot("rows", "rows?table=sp500.constituents", "effective_from", _enter_key),
    Shot("sql", "sql", "Asked of", _query),
    Shot("map", "map", "Near ones mean the like"),
    Shot("map-of-a-table", "map?mapped=files.crm_customers", "Near ones mean the like"),
)


def take(names: list[str]) -> None:
    """Take these pictures; of no names, all."""
    from harness.browser import browser, resize
    from harness.console import drawn, shows, started

    with started(ROOT, "--no-browser") as console, browser() as driver:
        for shot in SHOTS:
            for width, most in HEIGHTS.items():
                if names and shot.name not in names:
                    continue
                resize(driver, width, 900)
                driver.get(console.page(shot.path))
                drawn(driver)
                if shot.act is not None:
                    shot.act(driver)
                shows(driver, shot.shows)
                drawn(driver)
                resize(driver, width, min(most, height_of(driver)))
                driver.execute_script(FROM_THE_TOP)
                drawn(driver)
                (FOLDER / shot.file(width)).write_bytes(smaller(driver.get_screenshot_as_png()))


def height_of(driver: Chrome) -> int:
    """How high a page is, which scrolls inside its window."""
    return int(
        driver.execute_script(
            "return document.querySelector(\"[data-testid='stMainBlockContainer']\").scrollHeight"
        )
    )


def smaller(png: bytes) -> bytes:
    """The picture with fewer colours: a page of text has few."""
    from PIL import Image

    kept = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(kept, "PNG", optimize=True)
    return kept.getvalue()


def main() -> None:
    """Take the pictures that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *[shot.name for shot in SHOTS]], metavar="NAME")
    take(parser.parse_args().names)


if __name__ == "__main__":
    main()
