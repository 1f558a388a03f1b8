"""The console as a user has it: the command, a real browser, names that mean harm."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from dataclasses import dataclass
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

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_chromium]

KEDRO = ROOT / ".venv/bin/kedro"
HOSTILE = (
    "<img src=x onerror=document.title='owned'>",
    "**bold** [link](http://evil.example)",
    ":red[alarm] $x^2$",
)
VALUE = "<script>document.title='owned'</script>"
PATIENCE = 60
SOURCES = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op", "op_mapping": {"U": "upsert", "D": "delete"},
    }
}  # fmt: skip
TABLES = {"shop.item": {"source": "shop", "keys": ["id"], "order_by": ["n"], "history": True}}


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
        return f"{self.address}/{path}?token={self.token}"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A project of files alone, indexed with the test embedder, and its console."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("console") / "project", SOURCES, TABLES)
    lines = [f'U,7,"{VALUE}",1', 'U,7,"**later**",2', "U,8,plain,3", "X,9,unknown,4"]
    write_text(project.landing / "shop/item/1.csv", "\n".join(["op,id,name,n", *lines, ""]))
    project.run("ingestion", "cdc_merge", "scd2")
    project.write("parameters", {"column_index": {"models": ["hash"]}}, env="local")
    header = ",".join(f'"{name}"' for name in HOSTILE)
    write_text(project.path / "files/evil.csv", f'{header}\n"{VALUE}",2,3\n"{VALUE}",5,9\n')
    write_text(project.path / "files/towns.csv", "town,inhabitants\nBonn,330\nKiel,250\nUlm,128\n")
    subprocess.run([KEDRO, "lakehouse", "search", "--add", "files"], cwd=project.path, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # What the command has the desktop open, instead of the browser: it keeps its words and the page.
    opener = project.path / "opener.sh"
    opener.write_text(
        f'#!/bin/sh\necho "$@" > {project.path}/words\ncat "${{1#file://}}" > {project.path}/opened\n'
    )
    opener.chmod(0o700)
    words = [KEDRO, "lakehouse", "console", "--port", str(port)]
    env = os.environ | {"BROWSER": f"{opener} %s"}
    console = subprocess.Popen(
        words, cwd=project.path, env=env, start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    try:
        printed = console.stdout.readline().strip()
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/\?token=[\w-]{{43}}", printed)
        yield Console(project.path, console.pid, printed)
    finally:
        os.killpg(console.pid, signal.SIGTERM)
        console.wait(PATIENCE)
        console.stdout.close()


@pytest.fixture(scope="module")
def page(console: Console) -> Iterator[Chrome]:
    with browser() as driver:
        yield driver


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


def test_a_phrase_finds_columns_and_says_why(page: Chrome, console: Console) -> None:
    page.get(console.page())
    shows(page, "5 columns of 2 tables")
    ask(page, "town")
    shows(page, "files.towns", "town", "Why this one?", "3 rows, 3 distinct", "added to the score")
    is_harmless(page)
    act(page, lambda d: d.find_element(By.XPATH, "//button[contains(., 'Open its table')]").click())
    shows(page, "files.towns", "Versions of the column", "Commits of the table", "share without a value")


def test_hostile_names_and_values_are_text(page: Chrome, console: Console) -> None:
    page.get(console.page())
    shows(page, "5 columns of 2 tables")
    ask(page, "img src")
    shows(page, f"files.evil.{HOSTILE[0]}", "Why this one?", VALUE)
    is_harmless(page)
    for path in ("table", "map"):
        page.get(console.page(path))
        shows(page, *((HOSTILE[0], HOSTILE[1], HOSTILE[2]) if path == "table" else ("5 columns",)))
        is_harmless(page)


def test_a_file_of_ones_own_finds_its_table(page: Chrome, console: Console, tmp_path: Any) -> None:
    mine = write_text(tmp_path / "mine.csv", "place,people\nBonn,331\nUlm,129\n")
    page.get(console.page())
    shows(page, "5 columns of 2 tables")
    act(page, lambda d: d.find_element(By.CSS_SELECTOR, "input[type='file']").send_keys(str(mine)))
    shows(page, "Tables like it", "place = town", "Columns like its columns")


def enter(driver: Chrome, label: str, text: str) -> None:
    box = f"[aria-label='{label}']"
    act(driver, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(text, Keys.ENTER))


def test_rows_the_versions_of_a_key_and_the_quarantine_are_shown(page: Chrome, console: Console) -> None:
    page.get(console.page("rows"))
    shows(page, "shop.item", "plain", "**later**", "History of a key", "unknown_op", "1.csv")
    assert VALUE not in everything(page)  # no longer current
    assert "X,9,unknown,4" not in everything(page)
    enter(page, "id", "7")
    shows(page, VALUE, "effective_from")
    is_harmless(page)
    act(page, lambda d: d.find_element(By.XPATH, "//label[contains(., 'raw records')]").click())
    shows(page, "Raw record", "unknown")


def write_query(driver: Chrome, query: str) -> None:
    box = "textarea[aria-label='Query']"
    act(driver, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(Keys.CONTROL, "a"))
    act(driver, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(Keys.DELETE))
    act(driver, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(query))
    act(driver, lambda d: d.find_element(By.XPATH, "//button[contains(., 'Ask')]").click())


def test_a_query_is_answered_or_its_error_is_shown(page: Chrome, console: Console) -> None:
    page.get(console.page("sql"))
    for query, *texts in (
        ("select id, count(*) as versions from shop.item_history group by id", "versions"),
        ("select nme from shop.item", "This query has no answer", "name"),
        ("drop table shop.item", "This query has no answer"),
        ("select * from '/etc/passwd'", "This query has no answer"),
    ):
        write_query(page, query)
        shows(page, *texts)
    assert "root:" not in everything(page)


def test_health_opens_the_rows_of_a_table(page: Chrome, console: Console) -> None:
    page.get(console.page("health"))
    shows(page, "Health of the lake", "shop.item", "Last batches")
    act(page, lambda d: d.find_element(By.XPATH, "//button[contains(., 'Open')]").click())
    shows(page, "History of a key", "plain")


def test_it_listens_on_this_machine_only(console: Console, page: Chrome) -> None:
    port = int(console.address.rpartition(":")[2])
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = {
        row[1].partition(":")[0] for row in table if row[3] == "0A" and row[1].endswith(f":{port:04X}")
    }
    assert listening == {"0100007F"}


PAGES = ("", "search", "table", "rows", "sql", "map", "health")
REFUSED = "Open the address that `kedro lakehouse console` printed"


@pytest.mark.parametrize("query", ["", "?token=false%C3%BC"])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_shows_anything_without_the_token(
    page: Chrome, console: Console, path: str, query: str
) -> None:
    page.get(f"{console.address}/{path}{query}")
    shows(page, REFUSED)
    text = everything(page)
    assert not [
        word for word in ("files.towns", "columns of", "Health of", "Map of", "Hits", "Table") if word in text
    ]


def test_the_token_opens_every_page_and_leaves_the_address(page: Chrome, console: Console) -> None:
    headings = (
        "Find columns", "Find columns", "files.evil", "History of a key", "Ask in SQL", "Map of the columns",
        "Health of the lake",
    )  # fmt: skip
    for path, heading in zip(PAGES, headings, strict=True):
        page.get(console.page(path))
        shows(page, heading)
        waiting(page, lambda d: "token" not in d.current_url)


def test_a_visitor_stays_admitted_from_page_to_page(page: Chrome, console: Console) -> None:
    page.get(console.page())
    shows(page, "5 columns of 2 tables")
    act(page, lambda d: d.find_element(By.XPATH, "//a[contains(., 'Health')]").click())
    shows(page, "Health of the lake")
    page.get(f"{console.address}/health")  # another visit
    shows(page, REFUSED)


def test_the_token_may_be_entered(page: Chrome, console: Console) -> None:
    page.get(f"{console.address}/health")
    shows(page, REFUSED)
    box = "input[aria-label='Token']"
    act(page, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys("false", Keys.ENTER))
    shows(page, "This is not the token")
    act(page, lambda d: d.find_element(By.CSS_SELECTOR, box).clear())
    page.get(f"{console.address}/health")
    shows(page, REFUSED)
    act(page, lambda d: d.find_element(By.CSS_SELECTOR, box).send_keys(console.token, Keys.ENTER))
    shows(page, "Health of the lake")


def test_no_process_has_the_token_in_its_words(console: Console, page: Chrome) -> None:
    words = {p: p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()}
    assert any(b"streamlit" in told for told in words.values())
    assert not [p for p, told in words.items() if console.token.encode() in told]


def test_the_desktop_opens_a_page_of_the_owners_that_leads_there(console: Console, page: Chrome) -> None:
    words = (console.project / "words").read_text(encoding="utf-8")
    assert words.startswith("file://")
    assert console.token not in words
    assert f"url={console.printed}" in (console.project / "opened").read_text(encoding="utf-8")
    file = Path(words.strip().removeprefix("file://"))
    assert [oct(p.stat().st_mode & 0o777) for p in (file, file.parent)] == ["0o600", "0o700"]


def test_a_port_that_is_taken_is_told(console: Console) -> None:
    port = console.address.rpartition(":")[2]
    words = [KEDRO, "lakehouse", "console", "--no-browser", "--port", port]
    done = subprocess.run(words, cwd=console.project, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"Something else listens on port {port}" in done.stderr
    assert "token=" not in done.stdout


def test_a_server_that_was_given_no_token_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit.testing.v1 import AppTest

    app = AppTest.from_file(str(ROOT / "src/kedro_lakehouse/console/app.py"))
    for shown in (None, "", "x"):
        if shown is not None:
            app.query_params["token"] = shown
        app.run(timeout=PATIENCE)
        assert any(REFUSED in one.value for one in app.text)
        assert [one.value for one in app.title] == ["kedro-lakehouse"]


def test_titles_are_words_and_empty_cells_are_empty(page: Chrome, console: Console) -> None:
    page.get(console.page("table"))
    shows(page, "Distinct values", "Without a value", "Some values", "Nothing yet.")
    titles = page.find_elements(By.CSS_SELECTOR, "[data-testid='stDataFrame'] th")
    told = [str(one.get_attribute("textContent")) for one in titles]
    assert told
    assert not [title for title in told if "_" in title or title != title[:1].upper() + title[1:]]
    assert "None" not in everything(page)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_alone_frees_the_port(console: Console, number: signal.Signals) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [KEDRO, "lakehouse", "console", "--no-browser", "--port", str(port)]
    command = subprocess.Popen(words, cwd=console.project, start_new_session=True, stdout=subprocess.PIPE)
    try:
        assert f":{port}/?token=" in command.stdout.readline().decode()
        command.send_signal(number)
        assert command.wait(PATIENCE) == 0
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
    finally:
        command.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
