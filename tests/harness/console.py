"""The console as a user starts it, and how its pages are looked at."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from harness.processes import free_port
from harness.project import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

    from kedro_lakehouse.console.links import TablePages

KEDRO = ROOT / ".venv/bin/kedro"
PATIENCE = 60


@dataclass(frozen=True)
class Console:
    """A console that runs: its project, its process, and the address that it printed."""

    project: Path
    pid: int
    printed: str

    @property
    def token(self) -> str:
        return self.printed.partition("token=")[2]

    @property
    def address(self) -> str:
        return self.printed.partition("/?")[0]

    def page(self, path: str = "") -> str:
        """The address of a page, with the token."""
        path, _, query = path.partition("?")
        return f"{self.address}/{path}?token={self.token}" + (f"&{query}" if query else "")


@contextmanager
def started(project: Path, *words: str, **env: str) -> Iterator[Console]:
    """The console of a project, until the block ends."""
    port = free_port()
    console = subprocess.Popen(
        [KEDRO, "lakehouse", "console", "--port", str(port), *words],
        cwd=project, env=environment() | env, start_new_session=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        printed = console.stdout.readline().strip()
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/\?token=[\w-]{{43}}", printed)
        yield Console(project, console.pid, printed)
    finally:
        os.killpg(console.pid, signal.SIGTERM)
        console.wait(PATIENCE)
        console.stdout.close()


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


_DRAWN = """
const app = document.querySelector("[data-testid='stApp']");
return app && app.dataset.testScriptState === "notRunning"
  && !document.querySelector("[data-testid='stSkeleton'], [data-stale='true']");
"""


def drawn(driver: Chrome) -> None:
    """Wait until a page is drawn to its end."""
    waiting(driver, lambda d: d.execute_script(_DRAWN))


def act(driver: Chrome, action: Callable[[Chrome], None]) -> None:
    waiting(driver, lambda d: action(d) is None)


def write(driver: Chrome, label: str, text: str) -> None:
    """Write a text into a field in the place of what is there, and enter it."""
    field = f":is(input, textarea)[aria-label='{label}']"
    area = waiting(driver, lambda d: d.find_elements(By.CSS_SELECTOR, field))[0].tag_name == "textarea"
    for keys in ((Keys.CONTROL, "a"), (Keys.DELETE,), (text,), (Keys.TAB if area else Keys.ENTER,)):
        act(driver, lambda d, keys=keys: d.find_element(By.CSS_SELECTOR, field).send_keys(*keys))


def press(driver: Chrome, label: str) -> None:
    act(driver, lambda d: d.find_element(By.XPATH, f"//button[contains(., '{label}')]").click())


def linked_pages() -> TablePages:
    """The pages that another one links, for a test of that one without a browser."""
    import streamlit as st

    from kedro_lakehouse.console.links import TablePages

    return TablePages(
        table=st.Page(lambda: None, title="Table", url_path="table"),
        rows=st.Page(lambda: None, title="Rows", url_path="rows"),
        sql=st.Page(lambda: None, title="SQL", url_path="sql"),
    )
