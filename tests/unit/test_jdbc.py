"""What becomes of a column by its JDBC type, of an error by its SQLSTATE, and where windows begin."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Pull, Since
from kedro_lakehouse.pulls.sql import jdbc
from kedro_lakehouse.pulls.sql.dialect import Bound, SqlTable, made_exact
from kedro_lakehouse.pulls.sql.spark_process import _fault, _local

pytestmark = pytest.mark.unit

LONG = "9999999999999999999999999999.0123456789"
at = dt.datetime.fromisoformat


def table(**pull: Any) -> SqlTable:
    source = SqlSourceConfig(
        type="sql", dialect="jdbc", path="p", connection={"url": "jdbc:h2:tcp://db/shop"}, jars=("h2.jar",),
        clock="SELECT CURRENT_TIMESTAMP",
    )  # fmt: skip
    return SqlTable(source, TableConfig(source="s", entity="T", keys=("ID",), pull=SqlPullConfig(**pull)))


def column(
    type_: str, code: int, digits: int = 0, scale: int = 0, *, signed: bool = True, as_text: bool = False
) -> Any:
    described = {
        "name": "A", "type": type_, "code": code, "digits": digits, "scale": scale, "signed": signed,
        "nullable": True,
    }  # fmt: skip
    return jdbc._column(described, '"A"', as_text=as_text)


def made(column: Any, *values: Any) -> list[Any]:
    found: list[Any] = made_exact(
        pa.record_batch([pa.array(values, column.fetched)], names=["c0"]), [column]
    )["A"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("described", "text", "value"),
    [
        (("INTEGER", 4), "-2147483648", -(2**31)),
        (("BIGINT UNSIGNED", -5, 20, 0), "18446744073709551615", Decimal(2**64 - 1)),
        (("DECIMAL", 3, 38, 10), LONG, Decimal(LONG)),
        (("NUMBER", 2, 0, -127), "1.10", "1.10"),
        (("NUMERIC", 2, 50, 2), "1.10", "1.10"),
        (("DOUBLE", 8, 15), 0.1, 0.1),
        (("BOOLEAN", 16, 1), "TRUE", True),
        (("BIT", -7, 1), "0", False),
        (("DATE", 91), "9999-12-31", dt.date(9999, 12, 31)),
        (("TIMESTAMP", 93), "2024-01-31 06:00:00.123456", at("2024-01-31T06:00:00.123456")),
        (("TIMESTAMP", 93), "2024-01-31 06:00:00.123456000", at("2024-01-31T06:00:00.123456")),
        (("TIMESTAMP WITHOUT TIME ZONE", 93), "2024-01-31 06:00:00", at("2024-01-31T06:00:00")),
        (("timestamptz", 93), "2024-01-31 06:00:00+00", at("2024-01-31T06:00:00+00:00")),
        (
            ("TIMESTAMP WITH TIME ZONE", 2014),
            "2024-01-31 06:00:00.1+05:30",
            at("2024-01-31T00:30:00.1+00:00"),
        ),
        (("TIME", 92), "24:00:00", "24:00:00"),
        (("CLOB", 2005), "é\n", "é\n"),
        (("VARBINARY", -3), b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_value_lands_as_it_is(described: tuple[Any, ...], text: Any, value: Any) -> None:
    signed = "UNSIGNED" not in described[0]
    assert made(column(*described, signed=signed), text, None) == [value, None]


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (("INTEGER", 4), "2147483648"),
        (("DECIMAL", 3, 5, 2), "1234.00"),
        (("DECIMAL", 3, 5, 2), "1.001"),
        (("BOOLEAN", 16, 1), "2"),
        (("BOOLEAN", 16, 1), "10"),
        (("DATE", 91), "0000-00-00"),
        (("DATE", 91), "2155"),
        (("TIMESTAMP", 93), "2024-01-31 06:00:00.1234567"),
        (("TIMESTAMP", 93), "2024-01-31 06:00:00+02"),
        (("TIMESTAMP WITH TIME ZONE", 2014), "2024-01-31 06:00:00"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(described: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InexactFault, match="does not fit"):
        made(column(*described), text)
    assert made(column(*described, as_text=True), text) == [text]


@pytest.mark.parametrize(
    ("type_", "code", "digits"),
    [
        ("FLOAT", 7, 12),
        ("money", 8, 19),
        ("bit", -7, 3),
        ("uuid", 1111, 36),
        ("_int4", 2003, 10),
        ("STRUCT", 2002, 0),
    ],
)
def test_types_on_whose_text_drivers_differ_are_refused(type_: str, code: int, digits: int) -> None:
    with pytest.raises(InexactFault, match=rf"A has the type {type_}.*not carried"):
        table().chosen([column(type_, code, digits)])
    assert table(as_text=("A",)).chosen([column(type_, code, digits, as_text=True)])


def test_bytes_are_not_read_as_text() -> None:
    with pytest.raises(InexactFault, match="not carried"):
        table(as_text=("A",)).chosen([column("VARBINARY", -3, as_text=True)])


@pytest.mark.parametrize(
    ("kind", "state", "words", "fault", "shown"),
    [
        ("sql", "28P01", "FATAL: no password for puller", TerminalFault, "no password for puller"),
        ("sql", "42S02", "Table 'shop.nono' does not exist\nPosition: 15", TerminalFault, "nono"),
        ("sql", "22003", "value 4711 is out of range", TerminalFault, "SQLSTATE 22003"),
        ("sql", "08006", "an I/O error with 4711", TransientFault, "SQLSTATE 08006"),
        ("sql", "57P01", "terminated", TransientFault, "SQLSTATE 57P01"),
        ("passing", "90067", "broken: 4711", TransientFault, "SQLSTATE 90067"),
        ("passing", "28000", "no password for puller", TerminalFault, "no password for puller"),
        ("sql", None, "4711", TransientFault, "unknown"),
        ("sql", "08001", "No suitable driver found for jdbc:db2:", TerminalFault, "none of `jars`"),
        ("ClassNotFoundException", None, "a.B", TerminalFault, "none of `jars`"),
        ("JavaNotFoundError", None, "Java 17 is missing", TerminalFault, "Java 17"),
        ("sql", None, "[UNRECOGNIZED_SQL_TYPE] It has - name: uuid, id: OTHER.", InexactFault, "uuid"),
    ],
)  # fmt: skip
def test_an_error_passes_or_does_not_and_shows_no_value(
    kind: str, state: str | None, words: str, fault: type[Exception], shown: str
) -> None:
    found = _fault(kind, state, words)
    assert type(found) is fault
    assert shown in str(found)
    assert "4711" not in str(found)
    assert "Position" not in str(found)


def test_a_driver_that_lies_elsewhere_is_copied(tmp_path: Path) -> None:
    there = fsspec.filesystem("memory")
    there.pipe("/drivers/jcc.jar", b"classes")
    copied = Path(_local("memory://drivers/jcc.jar", str(tmp_path)))
    assert (copied.parent, copied.read_bytes()) == (tmp_path, b"classes")
    assert _local(str(copied), "elsewhere") == str(copied)
    with pytest.raises(TerminalFault, match=r"other.*cannot be read"):
        _local("memory://drivers/other.jar", str(tmp_path))


def test_windows_overlap_by_ten_minutes_or_as_declared() -> None:
    """No transaction that is open then is known."""
    since = Since(mode="incremental", number=1, to="2026-01-01T10:00:00+00:00")
    bound = Bound(now="2026-01-01T11:00:00+00:00")
    incremental = {"mode": "incremental", "cursor": "AT"}
    for late, begin in (
        (None, "2026-01-01T09:50:00+00:00"),
        ({"overlap": "1 h"}, "2026-01-01T09:00:00+00:00"),
    ):
        found = table(**incremental, late=late).window(since, bound)
        assert found == (begin, "2026-01-01T11:00:00+00:00")


def test_a_time_is_written_as_every_driver_reads_it() -> None:
    pull = Pull(from_="2026-01-01T09:50:00+00:00", to="2026-01-01T11:00:00.5+00:00")
    where = table(mode="incremental", cursor="AT").where(pull, '"AT"', jdbc._at)
    assert where == (
        " WHERE \"AT\" >= {ts '2026-01-01 09:50:00.000000'} AND \"AT\" < {ts '2026-01-01 11:00:00.500000'}"
    )
