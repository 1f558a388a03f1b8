"""Dates and times that are not in ISO 8601: which pattern is proposed, and which columns stay text."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedro_lakehouse.discovery.written_times import with_written_times

pytestmark = pytest.mark.unit


def found(**columns):
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v) for n, v in columns.items()})
    return with_written_times(table)


@pytest.mark.parametrize(
    ("texts", "pattern", "first"),
    [
        (["03.10.2026", "31.12.2026"], "d.M.yyyy", dt.date(2026, 10, 3)),
        (["3.10.2026", "4.10.2026"], "d.M.yyyy", dt.date(2026, 10, 3)),
        (["03/10/2026", "31/12/2026"], "d/M/yyyy", dt.date(2026, 10, 3)),
        (["10/03/2026", "12/31/2026"], "M/d/yyyy", dt.date(2026, 10, 3)),
        (["2026/10/03", None], "yyyy/M/d", dt.date(2026, 10, 3)),
        (["Oct 3 2026"], "MMM d yyyy", dt.date(2026, 10, 3)),
        (["3-Oct-2026"], "d-MMM-yyyy", dt.date(2026, 10, 3)),
    ],
)
def test_dates(texts, pattern, first):
    written = found(day=texts)
    assert written.options == {"date_format": pattern}
    assert written.rows["day"].type == pa.date32()
    assert written.rows["day"][0].as_py() == first
    assert written.remarks == []


@pytest.mark.parametrize(
    ("text", "pattern", "seconds"),
    [("13.10.2026 9:05", "d.M.yyyy H:mm", 0), ("10/13/2026 09:05:07", "M/d/yyyy H:mm:ss", 7)],
)
def test_times(text, pattern, seconds):
    written = found(at=[text, None])
    assert written.options == {"timestamp_format": pattern}
    assert written.rows["at"].to_pylist() == [dt.datetime.fromisoformat(f"2026-10-13T09:05:0{seconds}"), None]


@pytest.mark.parametrize(
    "texts",
    [
        ["31.02.2026"],
        ["3.10.2026", "soon"],
        ["3.10.2026", "10/3/2026"],
        ["3.10.26"],
        ["10.0.0.1"],
        ["13.13.2026"],
        [None, None],
    ],
)
def test_what_no_pattern_fits_stays_text_without_a_word(texts):
    written = found(day=pa.array(texts, pa.string()))
    assert (written.options, written.remarks) == ({}, [])
    assert written.rows["day"].to_pylist() == texts


def test_where_day_and_month_may_be_exchanged_a_person_is_asked():
    written = found(day=["03/04/2026", "05/06/2026"])
    assert written.options == {}
    assert written.rows["day"].type == pa.string()
    (remark,) = written.remarks
    assert remark.startswith("day: text like d/M/yyyy or M/d/yyyy; say which by date_format in `csv`")


def test_another_column_may_tell_the_order_of_day_and_month():
    written = found(day=["03/04/2026"], other=["12/31/2026"])
    assert written.options == {"date_format": "M/d/yyyy"}
    assert written.rows["day"].to_pylist() == [dt.date(2026, 3, 4)]


def test_a_source_with_dates_in_iso_8601_gets_no_pattern():
    written = found(day=["31.12.2026"], iso=[dt.date(2026, 1, 1)])
    assert written.options == {}
    (remark,) = written.remarks
    assert "iso is in ISO 8601" in remark
    assert written.rows["day"].type == pa.string()


def test_dates_and_times_have_a_pattern_each():
    written = found(day=["31.12.2026"], at=[dt.datetime.fromisoformat("2026-01-01")])
    assert written.options == {"date_format": "d.M.yyyy"}


@given(st.lists(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), min_size=1, max_size=5))
def test_a_date_that_is_read_is_the_date_that_was_written(days):
    for pattern in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"):
        written = found(day=[day.strftime(pattern) for day in days])
        if written.options:
            assert written.rows["day"].to_pylist() == days
