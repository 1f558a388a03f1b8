"""The console as a user has it: the command, a real browser, names that mean harm."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.browser import accessibility_findings, browser, needs_chromium, resize, scrolled_sideways
from harness.console import (
    KEDRO,
    PATIENCE,
    Console,
    act,
    drawn,
    everything,
    press,
    shows,
    started,
    waiting,
    write,
)
from harness.processes import free_port
from harness.project import ROOT, TemporaryProject, write_text
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kedro_lakehouse.cli.ports import is_taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_chromium]

HOSTILE = (
    "<img src=x onerror=document.title='owned'>",
    "**bold** [link](http://evil.example)",
    ":red[alarm] $x^2$",
)
VALUE = "<script>document.title='owned'</script>"
SOURCES = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op", "op_mapping": {"U": "upsert", "D": "delete"},
    }
}  # fmt: skip
DERIVED = {
    "shop.total": {
        "keys": ["id"],
        "derive": {"inputs": {"item": "shop.item"}, "sql": "select id, sum(n) as n from item group by id"},
    }
}
TABLES = {"shop.item": {"source": "shop", "keys": ["id"], "order_by": ["n"], "history": True}}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A project of files alone, indexed with the test embedder, and its console."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("console") / "project", SOURCES, TABLES)
    lines = [f'U,7,"{VALUE}",1', 'U,7,"**later**",2', "U,8,plain,3", "X,9,unknown,4"]
    write_text(project.landing / "shop/item/1.csv", "\n".join(["op,id,name,n", *lines, ""]))
    project.run("ingestion", "cdc_merge", "scd2")
    project.declare(SOURCES, TABLES | DERIVED)  # after the run: nothing of it is there
    project.write("parameters", {"column_index": {"models": ["hash"]}}, env="local")
    header = ",".join(f'"{name}"' for name in HOSTILE)
    write_text(project.path / "files/evil.csv", f'{header}\n"{VALUE}",2,3\n"{VALUE}",5,9\n')
    write_text(project.path / "files/towns.csv", "town,inhabitants\nBonn,330\nKiel,250\nUlm,128\n")
    subprocess.run([KEDRO, "lakehouse", "search", "--add", "files"], cwd=project.path, check=True)
    # What the command has the desktop open, instead of the browser: it keeps its words and the page.
    opener = project.path / "opener.sh"
    opener.write_text(
        f'#!/bin/sh\necho "$@" > {project.path}/words\ncat "${{1#file://}}" > {project.path}/opened\n'
    )
    opener.chmod(0o700)
    with started(project.path, BROWSER=f"{opener} %s") as console:
        yield console


@pytest.fixture(scope="module")
def page(console: Console) -> Iterator[Chrome]:
    with browser() as driver:
        yield driver


def ask(driver: Chrome, payload: str) -> None:
    write(driver, "What are you looking for?", payload)


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
    follow(page, "Open its table")
    shows(page, "files.towns", "Versions of the column", "Bonn")
    assert page.current_url.endswith("table?table=files.towns&column=town")


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


def test_rows_the_versions_of_a_key_and_the_quarantine_are_shown(page: Chrome, console: Console) -> None:
    page.get(console.page("rows"))
    shows(page, "shop.item", "plain", "**later**", "History of a key", "unknown_op", "1.csv")
    assert VALUE not in everything(page)  # no longer current
    assert "X,9,unknown,4" not in everything(page)
    write(page, "id", "7")
    shows(page, VALUE, "effective_from")
    is_harmless(page)
    act(page, lambda d: d.find_element(By.XPATH, "//label[contains(., 'raw records')]").click())
    shows(page, "Raw record", "unknown")


def test_a_query_is_answered_or_its_error_is_shown(page: Chrome, console: Console) -> None:
    page.get(console.page("sql"))
    for query, *texts in (
        ("select id, count(*) as versions from shop.item_history group by id", "versions"),
        ("select nme from shop.item", "This query has no answer", "name"),
        ("drop table shop.item", "This query has no answer"),
        ("select * from '/etc/passwd'", "This query has no answer"),
    ):
        write(page, "Query", query)
        press(page, "Ask")
        shows(page, *texts)
    assert "root:" not in everything(page)


def follow(driver: Chrome, label: str) -> None:
    """Go where a link leads, by the keyboard."""
    link = f"//a[@data-testid='stPageLink-NavLink'][.//p[normalize-space()='{label}']]"
    act(driver, lambda d: d.find_element(By.XPATH, link).send_keys(Keys.ENTER))


def test_health_links_the_pages_of_a_table_and_these_each_other(page: Chrome, console: Console) -> None:
    page.get(console.page("health"))
    shows(page, "Health of the lake", "shop.item", "Last batches")
    for label, *texts in (
        ("Its rows", "History of a key", "plain"),
        ("Its page", "Lineage", "Commits of the table"),
        ("Ask for it in SQL", "select * from shop.item"),
    ):
        follow(page, label)
        shows(page, *texts)
    press(page, "Ask")
    shows(page, "**later**", "Asked of:")
    is_harmless(page)
    follow(page, "shop.item")
    shows(page, "Commits of the table")


def test_a_click_on_a_name_in_a_grid_opens_its_table(page: Chrome, console: Console) -> None:
    page.get(console.page("health"))
    shows(page, "Health of the lake", "shop.item")
    drawn(page)

    def click(driver: Chrome) -> bool:
        grid = driver.find_element(By.CSS_SELECTOR, "[data-testid='stDataFrame'] canvas")
        left, top = -grid.size["width"] / 2, -grid.size["height"] / 2
        ActionChains(driver).move_to_element_with_offset(grid, left + 30, top + 50).click().perform()
        return "/table?table=shop." in driver.current_url

    waiting(page, click)
    shows(page, "Commits of the table")


def test_a_table_leads_to_those_it_is_made_from_before_anything_of_it_is_there(
    page: Chrome, console: Console
) -> None:
    page.get(console.page("table?table=shop.total"))
    shows(page, "empty", "None of its columns is in the index", "Made from:", "Nothing yet.")
    follow(page, "shop.item")
    shows(page, "Made from it:", "fresh", "Versions opened")
    waiting(page, lambda d: d.current_url.endswith("table?table=shop.item"))
    page.back()
    shows(page, "None of its columns is in the index")


def test_the_address_of_a_table_asks_for_the_token_and_then_shows_it(page: Chrome, console: Console) -> None:
    page.get(f"{console.address}/table?table=files.towns&column=inhabitants")
    shows(page, REFUSED)
    write(page, "Token", console.token)
    shows(page, "files/towns.csv", "inhabitants", "330")


def test_the_map_names_columns_and_groups_and_a_click_leads_to_the_table(
    page: Chrome, console: Console
) -> None:
    page.get(console.page("map"))
    shows(page, "Groups", *HOSTILE, "inhabitants")
    drawn(page)
    names = {str(one.get_attribute("aria-label")) for one in points_of(page)}
    assert names == {*HOSTILE, "town", "inhabitants"}
    for name in names:
        waiting(page, lambda d, name=name: name in tooltip_of(d, point(d, name)))
        is_harmless(page)
    act(page, lambda d: ActionChains(d).move_to_element(point(d, HOSTILE[0])).click().perform())
    shows(page, f"files.evil.{HOSTILE[0]}", "Open its table")
    is_harmless(page)
    follow(page, "Open its table")
    shows(page, "files/evil.csv", "Versions of the column")
    is_harmless(page)


def points_of(driver: Chrome) -> list[WebElement]:
    return driver.find_elements(By.CSS_SELECTOR, ".vega-embed path[aria-roledescription='circle']")


def tooltip_of(driver: Chrome, shown: WebElement) -> str:
    """Move the mouse away and to a point: the map may have been drawn anew beneath a mouse that rests."""
    ActionChains(driver).move_by_offset(1, 1).move_to_element(shown).perform()
    return driver.find_element(By.ID, "vg-tooltip-element").text


def point(driver: Chrome, name: str) -> WebElement:
    return next(one for one in points_of(driver) if one.get_attribute("aria-label") == name)


def test_the_map_of_one_table_links_it(page: Chrome, console: Console) -> None:
    page.get(console.page("map?mapped=files.towns"))
    shows(page, "2 columns.", "Open:")
    follow(page, "files.towns")
    shows(page, "files/towns.csv")


def test_it_listens_on_this_machine_only(console: Console, page: Chrome) -> None:
    port = int(console.address.rpartition(":")[2])
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = {
        row[1].partition(":")[0] for row in table if row[3] == "0A" and row[1].endswith(f":{port:04X}")
    }
    assert listening == {"0100007F"}


PAGES = ("", "table", "rows", "sql", "map", "health")
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
        "Find columns", "files.evil", "History of a key", "Ask in SQL", "Map of the columns",
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
    page.get(console.page("table?table=files.evil"))
    shows(page, "Distinct values", "Without a value", "Some values", "Rows without a value")
    titles = page.find_elements(By.CSS_SELECTOR, "[data-testid='stDataFrame'] th")
    told = [str(one.get_attribute("textContent")) for one in titles]
    assert told
    assert not [title for title in told if "_" in title or title != title[:1].upper() + title[1:]]
    assert "None" not in everything(page)


def test_the_label_of_a_link_shows_a_hostile_name_as_it_is(page: Chrome, tmp_path: Path) -> None:
    lines = [
        "import streamlit as st",
        "from kedro_lakehouse.console.links import as_label",
        f"for name in {(*HOSTILE, '_a_ `b` ~~c~~ # d')!r}:",
        "    st.page_link('http://127.0.0.1', label=as_label(name))",
    ]
    app, port = write_text(tmp_path / "app.py", "\n".join(lines)), free_port()
    words = [KEDRO.with_name("streamlit"), "run", app, f"--server.port={port}", "--server.headless=true"]
    server = subprocess.Popen(
        [*words, "--server.address=127.0.0.1", "--browser.gatherUsageStats=false"], stdout=subprocess.DEVNULL
    )
    try:
        waiting(page, lambda _: is_taken(port))
        page.get(f"http://127.0.0.1:{port}")
        shows(page, *HOSTILE, "_a_ `b` ~~c~~ # d")
        is_harmless(page)
    finally:
        server.terminate()
        server.wait(PATIENCE)


LAST_SHOWN = {"table?table=shop.item": "Commits of", "map": "Groups", "health": "Last batches"}


def open_page(page: Chrome, console: Console, path: str) -> None:
    """A page with what a user sees there, or the one for those without the token."""
    page.get(console.address if path == "without a token" else console.page(path))
    if not path:
        write(page, "What are you looking for?", "town")
        shows(page, "added to the score")
    elif path.startswith("rows"):
        write(page, "id", "7")
        shows(page, "effective_from")
    elif path == "sql":
        write(page, "Query", "select * from shop.item_history")
        press(page, "Ask")
        shows(page, "Asked of:")
    else:
        shows(page, LAST_SHOWN.get(path, REFUSED))
    drawn(page)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "path", ["without a token", "", "table?table=shop.item", "rows", "sql", "map", "health"]
)
def test_pages_can_be_used_by_everyone_on_wide_and_narrow_screens(
    page: Chrome, console: Console, path: str, width: int
) -> None:
    resize(page, width, 1000)
    open_page(page, console, path)
    # The role of Streamlit's own place for dropped files is a minor finding.
    assert {k: v for k, v in accessibility_findings(page).items() if not k.startswith("minor")} == {}
    assert scrolled_sideways(page) == []


def test_what_is_wrong_with_a_page_is_found(page: Chrome) -> None:
    resize(page, 390, 1000)
    page.get("about:blank")
    faults = "<h1>One</h1><h3 style='color: #ccc'>Pale</h3><img src=x><div style='width: 500px'>C</div>"
    page.execute_script("document.body.innerHTML = arguments[0]", faults)
    assert {"critical: image-alt", "serious: color-contrast", "moderate: heading-order"} <= {
        *accessibility_findings(page)
    }
    assert scrolled_sideways(page) == ["HTML: 508 > 390"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_alone_frees_the_port(console: Console, number: signal.Signals) -> None:
    port = free_port()
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
