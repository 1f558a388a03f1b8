"""The search, the console, and every other command show a role no more than `sql` does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from harness.granted import ONE, OTHER, Secrets, granted_project
from streamlit.testing.v1 import AppTest

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.column_search.indexing import change_index
from kedro_lakehouse.column_search.lake_index import apply_change, pending_index
from kedro_lakehouse.config.columns import ColumnIndexConfig
from kedro_lakehouse.datasets import TableDataset
from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.private import CONSOLE_ROLE
from kedro_lakehouse.project import _Active

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.unit

HIDDEN = ("email", "phone", "born", "salary", "region", "note", "home")
GRANTS: dict[str, Any] = {
    "seer": [
        {"table": "shop.customer", "mask": dict.fromkeys(HIDDEN, "hide")},
        {"table": "shop.staff", "can": "describe"},
    ],
    "some": [{"table": "shop.customer", "rows": "region = 'EU'"}],
}  # fmt: skip
LAKES = (ONE, replace(OTHER, hidden_rows=ONE.hidden_rows))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[Secrets, Any]:
    """Two indexed lakes that are alike but for the values that the role may not see."""
    made = {secret: granted_project(tmp_path_factory.mktemp("lake"), secret, GRANTS) for secret in LAKES}
    for lake in made.values():
        lake.catalog.catalog.drop_table("ops.runs")  # the console reads it
        lake.column_index = ColumnIndexConfig(models=("hash",))
        apply_change(lake, change_index(pending_index(lake)))
    return made


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def invoke(lake: Any, *words: str) -> Result:
        for command in ("search", "grants", "console"):
            monkeypatch.setattr(f"kedro_lakehouse.cli.{command}.open_project", lambda: lake)
        return CliRunner().invoke(lakehouse, words)

    return invoke


def is_clean(text: str) -> bool:
    return not any(canary in text for secret in LAKES for canary in secret.canaries)


SEARCHES = [
    ("customer",), ("email",), ("telephone",), ("{day}",), ("{number}",), ("region", "--explain"),
    ("--like", "shop.customer.id"), ("--like", "shop.customer.phone"), ("--like", "shop.secret.word"),
    ("--like", "shop.customer.id", "--joinable"),
    ("--like", "shop.customer", "--unionable"), ("north",), ("{word}", "--mode", "content"),
    ("--file", "{guesses}"), ("--file", "{guesses}", "--joinable"),
]  # fmt: skip


def test_a_search_finds_nothing_by_values_that_the_role_may_not_see(
    lakes: dict[Secrets, Any], call: Callable[..., Result], tmp_path: Any
) -> None:
    guesses = tmp_path / "guesses.csv"
    guesses.write_text(f"guess,name\n{ONE.word},{ONE.word}-1111\n+49 {ONE.word} 1111,{ONE.number}\n")
    told = {"guesses": guesses, "word": ONE.word, "day": ONE.day, "number": ONE.number}
    for words in SEARCHES:
        asked = [word.format_map(told) for word in words]
        one, other = (call(lakes[s], "search", *asked, "--as", "seer", "--json") for s in LAKES)
        texts = [
            done.output.replace(lakes[s].lakehouse, "...").replace(str(guesses), "...")
            for done, s in zip((one, other), LAKES, strict=True)
        ]
        assert texts[0] == texts[1], asked
        assert one.exit_code == other.exit_code
        assert is_clean(texts[1]), asked
        assert "secret" not in texts[1].replace("shop.secret.word", "")


def test_without_a_role_the_same_searches_show_values(lakes: dict[Secrets, Any], call: Any) -> None:
    assert not is_clean(call(lakes[ONE], "search", "note", "--json").output)


def test_a_search_shows_the_columns_that_the_role_sees(lakes: dict[Secrets, Any], call: Any) -> None:
    done = call(lakes[ONE], "search", "customer", "--as", "seer", "--json", "-k", "50")
    # Of the masked ones those are shown of which the index keeps no value: personal by tag or by evidence.
    shown = sorted(one["column"] for one in json.loads(done.output))
    assert shown == ["card", "email", "id", "name", "phone"]
    refused = call(lakes[ONE], "search", "customer", "--as", "some")
    assert refused.exit_code == 1
    assert "None of the columns in the index may be seen" in refused.output
    for words in (("--add", "x"), ("--file", "x", "--joinable", "--verify")):
        assert "--as goes without" in call(lakes[ONE], "search", *words, "--as", "seer").output


@pytest.mark.parametrize("command", sorted(lakehouse.commands))
def test_every_other_command_that_shows_something_refuses_a_role_in_a_sentence(command: str) -> None:
    options = {option for param in lakehouse.commands[command].params for option in param.opts}
    if command in ("sql", "search", "console"):
        assert "--as" in options
        return
    done = CliRunner().invoke(lakehouse, [command, "--as", "seer"])
    assert done.exit_code == 2
    if "--as" in options:
        assert "`kedro lakehouse sql --as seer` reads what is granted." in done.output
    else:
        assert "No such option" in done.output


def _pages() -> None:
    from harness.console import linked_pages

    from kedro_lakehouse.console import map_page, table_page
    from kedro_lakehouse.console.lake import _search, opened_project, role_access

    for cached in (opened_project, role_access, _search, map_page._groups):
        cached.clear()  # type: ignore[attr-defined]
    table_page.show(linked_pages())
    map_page.show(linked_pages())


def test_the_console_shows_a_role_its_columns_alone(
    lakes: dict[Secrets, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kedro_lakehouse.console.lake.found_project", lambda: lakes[ONE])
    whole = AppTest.from_function(_pages).run(timeout=60)
    whole.selectbox(key="table").set_value("shop.customer").run(timeout=60)
    assert not whole.exception
    assert not is_clean(_text(whole))
    assert "shop.customer_history" in str(whole.get("graphviz_chart")[0].proto.spec)
    monkeypatch.setenv(CONSOLE_ROLE, "seer")
    shown = AppTest.from_function(_pages).run(timeout=60)
    assert not shown.exception
    assert shown.selectbox(key="table").options == ["shop.customer", "shop.staff"]
    assert list(shown.dataframe[0].value["column"]) == ["id", "email", "name", "phone", "card"]
    assert is_clean(_text(shown))
    assert "Commits of the table" not in _text(shown)
    assert not shown.get("graphviz_chart")  # lineage names tables that the role does not see
    monkeypatch.setenv(CONSOLE_ROLE, "some")
    closed = AppTest.from_function(_pages).run(timeout=60)
    assert "None of the columns" in str(closed.exception[0].message)


def _asked() -> None:
    from harness.console import linked_pages

    from kedro_lakehouse.console import rows_page, sql_page
    from kedro_lakehouse.console.lake import opened_project, role_access

    for cached in (opened_project, role_access):
        cached.clear()  # type: ignore[attr-defined]
    rows_page.show(linked_pages())
    sql_page.show(linked_pages())


def test_rows_and_answers_in_the_console_are_those_that_the_role_may_see(
    lakes: dict[Secrets, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kedro_lakehouse.console.lake.found_project", lambda: lakes[ONE])
    monkeypatch.setenv(CONSOLE_ROLE, "seer")
    shown = AppTest.from_function(_asked).run(timeout=60)
    assert not shown.exception
    assert set(shown.selectbox(key="table").options) <= set(RoleAccess.of(lakes[ONE], "seer").by_name)
    shown.selectbox(key="table").set_value("shop.customer").run(timeout=60)
    assert {"id", "email"} <= set(shown.dataframe[0].value)
    assert is_clean(_text(shown))
    for table in ("shop.customer", "shop.customer_changes", "ops.runs"):
        shown.text_area(key="query_text").set_value(f"select * from {table}")
        shown.button[-1].click().run(timeout=60)
        assert not shown.exception
        assert is_clean(_text(shown))
    assert shown.error[0].value == "This query has no answer:"
    assert "Quarantine" not in _text(shown)


def _text(app: AppTest) -> str:
    shown = [element.value.to_string() for element in app.dataframe]
    return "\n".join([*shown, str(app)])


def test_the_pages_about_runs_are_in_no_roles_console(monkeypatch: pytest.MonkeyPatch) -> None:
    from kedro_lakehouse.console import app

    titles: list[str] = []
    monkeypatch.setattr(app.st, "Page", lambda *_, title, **__: titles.append(title))
    monkeypatch.setattr(app.st, "navigation", lambda *_, **__: None)
    monkeypatch.setattr(app, "is_admitted", lambda: False)
    monkeypatch.setattr(app, "ask_for_token", lambda: None)
    app.main()
    assert "Health" in titles
    titles.clear()
    monkeypatch.setenv(CONSOLE_ROLE, "seer")
    app.main()
    assert sorted(titles) == ["Map", "Rows", "SQL", "Search", "Table"]


def test_a_console_of_an_unknown_role_does_not_start(lakes: dict[Secrets, Any], call: Any) -> None:
    done = call(lakes[ONE], "console", "--as", "sere", "--no-browser")
    assert done.exit_code == 1
    assert "Did you mean 'seer'" in done.output


def test_a_role_does_not_ask_spark() -> None:
    done = CliRunner().invoke(lakehouse, ["sql", "select 1", "--as", "seer", "--engine", "spark"])
    assert done.exit_code == 2
    assert "--as goes with DuckDB" in done.output


def test_previews_hide_payment_data_as_they_hide_personal_data(
    lakes: dict[Secrets, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Active, "project", lakes[ONE])
    shown = TableDataset(table="shop.customer", kind="current").preview()
    rows = [dict(zip(shown["columns"], row, strict=True)) for row in shown["data"]]
    assert {(row["name"], row["card"]) for row in rows} == {("(personal)", "(personal)")}


def test_the_index_keeps_no_value_of_payment_data(lakes: dict[Secrets, Any]) -> None:
    rows = lakes[ONE].catalog.catalog.load_table("ops.column_signatures").scan().to_arrow()
    cards = rows.filter(pa.compute.equal(rows["column"], "card")).to_pylist()
    assert len(cards) == 1
    assert str(ONE.number) not in str(cards)
    assert ONE.word in str(rows.to_pylist())


def test_show_lists_who_may_see_what(lakes: dict[Secrets, Any], call: Any) -> None:
    done = call(lakes[ONE], "grants")
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    masks = "born: hide, card: last4, email: hide, home: hide, name: redact, note: hide, phone: hide"
    assert f"seer shop.customer select all {masks}, region: hide, salary: hide all" in lines
    assert "seer shop.staff describe all none" in lines
    assert "some shop.dim_customer select all card: last4, name: redact region = 'EU'" in lines
    assert "Did you mean 'seer'" in call(lakes[ONE], "grants", "show", "sere").output
    planned = call(lakes[ONE], "grants", "plan")
    assert planned.exit_code == 1
    assert "has no Lake Formation" in planned.output
