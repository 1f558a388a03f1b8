"""The console as a user has it: the command, a real browser, names that mean harm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.browser import browser, needs_chromium
from harness.project import ROOT, TemporaryProject, write_text
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from selenium.webdriver import Chrome

pytestmark = [pytest.mark.e2e, needs_chromium]

KEDRO = ROOT / ".venv/bin/kedro"
HOSTILE = (
    "<img src=x onerror=document.title='owned'>",
    "**bold** [link](http://evil.example)",
    ":red[alarm] $x^2$",
)
VALUE = "<script>document.title='owned'</script>"
PATIENCE = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A project of files alone, indexed with the test embedder, and its console."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("console") / "project", {}, {})
    project.write("parameters", {"column_index": {"models": ["hash"]}}, env="local")
    header = ",".join(f'"{name}"' for name in HOSTILE)
    write_text(project.path / "files/evil.csv", f'{header}\n"{VALUE}",2,3\n"{VALUE}",5,9\n')
    write_text(project.path / "files/towns.csv", "town,inhabitants\nBonn,330\nKiel,250\nUlm,128\n")
    subprocess.run([KEDRO, "lakehouse", "search", "--add", "files"], cwd=project.path, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [KEDRO, "lakehouse", "console", "--no-browser", "--port", str(port)]
    console = subprocess.Popen(words, cwd=project.path, start_new_session=True)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(console.pid, signal.SIGTERM)
        console.wait(PATIENCE)


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Chrome]:
    with browser() as driver:
        waiting(driver, lambda _: answers(address))
        yield driver


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).status == 200  # noqa: S310
    except OSError:
        return False


def waiting(driver: Chrome, until: Callable[[Chrome], Any]) -> Any:
    """Wait for something, whatever the console draws anew while it is looked at."""
    ignored = [StaleElementReferenceException]
    return WebDriverWait(driver, PATIENCE, 0.2, ignored_exceptions=ignored).until(until)


def shows(driver: Chrome, *texts: str) -> None:
    """Wait for texts: in the page, or in the grid that a table of data is for those who cannot see it."""
    waiting(driver, lambda d: all(text in everything(d) for text in texts))


def everything(driver: Chrome) -> str:
    inputs = "[...document.querySelectorAll('input')].map(one => one.value).join('\\n')"
    return str(driver.execute_script(f"return document.body.textContent + '\\n' + {inputs}"))


def act(driver: Chrome, action: Callable[[Chrome], None]) -> None:
    waiting(driver, lambda d: action(d) is None)


def ask(driver: Chrome, payload: str) -> None:
    box = "input[aria-label='What are you looking for?']"
    act(driver, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(payload, Keys.ENTER))


def is_harmless(driver: Chrome) -> None:
    assert "owned" not in driver.title
    assert not driver.find_elements(By.CSS_SELECTOR, "img[src='x'], a[href*='evil.example'], .katex")
    strong = "return [...document.querySelectorAll('strong, b')].map(one => one.textContent)"
    assert "bold" not in driver.execute_script(strong)
    assert "Traceback" not in driver.execute_script("return document.body.textContent")


def test_a_phrase_finds_columns_and_says_why(page: Chrome, address: str) -> None:
    page.get(address)
    shows(page, "5 columns of 2 tables")
    ask(page, "town")
    shows(page, "files.towns", "town", "Why this one?", "3 rows, 3 distinct", "added to the score")
    is_harmless(page)
    act(page, lambda d: d.find_element(By.XPATH, "//button[contains(., 'Open its table')]").click())
    shows(page, "files.towns", "Versions of the column", "Commits of the table", "share without a value")


def test_hostile_names_and_values_are_text(page: Chrome, address: str) -> None:
    page.get(address)
    shows(page, "5 columns of 2 tables")
    ask(page, "img src")
    shows(page, f"files.evil.{HOSTILE[0]}", "Why this one?", VALUE)
    is_harmless(page)
    for path in ("table", "map"):
        page.get(f"{address}/{path}")
        shows(page, *((HOSTILE[0], HOSTILE[1], HOSTILE[2]) if path == "table" else ("5 columns",)))
        is_harmless(page)


def test_a_file_of_ones_own_finds_its_table(page: Chrome, address: str, tmp_path: Any) -> None:
    mine = write_text(tmp_path / "mine.csv", "place,people\nBonn,331\nUlm,129\n")
    page.get(address)
    shows(page, "5 columns of 2 tables")
    act(page, lambda d: d.find_element(By.CSS_SELECTOR, "input[type='file']").send_keys(str(mine)))
    shows(page, "Tables like it", "place = town", "Columns like its columns")


def test_health_is_shown_of_a_lake_without_tables(page: Chrome, address: str) -> None:
    page.get(f"{address}/health")
    shows(page, "Health of the lake", "quarantined events", "Nothing yet.")


def test_it_listens_on_this_machine_only(address: str, page: Chrome) -> None:
    port = int(address.rpartition(":")[2])
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = {
        row[1].partition(":")[0] for row in table if row[3] == "0A" and row[1].endswith(f":{port:04X}")
    }
    assert listening == {"0100007F"}
