"""Full extracts: backlogs diffed in one pass, each judged before it counts."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import Outcome, TemporaryProject, write_text

from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.ingestion import reading
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile, shapes
from kedro_lakehouse.sources.line_runs import read_runs
from kedro_lakehouse.sources.read import number_lines, read_groups

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

EXTRACTS = {"type": "extract", "path": "${globals:landing}/ext", "pattern": "*.csv", "file_format": "csv"}
SOURCES: dict[str, Any] = {
    "ext": EXTRACTS | {"extract_time": {"from": "name", "pattern": "%Y-%m-%d"}},
    "mod": EXTRACTS | {"extract_time": {"from": "modified"}},
}
TABLES: dict[str, dict[str, Any]] = {
    "ext.walk": {"history": True},
    "ext.dirty": {"types": {"id": "string", "name": "string", "qty": "int"}},
    "ext.guarded": {},
    "ext.shrunk": {},
    "ext.waiting": {},
    "ext.emptied": {"allow_empty_extract": True},
    "ext.late": {},
    "ext.kept": {"hard_deletes": "ignore"},
    "ext.small": {},
    "ext.renamed": {"rename": {"Company": "name", "Security": "name"}, "history": True},
    "mod.touched": {},
}


def declared(**changes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"source": name.partition(".")[0], "keys": ["id"]} | table | changes.get(name.split(".")[1], {})
        for name, table in TABLES.items()
    }


def land(folder: Path, day: int, lines: list[str], header: str = "id,name") -> Path:
    return write_text(folder / f"2026-01-{day:02}.csv", "\n".join([header, *lines]) + "\n")


def rows_from(first: int, last: int) -> list[str]:
    return [f"{i},n{i}" for i in range(first, last + 1)]


def touch(file: Path, day: int) -> None:
    stamp = day_of(day).timestamp()
    os.utime(file, (stamp, stamp))


def day_of(day: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, tzinfo=dt.UTC)


def land_everything(landing: Path) -> None:
    ext = landing / "ext"
    land(ext / "walk", 1, ["1,a", "2,b", "3,c"])
    land(ext / "walk", 2, ["1,a", "2,B", "4,d"])
    land(ext / "walk", 3, ["1,a", "2,B", "3,c"])
    land(ext / "walk", 4, ["1,a", "2,B", "3,c", '5,"e, ""5"""'])

    typed = "id,name,qty"
    land(ext / "dirty", 1, ["1,a,1", "2,b,2", "3,c,3", "4,d,4"], typed)
    land(ext / "dirty", 2, ["1,a,10", "2,b,20", "2,b,21", "3,c", "4,d,four", "5,e,5", ",f,6"], typed)

    land(ext / "guarded", 1, rows_from(1, 120))
    land(ext / "guarded", 2, [])
    land(ext / "guarded", 3, rows_from(1, 60))
    land(ext / "guarded", 4, rows_from(2, 121))
    land(ext / "shrunk", 1, rows_from(1, 100))
    land(ext / "shrunk", 2, rows_from(1, 69))
    land(ext / "waiting", 1, rows_from(1, 100))
    land(ext / "waiting", 2, rows_from(1, 69))
    land(ext / "emptied", 1, rows_from(1, 120))
    land(ext / "emptied", 2, [])
    land(ext / "late", 10, ["1,a"])
    land(ext / "kept", 1, ["1,a", "2,b"])
    land(ext / "kept", 2, ["1,A"])
    land(ext / "small", 1, rows_from(1, 99))
    land(ext / "small", 2, rows_from(99, 99))
    land(ext / "renamed", 1, ["1,a", "2,b"], "id,Company")
    land(ext / "renamed", 2, ["a,1", "B,2"], "Security,id")
    # By their times the file that comes last by name is the first.
    touch(land(ext / "touched", 20, ["1,old", "2,gone"]), 5)
    touch(land(ext / "touched", 10, ["1,new"]), 6)


def land_second(landing: Path) -> None:
    ext = landing / "ext"
    again = land(ext / "walk", 4, ["1,a", "2,B", "3,c", '5,"e, ""5"""'])
    touch(again, 15)
    land(ext / "kept", 3, ["1,A"])
    land(ext / "late", 5, ["1,older", "2,older"])


