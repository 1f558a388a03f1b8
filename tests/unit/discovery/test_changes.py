"""What counts as a change of a dataset, and what of an unchanged one is not reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kedro_lakehouse.discovery.changes import FoundVersion, changes_between, compare
from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset

pytestmark = pytest.mark.unit


def column(name, kind="bigint", **more):
    return FoundColumn(name=name, type=kind, **more)


BASE = FoundDataset(
    name="found.item", kind="iceberg", location="/lake/item", identity="u1", mark="1",
    columns=(column("id", id=1), column("name", "string", id=2)), rows=3,
)  # fmt: skip


def kinds(old, new):
    return [(c.kind, c.column, c.before, c.after) for c in changes_between(old, new)]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rows": 4, "mark": "2", "size": 9, "keys": (("id",),)}, []),
        ({"kind": "delta"}, [("format_changed", "", "iceberg", "delta")]),
        ({"location": "/other"}, [("table_moved", "", "/lake/item", "/other")]),
        ({"columns": BASE.columns[:1]}, [("column_removed", "name", "string", "")]),
        ({"columns": (*BASE.columns, column("x", id=3))}, [("column_added", "x", "", "bigint")]),
        (
            {"columns": (BASE.columns[0], column("title", "string", id=2))},
            [("column_renamed", "title", "name", "title")],
        ),
        (
            {"columns": (BASE.columns[0], column("title", "int", id=2))},
            [("column_renamed", "title", "name", "title"), ("type_changed", "title", "string", "int")],
        ),
        (
            {"columns": (BASE.columns[0], column("name", "date"))},
            [("type_changed", "name", "string", "date")],
        ),
        ({"columns": BASE.columns[::-1]}, []),
        ({"partitions": ("days(at)",)}, [("partition_added", "", "", "days(at)")]),
        (
            {"partitions": ("day",), "columns": (*BASE.columns, column("day", "date", partition=True))},
            [("partition_added", "", "", "day")],
        ),
    ],
)
def test_a_change_is_one_of_structure(changed, told):
    assert kinds(BASE, replace(BASE, **changed)) == told


def test_without_numbers_a_renamed_column_is_one_gone_and_one_new():
    old = replace(BASE, columns=(column("id"), column("name")))
    new = replace(BASE, columns=(column("id"), column("title")))
    assert [c.kind for c in changes_between(old, new)] == ["column_added", "column_removed"]


def known(*found, version=1, status="present"):
    return [FoundVersion(dataset=one, version=version, status=status) for one in found]


def test_the_first_look_reports_nothing_and_the_second_one_neither():
    first = compare([BASE], [])
    assert (list(first.changes), [v.version for v in first.versions]) == ([], [1])
    again = compare([BASE], first.versions)
    assert (list(again.changes), list(again.versions)) == ([], [])


def test_figures_are_kept_under_the_same_version():
    (one,) = compare([replace(BASE, rows=9)], known(BASE, version=4)).versions
    assert (one.version, one.changes, one.dataset.rows) == (4, (), 9)


def test_a_dataset_that_came_back_goes_on_counting():
    again = compare([BASE], known(BASE, version=2, status="removed"))
    assert [(c.kind, c.table) for c in again.changes] == [("table_added", "found.item")]
    assert [v.version for v in again.versions] == [3]


def test_of_twins_none_is_taken_for_the_other():
    new = [replace(BASE, name="found.a"), replace(BASE, name="found.b")]
    told = compare(new, known(BASE))
    assert sorted(c.kind for c in told.changes) == ["table_added", "table_added", "table_removed"]


def test_a_renamed_dataset_is_one_change_and_keeps_its_number():
    told = compare([replace(BASE, name="found.thing", location="/lake/thing")], known(BASE, version=5))
    assert [c.words for c in told.changes] == ["the table was found.item"]
    versions = {(v.dataset.name, v.version, v.status) for v in told.versions}
    assert versions == {("found.thing", 6, "present"), ("found.item", 6, "renamed")}
