"""A real browser for tests of pages: Chromium without a window, where the machine has one."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
