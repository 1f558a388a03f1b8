"""The documentation as a site, opened from its files: no server, no network."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from harness.browser import browser, needs_chromium
from harness.project import ROOT
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, needs_chromium]

PATIENCE = 30


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [ROOT / ".venv/bin/mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(words, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.mark.parametrize("page", ["index.html", "how-to/add-a-table.html"])
def test_a_page_that_was_opened_from_a_file_can_be_searched(site: Path, page: str) -> None:
    with browser() as driver:
        driver.get((site / page).as_uri())
        driver.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("quarantine")
        found = WebDriverWait(driver, PATIENCE).until(
            lambda d: d.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
        )
        address = str(found[0].get_attribute("href"))
        assert address.startswith((site / "how-to").as_uri())
        loaded = "return performance.getEntriesByType('resource').map(one => one.name)"
        assert [one for one in driver.execute_script(loaded) if not one.startswith("file:")] == []
