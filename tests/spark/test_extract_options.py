"""Options of full extracts as the contract words them; and the same tables however they are batched."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import Outcome, TemporaryProject, write_text
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, only_in_soak]

EXTRACTS: dict[str, Any] = {
    "type": "extract", "path": "${globals:landing}/ext", "pattern": "*.csv", "file_format": "csv",
    "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
}  # fmt: skip
SOURCES = {"all": EXTRACTS, "two": EXTRACTS | {"max_files": 2}}
LEAN = {"current": False}
UPDATED = {"updated_at": "at"}
REGION = {"delete_scope": ["region"]}

TABLES: dict[str, dict[str, Any]] = {
    "timed": {"valid_from": "since", "types": {"since": "date"}, "history": True},
    "untold": LEAN | {"valid_from": "since", "columns": {"include": ["name"]}},
    "started": LEAN | {"valid_from": "since", "initial_valid_from": "2020-01-01"},
    "stamped": {"valid_from": UPDATED, "history": True},
    "returned": {"valid_from": UPDATED, "history": True},
    "parted": LEAN | REGION,
    "parted_key": LEAN | {"keys": ["region", "id"], "delete_scope": ["region"]},
    "parted_stamped": LEAN | REGION | {"valid_from": UPDATED},
    "newest": {"order_by": ["rev"], "types": {"rev": "int"}},
    "declared": {"max_delete_fraction": 0.5},
    "parted_guard": REGION | {"max_delete_fraction": 0.5},
    "unguarded": {"hard_deletes": "ignore", "max_delete_fraction": 0.0},
    "hollow": {"allow_empty_extract": True},
    "marked": LEAN | {"hard_deletes": "tombstone"},
    "partial": {"ignore_null": ["qty"]},
    "heaped": LEAN | {"keys": [], "write": "append"},
    "swapped": LEAN | {"keys": [], "write": "replace", "allow_empty_extract": True},
}
FILES: dict[str, dict[int, str]] = {
    "timed": {
        1: "id,name,since;1,a,2025-12-01;2,b,;3,c,2026-03-01",
        2: "id,name,since;1,A,2025-12-15;3,c,2026-03-01;4,d,soon",
        3: "id,name,since;1,A,2025-12-15;2,b,2025-11-01;3,c,2026-03-01",
    },
    "untold": {1: "id,name;1,a;2,b", 2: "id,name,since;1,a,2019-01-01;2,B,2019-01-01"},
    "started": {1: "id,name,since;1,a,2025-01-01;2,b,", 2: "id,name,since;1,A,2025-02-01;2,b,"},
    "stamped": {
        1: "id,v,at;1,a,2025-01-01;2,,2025-01-01;3,c,;4,d,2027-01-01",
        2: "id,v,at;1,late,2024-06-01;2,x,2025-01-01;3,c,;4,D,",
        3: "id,v,at;1,b,2025-01-02;2,,2025-01-01;3,C,2026-01-01;4,D,2027-01-02",
        4: "id,v,at;1,b,2025-06-01;2,,2025-01-01;3,C,2026-01-01;4,d,2026-12-31",
    },
    "returned": {
        1: "id,v,at;1,a,2025-01-01;2,b,2025-01-01;3,c,2025-01-01",
        2: "id,v,at;3,c,2025-01-01",
        3: "id,v,at;1,a,2025-01-01;3,c,2025-01-01",
        4: "id,v,at;1,a,2025-01-01;2,b,2026-01-03;3,c,2025-01-01",
    },
    "parted": {
        1: "id,region,v;1,n,a;2,n,b;3,s,c;4,,d;5,e,e",
        2: "id,region,v;1,n,a",
        3: "id,region,v;6,s,f;5,n,e",
        4: "id,region,v;7,,g;8,e,h",
    },
    "parted_key": {
        1: "id,region,v;1,n,a;1,s,b;2,s,c",
        2: "id,region,v;2,n,a",
        3: "id,region,v;2,s,c",
    },
    "parted_stamped": {
        1: "id,region,v,at;1,n,a,2025-01-01;2,n,b,2025-01-01;3,s,c,2025-01-01",
        2: "id,region,v,at;1,s,z,2024-01-01;2,n,b,2025-01-01",
        3: "id,region,v,at;4,s,d,2025-01-01",
        4: "id,region,v,at;2,n,b,2025-01-01",
    },
    "newest": {
        1: "id,v,rev;1,b,2;1,a,10;2,x,1;2,y,1;3,c,",
        2: "id,v,rev;1,a,10;2,y,1;2,x,1;3,c,",
    },
    "declared": {1: "id,v;1,a;2,b;3,c;4,d", 2: "id,v;1,a", 3: "id,v;1,a;2,b"},
    "parted_guard": {
        1: "id,region;1,n;2,n;3,n;4,s;5,s;6,s;7,s;8,s;9,s",
        2: "id,region;1,n",
        3: "id,region;1,n;2,n;4,s;5,s;6,s",
    },
    "unguarded": {1: "id,v;1,a;2,b", 2: "id,v;2,B"},
    "hollow": {1: "id,v;1,a;2,b", 2: "id,v;,c", 3: "id,v"},
    "marked": {1: "id,v;1,a;2,b", 2: "id,v;2,b", 3: "id,v;1,a;2,b"},
    "partial": {1: "id,qty,v;1,5,a;2,6,b", 2: "id,qty,v;1,,a;2,,B", 3: "id,qty,v;1,,a;2,7,B"},
    "heaped": {1: "v;a;a;b", 2: "v;a"},
    "swapped": {1: "v;a;a;b", 2: "v", 3: "v;c"},
}
SPLIT = sorted(name for name, extracts in FILES.items() if len(extracts) > 2)
"""These tables are made by the source ``two`` as well, which takes at most two extracts a batch."""
UNSPLIT = sorted(set(FILES) - set(SPLIT))
REFUSED = {
    "declared": [("SNAPSHOT_DELETES_TOO_MANY", "2026-01-02.csv")],
    "parted_guard": [("SNAPSHOT_DELETES_TOO_MANY", "2026-01-02.csv")],
    "hollow": [("SNAPSHOT_EMPTY", "2026-01-02.csv")],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[TemporaryProject, Outcome]:
    """Tables after one run: all their extracts in one batch, and at most two extracts a batch."""
    tables = {
        f"{source}.{name}": {"source": source, "keys": ["id"]} | declared
        for name, declared in TABLES.items()
        for source in SOURCES
        if source == "all" or name in SPLIT
    }
    project = TemporaryProject.make(tmp_path_factory.mktemp("options") / "project", SOURCES, tables)
    for name, extracts in FILES.items():
        for day, text in extracts.items():
            land(project.landing / "ext" / name, day, text)
    return project, project.attempt()


def land(folder: Path, day: int, text: str) -> None:
    write_text(folder / f"2026-01-{day:02}.csv", text.replace(";", "\n") + "\n")


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def told(project: TemporaryProject, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Operation, day of the extract and these columns of every event, sorted."""
    return sorted(
        ((r["_op"], r["_order"]["extract_time"].day, *[r[n] for n in names])
         for r in project.rows(f"{table}_changes")),
        key=repr,
    )  # fmt: skip


