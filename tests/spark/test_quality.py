"""Expectations: a wrong batch is never seen, is told, and has two ways out."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from harness.project import TemporaryProject, write_parquet

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.datasets import merge
from kedro_lakehouse.errors import ExpectationFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

SHAPE = {
    "Op": pa.string(), "id": pa.int64(), "email": pa.string(), "state": pa.string(), "seq": pa.string(),
}  # fmt: skip
UNIQUE = {"type": "expect_column_values_to_be_unique", "column": "email", "severity": "block"}
KNOWN = {
    "type": "expect_column_values_to_be_in_set", "column": "state", "value_set": ["new", "old"],
    "severity": "block",
}  # fmt: skip
PERSON = {"source": "shop", "entity": "person", "keys": ["id"], "history": True}
SOURCES = {"shop": {"type": "dms", "sequence_column": "seq", "path": "${globals:landing}/shop"}}
WAYS = {
    "shop.corrected": PERSON | {"expectations": [UNIQUE, KNOWN]},
    "shop.withdrawn": PERSON | {"expectations": [UNIQUE, KNOWN]},
}
GOOD = [("I", 1, "a@x", "new", 1), ("I", 2, "b@x", "new", 2), ("I", 3, "c@x", "old", 3)]
WRONG = [
    ("U", 1, "a@x", "old", 11),  # as it should be
    ("U", 2, "a@x", "new", 12),  # the email of person 1
    ("I", 4, "d@x", "gone", 13), ("U", 4, "d@x", "gone", 14),  # a state that there is not
    ("I", 5, "e@x", "new", 15), ("D", 3, None, None, 16),
]  # fmt: skip
CORRECTION = [("U", 2, "b2@x", "new", 21), ("U", 4, "d@x", "old", 22)]


def land(project: TemporaryProject, day: int, events: list[tuple[Any, ...]]) -> None:
    rows = [dict(zip(SHAPE, (*e[:4], str(e[4])), strict=True)) for e in events]
    write_parquet(project.landing / f"shop/person/202601{day:02}-000001000.parquet", rows, SHAPE)


def call(project: TemporaryProject, *words: str) -> Result:
    before = os.getcwd()  # noqa: PTH109
    os.chdir(project.path)
    try:
        return CliRunner().invoke(lakehouse, words)
    finally:
        os.chdir(before)


def present(project: TemporaryProject, table: str) -> tuple[set[Any], set[Any]]:
    """The rows that readers of the current table and of the history's open versions see."""
    current = {(r["id"], r["email"], r["state"]) for r in project.rows(table)}
    history = {(r["id"], r["email"], r["state"]) for r in project.rows(f"{table}_history") if r["is_current"]}
    return current, history


class Reader(logging.Handler):
    """Reads a table again and again while a run goes on, and twenty times between its stage and its end."""

    def __init__(self, project: TemporaryProject, table: str) -> None:
        super().__init__(logging.DEBUG)
        self._project, self._table = project, table
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.seen: list[set[Any]] = []
        self.between = 0

    def _look(self) -> None:
        self.seen += present(self._project, self._table)

    def _poll(self) -> None:
        while not self._over.is_set():
            self._look()

    def emit(self, record: logging.LogRecord) -> None:
        facts = record.__dict__
        if (
            facts.get("phase") == "staged"
            and facts.get("table") == self._table
            and facts["stage"] == "current"
        ):
            for _ in range(20):
                self._look()
                self.between += 1

    def __enter__(self) -> Self:
        self._logger = logging.getLogger("kedro_lakehouse.phase")
        self._level = self._logger.level
        self._logger.setLevel(logging.DEBUG)
        self._logger.addHandler(self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("quality") / "p", SOURCES, WAYS)
    land(made, 1, GOOD)
    made.run()
    land(made, 2, WRONG)
    return made


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.xfail(raises=AssertionError))])
def audited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Runs a test with the audit, and again without it, where it must fail."""
    if not request.param:
        monkeypatch.setattr(merge, "judge_stage", lambda *_, **__: None)
    return request.param


BEFORE = {(1, "a@x", "new"), (2, "b@x", "new"), (3, "c@x", "old")}


def test_a_wrong_batch_is_never_seen(audited: bool, project: TemporaryProject, tmp_path: Any) -> None:
    if not audited:
        project = TemporaryProject.make(tmp_path / "p", SOURCES, {"shop.withdrawn": WAYS["shop.withdrawn"]})
        land(project, 1, GOOD)
        project.run()
        land(project, 2, WRONG)
    with Reader(project, "shop.withdrawn") as reader:
        outcome = project.attempt()
    assert reader.between >= 20
    assert all(seen == BEFORE for seen in reader.seen)
    error = outcome.failed["shop.withdrawn"]
    assert isinstance(error, ExpectationFailedError)
    assert (error.batch, error.rows) == (2, 3)
    assert "expect_column_values_to_be_unique" in str(error)
    assert "kedro lakehouse quarantine shop.withdrawn --batch 2" in str(error)
    assert "a@x" not in str(error)
