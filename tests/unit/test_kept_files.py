"""Small files of tables are read once, as long as they find room."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kedro_lakehouse.formats.kept_files import KeptFiles

pytestmark = pytest.mark.unit


def rows(number: int) -> pa.Table:
    """Eight bytes a row."""
    return pa.table({"n": pa.array(range(number), pa.int64())})


def test_a_small_file_is_read_once() -> None:
    kept, read = KeptFiles(), list[str]()

    def reading(name: str) -> pa.Table:
        read.append(name)
        return rows(3)

    found = [kept.rows(name, lambda name=name: reading(name)) for name in ("a", "b", "a", "b")]  # type: ignore[misc]
    assert read == ["a", "b"]
    assert all(one.equals(rows(3)) for one in found)


def test_a_large_file_is_read_each_time() -> None:
    kept, read = KeptFiles(most_of_one=8 * 9), list[int]()
    for _ in range(2):
        kept.rows("large", lambda: read.append(1) or rows(10))  # type: ignore[func-returns-value]
    assert len(read) == 2


def test_those_that_were_asked_for_last_are_kept() -> None:
    most = 2 * 2 * 2**10  # so much use two tables, with what they take beside their rows
    kept, read = KeptFiles(most=most), list[str]()

    def ask(name: str) -> None:
        kept.rows(name, lambda: read.append(name) or rows(10))  # type: ignore[func-returns-value]

    for name in ("a", "b", "a", "c", "a", "b"):
        ask(name)
    assert read == ["a", "b", "c", "b"]
    assert kept._size <= most
