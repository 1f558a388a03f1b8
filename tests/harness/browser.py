"""A real browser for tests of pages: Chromium without a window, where the machine has one."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

CHROMIUM = os.environ.get("KEDRO_LAKEHOUSE_CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("KEDRO_LAKEHOUSE_CHROMEDRIVER") or shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="Chromium or chromedriver is not installed (Debian: chromium, chromium-driver)",
)


@contextmanager
def browser(width: int = 1400, height: int = 1000) -> Iterator[Chrome]:
    """Start Chromium, end it afterwards."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        f"window-size={width},{height}",
    ):
        options.add_argument(f"--{word}")
    driver = Chrome(options=options, service=ChromeService(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, width: int, height: int) -> None:
    """Give the page this size, also one that is narrower than a window may be."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


_SIDEWAYS = """
return [document.documentElement, document.querySelector("[data-testid='stMain']")]
  .filter(one => one && one.scrollWidth > one.clientWidth)
  .map(one => `${one.tagName}: ${one.scrollWidth} > ${one.clientWidth}`);
"""


def scrolled_sideways(driver: Chrome) -> list[str]:
    """The parts of the window that must be scrolled sideways to see the whole page."""
    return list(driver.execute_script(_SIDEWAYS))


def accessibility_findings(driver: Chrome) -> dict[str, list[str]]:
    """What axe-core finds wrong with the page: the rule, its impact before it, and the elements."""
    driver.execute_script(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = driver.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(arguments[arguments.length - 1])"
    )
    violations = found["violations"]
    return {f"{one['impact']}: {one['id']}": [node["html"] for node in one["nodes"]] for one in violations}
