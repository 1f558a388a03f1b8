"""The file of metrics: the format's grammar, and a file that changes only where something did."""

import datetime as dt
import re

import pytest

from kedro_lakehouse.monitoring.metrics import metrics_text, replace_file
from kedro_lakehouse.monitoring.table_status import TableStatus
from kedro_lakehouse.sources.base import Waiting

pytestmark = pytest.mark.unit

AT = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ITEM = TableStatus(
    table="shop.item", state="waiting", rows=3, history_rows=5, batch=4, current_batch=3, history_batch=4,
    lag=1, last_commit=AT, quarantined=2,
)  # fmt: skip
NEW = TableStatus(
    table="shop.new", state="empty", rows=0, history_rows=None, batch=0, current_batch=0,
    history_batch=None, lag=0, last_commit=None, quarantined=0,
)  # fmt: skip
RUN = {"started_at": AT, "ended_at": AT + dt.timedelta(seconds=1.5)}
WAITING = {
    "shop.item": Waiting(files=2, bytes=1_400, records=7, seconds=2.5),
    "shop.new": Waiting(files=0, bytes=0),
}

# The text exposition format, as its specification words it: comments, and samples of a name with labels.
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf|NaN))")


def parsed(text):
    """The samples of a file; fails where a line is none of the format's."""
    assert text.endswith("\n")
    found, typed, helped = {}, [], []
    for line in text.splitlines():
        if help_ := re.fullmatch(rf"# HELP ({NAME}) \S.*", line):
            helped.append(help_[1])
        elif type_ := re.fullmatch(rf"# TYPE ({NAME}) gauge", line):
            typed.append(type_[1])
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            name, labels, value = sample.groups()
            assert name == typed[-1] == helped[-1]
            key = (name.removeprefix("kedro_lakehouse_"), *sorted(re.findall(r'(?<=")[^",=]+(?=")', labels)))
            assert key not in found
            found[key] = float(value)
    assert len(set(typed)) == len(typed)
    return found


def test_every_table_and_the_run_are_told():
    found = parsed(metrics_text("local", [ITEM, NEW], RUN, WAITING, succeeded=False))
    assert found == {
        ("table_rows", "current", "local", "shop.item"): 3,
        ("table_rows", "history", "local", "shop.item"): 5,
        ("table_rows", "current", "local", "shop.new"): 0,
        ("table_bookmark_batch", "changes", "local", "shop.item"): 4,
        ("table_bookmark_batch", "current", "local", "shop.item"): 3,
        ("table_bookmark_batch", "history", "local", "shop.item"): 4,
        ("table_bookmark_batch", "changes", "local", "shop.new"): 0,
        ("table_bookmark_batch", "current", "local", "shop.new"): 0,
        ("table_lag_batches", "local", "shop.item"): 1,
        ("table_lag_batches", "local", "shop.new"): 0,
        ("table_last_commit_timestamp_seconds", "local", "shop.item"): AT.timestamp(),
        ("table_quarantined_rows", "local", "shop.item"): 2,
        ("table_quarantined_rows", "local", "shop.new"): 0,
        ("stream_lag_records", "local", "shop.item"): 7,
        ("stream_lag_seconds", "local", "shop.item"): 2.5,
        ("stream_lag_seconds", "local", "shop.new"): 0,
        ("run_success", "local"): 0,
        ("run_duration_seconds", "local"): 1.5,
        ("run_end_timestamp_seconds", "local"): AT.timestamp() + 1.5,
    }


def test_before_the_first_recorded_run_only_its_success_is_told():
    found = parsed(metrics_text("local", [], None, {}, succeeded=True))
    assert found == {("run_success", "local"): 1}


def test_labels_are_escaped():
    text = metrics_text('a"\\\n', [], None, {}, succeeded=True)
    assert 'env="a\\"\\\\\\n"' in text
    assert SAMPLE.fullmatch(text.splitlines()[-1])


def test_the_file_appears_whole_and_only_where_it_says_something_new(tmp_path):
    path = tmp_path / "lake.prom"
    assert replace_file(path, "a 1\n")
    first = path.stat()
    assert not replace_file(path, "a 1\n")
    assert path.stat().st_mtime_ns == first.st_mtime_ns
    assert replace_file(path, "a 2\n")
    assert path.read_text() == "a 2\n"
    assert path.stat().st_ino != first.st_ino  # renamed over, never written in place
    assert [p.name for p in tmp_path.iterdir()] == ["lake.prom"]


def test_a_draft_that_cannot_be_finished_is_removed(tmp_path):
    path = tmp_path / "lake.prom"
    path.mkdir()  # nothing can be renamed over a folder
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        replace_file(path, "a 1\n")
    assert [p.name for p in tmp_path.iterdir()] == ["lake.prom"]