def current(project: TemporaryProject, table: str, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r[n] for n in names) for r in project.rows(table)), key=repr)


def versions(project: TemporaryProject, table: str, value: str) -> list[tuple[Any, ...]]:
    rows = project.rows(f"{table}_history")
    found = [(r["id"], r[value], r["effective_from"], r["effective_to"]) for r in rows]
    return sorted(found, key=lambda v: (v[0], v[2]))


Done = tuple[TemporaryProject, Outcome]
both = pytest.mark.parametrize("source", sorted(SOURCES))


@pytest.mark.parametrize("name", SPLIT)
def test_batches_of_extracts_make_no_difference(done: Done, name: str) -> None:
    project, _ = done

    def facts(table: str) -> list[str]:
        return sorted(
            repr(sorted((k, v) for k, v in r.items() if k != "_batch")) for r in project.rows(table)
        )

    assert facts(f"all.{name}_changes") == facts(f"two.{name}_changes") != []
    assert facts(f"all.{name}") == facts(f"two.{name}")
    assert facts(f"all.{name}_history") == facts(f"two.{name}_history")


@pytest.mark.parametrize(
    "table", [f"all.{n}" for n in UNSPLIT] + [f"{s}.{n}" for n in SPLIT for s in SOURCES]
)
def test_only_the_extracts_that_a_guard_names_are_refused(done: Done, table: str) -> None:
    error = done[1].failed.get(table)
    found = [(e.code, e.extract) for e in error.errors] if error else []  # type: ignore[attr-defined]
    assert found == REFUSED.get(table.partition(".")[2], [])


