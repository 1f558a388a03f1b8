"""Which columns a `rename` that is declared later concerns, and where it is refused."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T

from kedro_lakehouse.commits.renames import rename_columns
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.ingestion.columns import resolve_columns
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import FileShape, LandedFile

pytestmark = pytest.mark.unit


class Renaming:
    """A format that notes what it is asked to rename."""

    def __init__(self):
        self.done = []

    def rename_columns(self, table, names):
        self.done.append((table, names))


class Item(SimpleNamespace):
    """What of a bound table is looked at."""

    def __str__(self):
        return "shop.item"

    def stored(self, role):
        return role

    def state(self, role):
        return None if role == "history" else SimpleNamespace(columns=dict.fromkeys(self.held))


def table(rename, held, table_format):
    config = SimpleNamespace(rename=rename, history=None)
    return Item(config=config, format=table_format, format_name="hudi", held=held)


def test_the_change_log_is_renamed_last():
    made = Renaming()
    rename_columns(table({"a": "b", "x": "y"}, ["a", "c"], made))
    assert made.done == [(role, {"a": "b"}) for role in ("current", "archive", "changes")]


@pytest.mark.parametrize(
    ("rename", "held"),
    [({}, ["a"]), ({"a": "b"}, ["b"]), ({"a": "b"}, ["a", "b"]), ({"a": "a"}, ["a"])],
)
def test_nothing_is_renamed_where_the_table_has_the_name_or_lacks_the_column(rename, held):
    made = Renaming()
    rename_columns(table(rename, held, made))
    assert made.done == []


def test_a_format_that_cannot_rename_refuses_and_names_rebuild():
    with pytest.raises(UnsupportedError, match=r"hudi cannot rename the column 'a'.*rebuild.*--from-landing"):
        rename_columns(table({"a": "b"}, ["a"], object()))


def test_two_columns_do_not_become_one():
    with pytest.raises(UnsupportedError, match=r"'a' and 'c' are there; both would be 'b'"):
        rename_columns(table({"a": "b", "c": "b"}, ["a", "c"], Renaming()))


def test_a_name_that_another_column_has_is_told(caplog):
    made = Renaming()
    with caplog.at_level(logging.WARNING):
        rename_columns(table({"a": "b"}, ["a", "b"], made))
    assert made.done == []
    assert "shop.item has 'a' and 'b'. `kedro lakehouse rebuild shop.item --from-landing`" in caplog.text


def test_a_file_with_both_names_is_refused():
    names = ("id", "customer", "client")
    shape = FileShape(
        LandedFile("/in/1.csv", 1, 1), "changes", tuple((n, T.StringType()) for n in names), True, False
    )
    declared = TableConfig.model_validate(
        {"source": "shop", "entity": "item", "keys": ["id"], "rename": {"customer": "client"}}
    )
    source = SimpleNamespace(control=lambda _: frozenset())
    with pytest.raises(UnsupportedError, match=r"1\.csv has 'customer' and 'client', one column by `rename`"):
        resolve_columns(TableName("shop", "item"), declared, source, [shape], {})
