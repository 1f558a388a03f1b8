"""Hostile queries of a role show and tell nothing that is not granted: neither by rows nor by errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from harness.granted import ONE, OTHER, Secrets, granted_project

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.query.answer import _LOCKED_IN
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

GRANTED = {("shop", "customer"), ("shop", "customer_history"), ("shop", "staff")}
_FILE = Path(__file__).with_name("hostile_queries.sql")


def _queries() -> list[str]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("-- ")]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[Secrets, Any]:
    """Two lakes that are alike in all that the role may see, and in nothing else."""
    return {secret: granted_project(tmp_path_factory.mktemp("lake"), secret) for secret in (ONE, OTHER)}


def asked(lake: Any, query: str, *, role: str | None = "analyst") -> tuple[int, str]:
    """Status and all output of a query as the command line gives it; the lake's folder has one name."""
    text = query.replace("{folder}", lake.lakehouse)
    for name, value in (("word", ONE.word), ("number", ONE.number), ("day", ONE.day)):
        text = text.replace(f"{{{name}}}", str(value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kedro_lakehouse.cli.sql.open_project", lambda: lake)
        # With two threads, ties and orders that a query leaves open differ between two runs on one lake.
        patch.setitem(_LOCKED_IN, "threads", 1)
        as_role = ["--as", role] if role else []
        done = CliRunner().invoke(lakehouse, ["sql", text, "--json", "--limit", "0", *as_role])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    shown = done.output
    for said in (lake.lakehouse, text):  # what the asker wrote himself tells him nothing
        shown = shown.replace(said, "...")
    return done.exit_code, shown


def test_there_are_hostile_queries_of_each_kind() -> None:
    assert len(set(_queries())) > 200


def test_no_answer_depends_on_what_is_not_granted(
    lakes: dict[Secrets, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    load = MetadataCatalog.load_table
    monkeypatch.setattr(
        MetadataCatalog, "load_table", lambda self, name: opened.append(name) or load(self, name)
    )
    leaks, read = [], 0
    for query in _queries():
        opened.clear()
        one = other = asked(lakes[ONE], query)
        assert set(opened) <= GRANTED, query
        if opened:  # else no stored value was there to be told
            read, other = read + 1, asked(lakes[OTHER], query)
        if one != other or any(canary in other[1] for canary in OTHER.canaries):
            leaks.append((query, one, other))
    assert leaks == []
    assert read > 100


def test_the_same_queries_without_a_role_show_what_is_hidden(lakes: dict[Secrets, Any]) -> None:
    """Otherwise the test above could not fail."""
    told = [
        query
        for query in _queries()[:20]
        if asked(lakes[ONE], query, role=None) != asked(lakes[OTHER], query, role=None)
    ]
    assert len(told) > 15