@dataclass
class Runs:
    """The project after its last run, and what was to be seen in between."""

    project: TemporaryProject
    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    project = TemporaryProject.make(tmp_path_factory.mktemp("ext") / "project", SOURCES, declared())
    found = Runs(project)

    def run() -> None:
        found.outcomes.append(project.attempt())
        found.rows.append({t: project.rows(t) for t in TABLES})
        found.states.append({t: project.state(f"{t}_changes") for t in TABLES})

    land_everything(project.landing)
    with pytest.MonkeyPatch.context() as patch:  # as if the files were large
        patch.setattr(reading, "BYTES_IN_RUNS", 0)
        patch.setattr(reading, "FILES_IN_RUNS", 2)
        run()
    land_second(project.landing)
    project.declare(SOURCES, declared(shrunk={"max_delete_fraction": 1.0}))
    run()
    run()
    return found


def names(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = {r["id"]: r["name"] for r in rows}
    assert len(found) == len(rows)
    return found


def codes(error: BaseException) -> list[tuple[str, str]]:
    assert getattr(error, "code", None) == "EXTRACTS_REFUSED"
    return [(e.code, e.extract) for e in error.errors]  # type: ignore[attr-defined]


def numbered(first: int, last: int) -> dict[str, str]:
    return {str(i): f"n{i}" for i in range(first, last + 1)}


def test_a_backlog_of_extracts_is_diffed_one_after_the_other(runs: Runs) -> None:
    assert names(runs.rows[0]["ext.walk"]) == {"1": "a", "2": "B", "3": "c", "5": 'e, "5"'}
    history = [
        (r["id"], r["name"], r["effective_from"], r["effective_to"])
        for r in runs.project.rows("ext.walk_history")
    ]
    assert sorted(history, key=lambda v: (v[0], v[2])) == [
        ("1", "a", day_of(1), None),
        ("2", "b", day_of(1), day_of(2)),
        ("2", "B", day_of(2), None),
        ("3", "c", day_of(1), day_of(2)),
        ("3", "c", day_of(3), None),
        ("4", "d", day_of(2), day_of(3)),
        ("5", 'e, "5"', day_of(4), None),
    ]


def test_unchanged_rows_make_no_events(runs: Runs) -> None:
    (counts,) = runs.outcomes[0].counts("ext.walk", "ingestion")
    # 13 rows: three new, then 2 and 4, then 3, then 5 are upserts; 3 and 4 are deleted once each.
    assert (counts["events_in"], counts["applied"], counts["duplicates"]) == (9, 9, 0)
    assert counts["unchanged"] == 13 - 7
    events = runs.project.rows("ext.walk_changes")
    found = {(r["id"], r["_op"], r["_order"]["extract_name"]) for r in events}
    assert found == {
        *((i, "upsert", "2026-01-01.csv") for i in "123"), ("2", "upsert", "2026-01-02.csv"),
        ("3", "delete", "2026-01-02.csv"), ("4", "upsert", "2026-01-02.csv"),
        ("3", "upsert", "2026-01-03.csv"), ("4", "delete", "2026-01-03.csv"),
        ("5", "upsert", "2026-01-04.csv"),
    }  # fmt: skip


def test_a_key_whose_row_is_quarantined_keeps_its_former_row(runs: Runs) -> None:
    found = {r["id"]: (r["name"], r["qty"]) for r in runs.rows[0]["ext.dirty"]}
    assert found == {"1": ("a", 10), "2": ("b", 2), "3": ("c", 3), "4": ("d", 4), "5": ("e", 5)}


def test_broken_rows_of_an_extract_are_quarantined_with_their_reasons(runs: Runs) -> None:
    rows = runs.project.rows("ext.dirty_quarantine")
    assert {(r["_position"]["file"], r["_position"]["row"], *r["_reasons"]) for r in rows} == {
        ("2026-01-02.csv", 2, "duplicate_key"),
        ("2026-01-02.csv", 3, "duplicate_key"),
        ("2026-01-02.csv", 4, "malformed"),
        ("2026-01-02.csv", 5, "incompatible_type"),
        ("2026-01-02.csv", 7, "null_key"),
    }
    assert {(r["_reasons"][0], *r["_columns"]) for r in runs.project.rows("ext.dirty_quarantine")} == {
        ("duplicate_key",), ("malformed",), ("incompatible_type", "qty"), ("null_key", "id")
    }  # fmt: skip
    (counts,) = runs.outcomes[0].counts("ext.dirty", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["quarantined"]) == (11, 6, 5)
    assert counts["unchanged"] == 0


def test_empty_and_shrunken_extracts_are_refused_and_the_others_go_on(runs: Runs) -> None:
    assert codes(runs.outcomes[0].failed["ext.guarded"]) == [
        ("SNAPSHOT_EMPTY", "2026-01-02.csv"), ("SNAPSHOT_DELETES_TOO_MANY", "2026-01-03.csv")
    ]  # fmt: skip
    assert "2026-01-02.csv" in str(runs.outcomes[0].failed["ext.guarded"])
    assert "2026-01-03.csv" in str(runs.outcomes[0].failed["ext.guarded"])
    assert names(runs.rows[0]["ext.guarded"]) == numbered(2, 121)
    (counts,) = runs.outcomes[0].counts("ext.guarded", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["unchanged"]) == (122, 122, 119)


def test_a_run_with_refused_extracts_fails_and_names_only_their_tables(runs: Runs) -> None:
    refused = ("ext.guarded", "ext.shrunk", "ext.waiting")
    assert set(runs.outcomes[0].failed) == set(refused)
    assert runs.outcomes[0].retry == ""  # they would be refused again
    (failed, *_) = sorted(runs.project.ops("runs"), key=lambda r: r["started_at"])
    assert {f["table"]: f["code"] for f in failed["failed"]} == dict.fromkeys(refused, "EXTRACTS_REFUSED")


def test_a_refused_extract_is_judged_and_told_once_and_stays_to_be_seen(runs: Runs) -> None:
    assert codes(runs.outcomes[0].failed["ext.waiting"]) == [("SNAPSHOT_DELETES_TOO_MANY", "2026-01-02.csv")]
    assert "ext.waiting" not in {*runs.outcomes[1].failed, *runs.outcomes[2].failed}
    recorded = [r for r in runs.project.ops("batch_ledger") if r["table"] == "ext.waiting" and r["waiting"]]
    assert len(recorded) == 1
    states = {one.table: one for one in runs.project.statuses()}
    assert (states["ext.waiting"].state, states["ext.waiting"].reason) == (
        "refused", "2026-01-02.csv lacks 31 of 100 rows, the limit is 0.3 of them"
    )  # fmt: skip
    assert {one.state for one in states.values() if one.table != "ext.waiting"} == {"fresh"}


def test_a_shrunken_newest_extract_waits_until_its_guard_lets_it_through(runs: Runs) -> None:
    assert codes(runs.outcomes[0].failed["ext.shrunk"]) == [
        ("SNAPSHOT_DELETES_TOO_MANY", "2026-01-02.csv")
    ]  # fmt: skip
    assert names(runs.rows[0]["ext.shrunk"]) == numbered(1, 100)
    assert "ext.shrunk" not in runs.outcomes[1].failed
    assert names(runs.rows[1]["ext.shrunk"]) == numbered(1, 69)
    assert [s["ext.shrunk"].batch for s in runs.states] == [1, 2, 2]


def test_an_extract_may_be_empty_where_that_is_declared(runs: Runs) -> None:
    assert runs.rows[0]["ext.emptied"] == []
    (counts,) = runs.outcomes[0].counts("ext.emptied", "ingestion")
    assert counts["applied"] == 240


def test_below_a_hundred_rows_nothing_is_judged(runs: Runs) -> None:
    assert names(runs.rows[0]["ext.small"]) == {"99": "n99"}


def test_an_extract_older_than_the_last_is_refused_once(runs: Runs) -> None:
    assert codes(runs.outcomes[1].failed["ext.late"]) == [("SNAPSHOT_OUT_OF_ORDER", "2026-01-05.csv")]
    assert set(runs.outcomes[1].failed) == {"ext.late"}
    assert names(runs.rows[1]["ext.late"]) == {"1": "a"}
    assert runs.states[0]["ext.late"].snapshot_id == runs.states[1]["ext.late"].snapshot_id
    assert runs.outcomes[2].failed == {}
    assert runs.outcomes[2].reports == []


def test_an_extract_delivered_again_commits_nothing(runs: Runs) -> None:
    assert [r for r in runs.outcomes[1].reports if r.table == "ext.walk"] == []
    before, after = runs.states[0]["ext.walk"], runs.states[1]["ext.walk"]
    assert (before.snapshot_id, before.batch) == (after.snapshot_id, after.batch)


def test_the_time_of_an_extract_may_be_that_of_its_modification(runs: Runs) -> None:
    assert names(runs.rows[0]["mod.touched"]) == {"1": "new"}
    times = {(r["id"], r["_op"], r["_time"]) for r in runs.project.rows("mod.touched_changes")}
    assert times == {
        ("1", "upsert", day_of(5)), ("2", "upsert", day_of(5)),
        ("1", "upsert", day_of(6)), ("2", "delete", day_of(6)),
    }  # fmt: skip


def test_hard_deletes_may_be_ignored(runs: Runs) -> None:
    assert names(runs.rows[0]["ext.kept"]) == {"1": "A", "2": "b"}


def test_an_extract_without_a_difference_is_accepted_and_changes_nothing(runs: Runs) -> None:
    (counts,) = runs.outcomes[1].counts("ext.kept", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["unchanged"]) == (0, 0, 1)
    assert runs.rows[1]["ext.kept"] == runs.rows[0]["ext.kept"]


def test_a_renamed_header_is_mapped_to_one_column(runs: Runs) -> None:
    assert names(runs.rows[0]["ext.renamed"]) == {"1": "a", "2": "B"}
    history = runs.project.rows("ext.renamed_history")
    assert sorted((r["id"], r["name"], r["is_current"]) for r in history) == [
        ("1", "a", True), ("2", "B", True), ("2", "b", False)
    ]  # fmt: skip


def test_lines_that_were_not_numbered_are_numbered_from_the_blocks_of_their_file(
    runs: Runs, tmp_path: Path
) -> None:
    files = [
        land(tmp_path, day, [f"{day},{n}" for n in range(1, 1001 * day)], "day,line") for day in (1, 2, 3)
    ]
    landed = [LandedFile(f"file://{f}", f.stat().st_size, 1) for f in files]
    reading: dict[str, Any] = {
        "file_format": "csv", "headers": {"full_load": True}, "options": {"full_load": CsvOptions()},
    }  # fmt: skip
    found_shapes = shapes(
        [(f, "full_load") for f in landed], table=TableName("a", "b"), fallback={}, **reading
    )
    session = runs.project._project.session
    small = {"spark.sql.files.maxPartitionBytes": "3000", "spark.sql.files.openCostInBytes": "0"}
    before = {name: session.conf.get(name) for name in small}
    for name, value in small.items():
        session.conf.set(name, value)
    try:
        (group,) = read_groups(session, found_shapes, numbered=False, **reading)
        read = group.records.persist()
        assert read.rdd.getNumPartitions() > 5
        chosen = read.where("line % 7 = 0")
        found = number_lines(chosen, read).select("line", "_position.row", "_position.file").collect()
        read.unpersist()
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
    assert len(found) == sum((1001 * day - 1) // 7 for day in (1, 2, 3))
    assert all(int(r["line"]) == r["row"] for r in found)
    assert {r["file"] for r in found} == {f.name for f in files}


def lines_of(number: int) -> list[str]:
    """The lines of one of many files: some are in all of them, some come and go, some are not right."""
    steady = [f"{n},n{n},{n * n}" for n in range(20)]
    changing = [f"{100 + n},{number // (n + 1)},x" for n in range(20)]
    gone = [f"{200 + n},a,b" for n in range(20) if number % (n + 2)]
    odd = ["", "  ", "300,too,many,values", "301,few", '302,"a ""quoted"", one",', ",no key,", '303," x ",ä€']
    return [*steady, *changing, *gone, *odd, *(["7,twice,", "7,twice,"] if number % 30 == 1 else [])]


def test_runs_of_equal_lines_are_the_lines_of_every_file(runs: Runs, tmp_path: Path) -> None:
    count = 130  # more than the bits of two numbers
    files = [
        write_text(tmp_path / f"day {n:03}+.csv", "\n".join(["id,name,qty", *lines_of(n)]) + "\n")
        for n in range(1, count + 1)
    ]
    landed = [LandedFile(f"file://{f}", f.stat().st_size, 1) for f in files]
    session, options = runs.project._project.session, CsvOptions()
    reading: dict[str, Any] = {
        "file_format": "csv", "headers": {"full_load": True}, "options": {"full_load": options},
    }  # fmt: skip
    table = TableName("a", "b")
    looked = shapes([(f, "full_load") for f in landed], table=table, fallback={}, **reading)
    (plain,) = read_groups(session, looked, **reading)
    group = read_runs(session, looked, options, header=True)
    assert group is not None
    told = ["id", "name", "qty", "__malformed", "_raw"]
    each = Counter((r["__file"], *[r[c] for c in told]) for r in plain.records.collect())
    records, numbers = group.records.collect(), {f.name: n for n, f in enumerate(files, start=1)}
    found = Counter(
        (files[n - 1].name, *[r[c] for c in told])
        for r in records
        for n in range(numbers[r["__file"]], r["_position"]["until"] + 1)
    )
    assert found == each
    assert len(records) < each.total() / 4
    # A line that looks like the header is told twice, so that files with one are read line by line.
    write_text(files[0], "id,name,qty\n1,a,b\nid,name,qty\n")
    again = read_runs(session, looked, options, header=True)
    assert again is not None
    assert again.records.where("id = 'id'").count() > 1
    write_text(files[1], '"id",name,qty\n1,a,b\n')
    assert read_runs(session, looked, options, header=True) is None