@both
def test_versions_start_at_the_value_of_their_column(done: Done, source: str) -> None:
    table = f"{source}.timed"
    assert versions(done[0], table, "name") == [
        ("1", "a", day("2025-12-01"), day("2025-12-15")),
        ("1", "A", day("2025-12-15"), None),
        ("2", "b", day("2026-01-01"), day("2026-01-02")),  # null: the extract's time
        ("2", "b", day("2026-01-02"), None),  # it returns with a value before its last end
        ("3", "c", day("2026-03-01"), None),
    ]
    (broken,) = done[0].rows(f"{table}_quarantine")
    assert (broken["_reasons"], broken["_position"]["row"]) == (["incompatible_type"], 3)


def test_a_column_may_tell_the_time_and_not_be_kept(done: Done) -> None:
    rows = done[0].rows("all.untold_changes")
    assert "since" not in rows[0]
    assert {(r["id"], r["name"], r["_time"]) for r in rows} == {
        ("1", "a", day("2026-01-01")), ("2", "b", day("2026-01-01")), ("2", "B", day("2019-01-01")),
    }  # fmt: skip


def test_a_declared_start_of_the_first_load_goes_before_its_columns(done: Done) -> None:
    rows = done[0].rows("all.started_changes")
    assert {(r["id"], r["name"], r["_time"]) for r in rows} == {
        ("1", "a", day("2020-01-01")), ("2", "b", day("2020-01-01")), ("1", "A", day("2025-02-01")),
    }  # fmt: skip


@both
def test_only_a_newer_timestamp_changes_a_row(done: Done, source: str) -> None:
    project, outcome = done
    assert versions(project, f"{source}.stamped", "v") == [
        ("1", "a", day("2025-01-01"), day("2025-01-02")),
        ("1", "b", day("2025-01-02"), None),
        ("2", None, day("2025-01-01"), None),
        # Null is the extract's time: 2026-01-01, when the row first appeared and changed nothing since.
        ("3", "c", day("2026-01-01"), None),
        ("4", "d", day("2027-01-01"), day("2027-01-02")),
        ("4", "D", day("2027-01-02"), None),
    ]
    # Not applied: 1 and 2 in the second extract, 4 there too (its extract's time is before 2027);
    # 3 in the third and fourth (2026-01-01 is not newer than itself); 4 in the fourth.
    counts = outcome.counts(f"{source}.stamped", "ingestion")
    assert sum(c["changed_without_newer_timestamp"] for c in counts) == 6
    assert [r for r in current(project, f"{source}.stamped", "id", "at") if r[0] == "1"] == [
        ("1", "2025-06-01")
    ]  # fmt: skip


@both
def test_a_returning_key_starts_no_earlier_than_it_ended(done: Done, source: str) -> None:
    assert versions(done[0], f"{source}.returned", "v") == [
        ("1", "a", day("2025-01-01"), day("2026-01-02")),
        ("1", "a", day("2026-01-02"), None),
        ("2", "b", day("2025-01-01"), day("2026-01-02")),
        ("2", "b", day("2026-01-03"), None),
        ("3", "c", day("2025-01-01"), None),
    ]


