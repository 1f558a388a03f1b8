"""The contract of pulled sources, for tables of SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from lakehouse_sqlite import SqliteConfig, SqliteSource

from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import TerminalFault
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from pathlib import Path

MAKE = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)"


class Base:
    """A file with a table."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.run(MAKE)

    def run(self, statement: str, values: list[tuple[Any, ...]] | None = None) -> None:
        with closing(sqlite3.connect(self.file)) as base, base:
            base.executemany(statement, values) if values is not None else base.execute(statement)

    def put(self, rows: dict[int, str | None]) -> None:
        self.run("INSERT OR REPLACE INTO item VALUES (?, ?)", list(rows.items()))

    def remove(self, *ids: int) -> None:
        self.run("DELETE FROM item WHERE id = ?", [(number,) for number in ids])

    def settle(self) -> None:
        """Every commit is seen at once."""

    def make_anew(self) -> bool:
        return False


class TestSqlite(PulledSourceContract):
    @pytest.fixture
    def origin(self, tmp_path: Path) -> Base:
        return Base(tmp_path / "shop.db")

    def declared(self, origin: Any, mode: Any, folder: str) -> Any:
        table = TableConfig(source="s", entity="item", keys=("id",), pull=PullConfig(mode=mode))
        config = SqliteConfig(type="sqlite", path=folder, database=str(origin.file))
        return config, TableName("shop", "item"), table

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> SqliteSource:
        return SqliteSource(*self.declared(origin, mode, folder), credentials)

    def test_wrong_credentials_are_terminal(self) -> None:
        pytest.skip("a file asks for no password")

    def test_a_crawl_with_wrong_credentials_is_terminal(self) -> None:
        pytest.skip("a file asks for no password")

    def test_a_crawl_tells_tables_and_views_with_their_keys(self, origin: Base, tmp_path: Path) -> None:
        origin.run("CREATE VIEW names AS SELECT name FROM item")
        found = {one.name: one for one in self.crawled(origin, tmp_path)}
        assert {name: one.kind for name, one in found.items()} == {"item": "table", "names": "view"}
        assert found["item"].entity.keys == ("id",)

    def test_a_crawl_makes_no_file(self, origin: Base, tmp_path: Path) -> None:
        origin.file.unlink()
        with pytest.raises(TerminalFault, match="SQLITE_CANTOPEN"):
            list(self.crawled(origin, tmp_path))
        assert not origin.file.exists()

    @pytest.mark.parametrize(("change", "words"), [("gone", "no such file"), ("drop table item", "no table")])
    def test_what_is_not_there_is_terminal(
        self, origin: Base, tmp_path: Path, change: str, words: str
    ) -> None:
        origin.file.unlink() if change == "gone" else origin.run(change)
        source = self.opened(origin, "full", str(tmp_path))
        with pytest.raises(TerminalFault, match=words):
            list(source.read(source.plan(Since(mode="full", number=0, to=None)), None))
        source.close()

    def test_a_value_of_another_type_is_refused(self, origin: Base, tmp_path: Path) -> None:
        origin.run("INSERT INTO item VALUES (1, x'ff')")
        source = self.opened(origin, "full", str(tmp_path))
        with pytest.raises(TerminalFault, match="not of its column's type"):
            list(source.read(source.plan(Since(mode="full", number=0, to=None)), None))
        source.close()
