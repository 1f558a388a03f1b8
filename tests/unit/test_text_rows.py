"""Rows of MariaDB's and MySQL's text protocol, beside a plain writer of their packets."""

from __future__ import annotations

import random
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from kedro_lakehouse.pulls.sql import text_rows
from kedro_lakehouse.pulls.sql.text_rows import ErrorPacketError, MalformedRowsError, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Row = list[bytes | None]
MOST: Final = 2**24 - 1
END: Final = b"\xfe\x00\x00\x02\x00"
LENGTHS: Final = (0, 1, 4, 9, 250, 251, 252, 253, 254, 255, 256, 65535, 65536, 70_000)


def written(value: bytes | None) -> bytes:
    """A value as a server writes it."""
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    for mark, width in ((b"\xfc", 2), (b"\xfd", 3), (b"\xfe", 8)):
        if size < 256**width:
            return mark + size.to_bytes(width, "little") + value
    raise ValueError(size)


def packets(payloads: Sequence[bytes]) -> bytes:
    """Payloads in packets, each counted."""
    found, numbers = bytearray(), count(4)
    for payload in payloads:
        parts = [payload[at : at + MOST] for at in range(0, len(payload) + 1, MOST)]
        for part in parts:
            found += len(part).to_bytes(3, "little") + bytes([next(numbers) % 256]) + part
    return bytes(found)


def answer(rows: Sequence[Row], end: bytes = END) -> bytes:
    """The packets of a result's rows."""
    return packets([*(b"".join(map(written, row)) for row in rows), end])


def arriving(data: bytes, sizes: Iterator[int]) -> Callable[[], bytes]:
    """Gives bytes in parts of some sizes; fails where more is asked for than there is."""
    at = 0

    def receive() -> bytes:
        nonlocal at
        assert at < len(data), "asked for more than the server sends"
        at += (size := next(sizes))
        return data[at - size : at]

    return receive


def read(data: bytes, columns: int, size: int = 2**18) -> tuple[list[Row], int]:
    """The rows in some packets, and how many chunks they came in."""
    chunks = list(columns_of(arriving(data, iter(lambda: size, 0)), columns))
    assert all(column.type == pa.binary() for chunk in chunks for column in chunk)
    rows = [list(row) for chunk in chunks for row in zip(*(c.to_pylist() for c in chunk), strict=True)]
    return rows, len(chunks)


def random_rows(rng: random.Random, number: int, columns: int) -> list[Row]:
    def value() -> bytes | None:
        chance = rng.random()
        if chance < 0.1:
            return None
        return rng.randbytes(rng.choice(LENGTHS) if chance < 0.12 else rng.randrange(20))

    return [[value() for _ in range(columns)] for _ in range(number)]


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_same_however_they_arrive(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test's
    monkeypatch.setattr(text_rows, "_BLOCK", rng.choice([1, 100, 20_000, 4 * 2**20]))
    columns = rng.randrange(1, 12)
    rows = random_rows(rng, rng.randrange(400), columns)
    sizes = iter(lambda: rng.choice([1, 3, 5, 17, 1000, 30_000]), 0)
    chunks = list(columns_of(arriving(answer(rows), sizes), columns))
    found = [list(row) for chunk in chunks for row in zip(*(c.to_pylist() for c in chunk), strict=True)]
    assert found == rows


def test_of_no_rows_there_is_one_empty_chunk() -> None:
    assert read(answer([]), 3) == ([], 1)


def test_rows_come_in_chunks_and_the_end_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "_BLOCK", 100)
    rows: list[Row] = [[b"x" * 96]] * 3
    assert read(answer(rows), 1, size=101) == (rows, 3)


@pytest.mark.parametrize("more", [-1, 0, 1, MOST - 8, MOST])
def test_a_row_of_several_packets_is_one_row(more: int) -> None:
    """Also one that ends where a packet ends, which an empty packet shows."""
    long = b"x" * (MOST - 4 - 2 + more)  # four bytes are its length, two are the next value's
    rows: list[Row] = [[b"a", b"b"], [long, b"c"], [b"d", None]]
    assert read(answer(rows), 2)[0] == rows


def test_a_value_of_sixteen_megabytes_is_no_end() -> None:
    """Its length begins with the byte with which the end does."""
    rows: list[Row] = [[b"x" * 2**24]]
    assert answer(rows)[4] == END[0]
    assert read(answer(rows), 1)[0] == rows


def test_an_error_of_the_server_ends_the_rows() -> None:
    error = b"\xff\x51\x05#70100Query execution was interrupted"
    with pytest.raises(ErrorPacketError) as raised:
        read(answer([[b"1"]], error), 1)
    assert raised.value.packet == error


@pytest.mark.parametrize("columns", [1, 3])
def test_rows_with_other_columns_are_refused(columns: int) -> None:
    with pytest.raises(MalformedRowsError):
        read(answer([[b"1", b"2"]] * 9), columns)


def test_nothing_is_read_beyond_the_end() -> None:
    """The connection answers the next question with what follows."""
    data: Any = answer([[b"1"], [b"2"]])
    asked = arriving(data, iter(lambda: 1, 0))
    assert len(list(islice(columns_of(asked, 1), 5))) == 1
    with pytest.raises(AssertionError, match="more than the server sends"):
        asked()