@both
def test_a_key_goes_with_the_first_extract_that_speaks_of_its_part(done: Done, source: str) -> None:
    deletes = [e[1:] for e in told(done[0], f"{source}.parted", "id") if e[0] == "delete"]
    # 2 is missed where n is spoken of; 1 is missed by the third (5 is in n now), 3 by the same (s);
    # 4 (null) by the fourth; 5 has moved to n, of which the fourth does not speak.
    assert deletes == [(2, "2"), (3, "1"), (3, "3"), (4, "4")]
    deletes = [e[1:] for e in told(done[0], f"{source}.parted_key", "region", "id") if e[0] == "delete"]
    assert deletes == [(2, "n", "1"), (3, "s", "1")]


@both
def test_the_part_of_a_row_is_that_of_the_row_that_is_held(done: Done, source: str) -> None:
    deletes = [e[1:] for e in told(done[0], f"{source}.parted_stamped", "id") if e[0] == "delete"]
    # The second extract puts 1 into s with an older stamp: it stays in n, of which the third is silent.
    # The second speaks of s by that row all the same, and lacks 3.
    assert deletes == [(2, "3"), (4, "1")]


def test_of_repeated_keys_the_newest_row_counts(done: Done) -> None:
    project, _ = done
    assert current(project, "all.newest", "id", "v") == [("1", "a"), ("2", "y"), ("3", "c")]
    assert len(told(project, "all.newest")) == 3
    assert project.rows("all.newest_quarantine") == []


@both
def test_a_declared_fraction_guards_small_tables_too(done: Done, source: str) -> None:
    assert current(done[0], f"{source}.declared", "id") == [("1",), ("2",)]
    # Of the nine rows the second extract speaks of three (n) and lacks two of them.
    assert current(done[0], f"{source}.parted_guard", "id") == [(i,) for i in "12456"]
    assert current(done[0], "all.unguarded", "id", "v") == [("1", "a"), ("2", "B")]


@both
def test_an_allowed_empty_extract_is_one_without_rows(done: Done, source: str) -> None:
    assert current(done[0], f"{source}.hollow", "id") == []
    assert [e for e in told(done[0], f"{source}.hollow", "id") if e[0] == "delete"] == [
        ("delete", 3, "1"), ("delete", 3, "2")
    ]  # fmt: skip


@both
def test_a_tombstone_is_a_delete_in_the_record(done: Done, source: str) -> None:
    assert told(done[0], f"{source}.marked", "id", "v") == [
        ("delete", 2, "1", None), ("upsert", 1, "1", "a"), ("upsert", 1, "2", "b"), ("upsert", 3, "1", "a")
    ]  # fmt: skip
    assert {r["_time"] for r in done[0].rows(f"{source}.marked_changes") if r["_op"] == "delete"} == {
        day("2026-01-02")
    }


@both
def test_a_null_that_means_unchanged_is_no_difference(done: Done, source: str) -> None:
    assert current(done[0], f"{source}.partial", "id", "qty", "v") == [("1", "5", "a"), ("2", "7", "B")]
    assert [e[:3] for e in told(done[0], f"{source}.partial", "id")] == [
        ("upsert", 1, "1"), ("upsert", 1, "2"), ("upsert", 2, "2"), ("upsert", 3, "2")
    ]  # fmt: skip


@both
def test_without_keys_every_row_is_an_event(done: Done, source: str) -> None:
    assert told(done[0], "all.heaped", "v") == [
        ("upsert", 1, "a"), ("upsert", 1, "a"), ("upsert", 1, "b"), ("upsert", 2, "a")
    ]  # fmt: skip
    # An empty extract that replaces the table says so by a truncate.
    assert told(done[0], f"{source}.swapped", "v") == [
        ("truncate", 2, None), ("upsert", 1, "a"), ("upsert", 1, "a"), ("upsert", 1, "b"), ("upsert", 3, "c")
    ]  # fmt: skip
