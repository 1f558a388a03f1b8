"""AWS DMS files of every shape that a task writes, in one project that runs three times."""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import Outcome, TemporaryProject, write_parquet, write_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

SEQUENCE = {"sequence_column": "seq", "timestamp_column": "ts"}
SOURCES: dict[str, Any] = {
    name: {"type": "dms", "path": f"${{globals:landing}}/{name}", **more}
    for name, more in {
        "plain": SEQUENCE,
        "single": SEQUENCE | {"max_files": 1},
        "timed": {"timestamp_column": "ts"},
        "bare": {},
        "text": SEQUENCE | {"file_format": "csv"},
        "headed": {
            "file_format": "csv",
            "csv": {
                "full_load": {"header": True},
                "changes": {
                    "columns": ["Op", "insured_value", "flood_coverage", "expiry_date", "policy_id"],
                    "delimiter": "|",
                },
            },
        },
    }.items()
}  # fmt: skip

POLICY_TYPES = {
    "policy_id": "int", "expiry_date": "date", "insured_value": "int", "flood_coverage": "string",
}  # fmt: skip
TABLES: dict[str, dict[str, Any]] = {
    "plain.landed": {"history": True},
    "plain.moved": {"keys": ["a", "b"], "history": True},
    "plain.burst": {"history": True},
    "timed.burst": {"history": True},
    "bare.letters": {"current": False, "history": True},
    "text.typed": {
        "types": {
            "id": "bigint", "name": "string", "amount": "decimal(10,2)", "day": "date",
            "ts": "timestamp_ntz", "seq": "decimal(38,0)",
        },
    },
    "headed.policy": {"keys": ["policy_id"], "types": POLICY_TYPES},
    "plain.shape": {"rename": {"nm": "name"}, "history": True},
    "plain.zero": {"columns": {"exclude": ["note"]}},
    "plain.steps": {"history": True},
    "single.steps": {},
    "plain.later": {"columns": {"include": ["name", "schema_name"]}},
    "plain.epoch": {
        "initial_valid_from": "epoch", "current": False, "history": {"track": {"include": ["name"]}},
    },
    "plain.dated": {
        "initial_valid_from": "2022-07-01", "current": False, "history": {"track": {"exclude": ["note"]}},
    },
    "plain.tie": {"history": True},
    "plain.tie_up": {"on_tie": "upsert_wins"},
    "plain.tie_fail": {"on_tie": "fail"},
    "plain.together": {"history": True},
    "plain.shuffled": {"history": True},
}  # fmt: skip

ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}
NOTED = ROW | {"note": pa.string()}
RULED = {"schema_name": pa.string(), "table_name": pa.string()}
OP = {"Op": pa.string()}
DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
LOADED = dt.datetime(2025, 12, 31)  # noqa: DTZ001


def at(second: int) -> dt.datetime:
    return DAY + dt.timedelta(seconds=second)


def events(*facts: tuple[str | None, int | None, Any, int | None], **more: Any) -> list[dict[str, Any]]:
    """Records with Op, id, name, sequence; the commit time follows the sequence."""
    return [
        {"Op": op, "id": i, "name": name, "seq": None if seq is None else str(seq), "ts": at(seq or 0)} | more
        for op, i, name, seq in facts
    ]


def declared(**changes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"source": name.partition(".")[0], "keys": ["id"]} | table | changes.get(name.split(".")[1], {})
        for name, table in TABLES.items()
    }


def land_everything(landing: Path) -> None:
    plain = landing / "plain"

    load = ROW | OP
    folder = plain / "landed"
    first = [{"Op": "I", "id": i, "name": n, "ts": LOADED, "seq": None} for i, n in ((1, "b"), (3, "x"))]
    write_parquet(folder / "LOAD00000001.parquet", first, load)
    second = [{"id": 4, "name": "four", "ts": LOADED, "seq": None}]
    write_parquet(folder / "LOAD00000002.parquet", second, ROW)
    write_parquet(
        folder / "2026/01/01/20260101-000005000.parquet",
        events(("I", 1, "a", 5), ("I", 2, "p", 6), ("D", 2, None, 7)), OP | ROW,
    )  # fmt: skip
    write_parquet(
        folder / "2026/01/02/20260102-000010000.parquet",
        events(("U", 1, "b", 10), ("D", 3, None, 12), ("U", 4, "vier", 13), ("I", 5, "f", 14)), OP | ROW,
    )  # fmt: skip

    keyed = {
        "Op": pa.string(), "a": pa.int64(), "b": pa.string(), "v": pa.string(),
        "BI_a": pa.int64(), "BI_b": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string(),
    }  # fmt: skip
    moves = [
        ("I", 1, "x", "v1", None, None), ("I", 2, "y", "v2", None, None), ("U", 1, "z", "v3", 1, "x"),
        ("U", 2, "y", "v4", 2, "y"), ("U", 1, "z", "v5", None, None),
    ]  # fmt: skip
    write_parquet(
        plain / "moved/20260101-000001000.parquet",
        [
            dict(zip(("Op", "a", "b", "v", "BI_a", "BI_b"), m, strict=True)) | {"seq": str(s), "ts": at(s)}
            for s, m in enumerate(moves, start=1)
        ],
        keyed,
    )

    # One transaction over two files: every commit time is the same.
    one = events(("I", 1, "a", 1), ("U", 1, "b", 2), ("D", 1, None, 3), ("I", 1, "c", 4), ("I", 2, "p", 5))
    two = events(("U", 1, "d", 6), ("D", 2, None, 7), ("I", 2, "q", 8))
    for source in ("plain", "timed"):
        for name, rows in (("20260101-000009000", one), ("20260101-000009001", two)):
            same_time = [r | {"ts": at(9)} for r in rows]
            write_parquet(landing / source / "burst" / f"{name}.parquet", same_time, OP | ROW)

    bare = {"id": pa.int64(), "name": pa.string()}
    folder = landing / "bare/letters"
    write_parquet(folder / "LOAD00000001.parquet", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], bare)
    write_parquet(
        folder / "20260101-000010000.parquet",
        [{"Op": o, "id": i, "name": n} for o, i, n in (("U", 1, "c"), ("D", 2, None), ("U", 1, "d"))],
        OP | bare,
    )

    write_text(
        landing / "text/typed/LOAD00000001.csv",
        '1,"one, ""1""",10.50,2026-01-02,2025-12-31 00:00:00,\n'
        "2,two,,,2025-12-31 00:00:00,\n3,drei,3,2026-01-03,,\n",
    )
    write_text(
        landing / "text/typed/20260101-000005000.csv",
        "U,2,zwei,0.05,2026-02-28,2026-01-01 00:00:05.123456,20260101000000000000000000000000005\n"
        "D,3,,,,2026-01-01 00:00:06,20260101000000000000000000000000006\n"
        "I,4,,7.00,2024-02-29,2026-01-01 00:00:07,20260101000000000000000000000000007\n",
    )
    write_text(
        landing / "headed/policy/LOAD00000001.csv",
        "flood_coverage,policy_id,expiry_date,insured_value\n"
        "N,100242,2021-01-02,1617630\nY,100314,2021-01-02,8678500\nN,100462,2021-01-02,1000\n",
    )
    write_text(
        landing / "headed/policy/20260101-000005000.csv",
        "U|1000|N|2024-12-31|100462\nI|210000|N, B|2024-12-31|110001\n"
        "U|2000|Y|2024-12-31|100462\nD||||100314\n",
    )

    old = {"id": pa.int64(), "nm": pa.string(), "extra": pa.string(), "ts": ROW["ts"], "seq": ROW["seq"]}
    write_parquet(
        plain / "shape/20260101-000001000.parquet",
        [
            {"Op": "I", "id": i, "nm": n, "extra": f"e{i}", "ts": at(i), "seq": str(i)}
            for i, n in ((1, "a"), (2, "b"))
        ],
        OP | old,
    )
    write_parquet(plain / "zero/LOAD00000001.parquet", [], dict.fromkeys(("id", "name", "qty"), pa.string()))

    steps = {
        "LOAD00000001": [e | {"ts": LOADED} for e in events((None, 1, "a", None), (None, 2, "b", None))],
        "20260101-000001000": events(("U", 1, "c", 1), ("I", 3, "x", 2)),
        "20260101-000002000": events(("D", 2, None, 3), ("U", 1, "d", 4)),
    }
    for source in ("plain", "single"):
        for name, rows in steps.items():
            columns = ROW if name.startswith("LOAD") else OP | ROW
            write_parquet(landing / source / "steps" / f"{name}.parquet", rows, columns)

    folder = plain / "later"
    ruled, more = OP | NOTED | RULED, {"note": "n", "schema_name": "dbo", "table_name": "later"}
    write_parquet(folder / "20260101-000001000.parquet", events(("I", 1, "now", 1), **more), ruled)
    ahead = write_parquet(folder / "20260101-000002000.parquet", events(("I", 2, "soon", 2), **more), ruled)
    stamp = ahead.stat().st_mtime + 3600
    os.utime(ahead, (stamp, stamp))
    for name in (
        "20260101-000003000.parquet.tmp", ".20260101-000003000.parquet", "_SUCCESS", "x.crc", "y.part",
        ".hidden/z.parquet", "_temporary/0/part.parquet",
    ):  # fmt: skip
        write_text(folder / name, "half a file")

    for name in ("epoch", "dated"):
        loaded = [{"id": i, "name": "a", "note": "n0", "ts": LOADED, "seq": None} for i in (1, 2)]
        write_parquet(plain / name / "LOAD00000001.parquet", loaded, NOTED)
        write_parquet(
            plain / name / "20260101-000001000.parquet",
            [*events(("U", 1, "a", 1), note="n1"), *events(("U", 2, "b", 2), note="n2")], OP | NOTED,
        )  # fmt: skip

    ties = [
        *events(("I", 1, "a", 1), ("U", 1, "b", 2), ("D", 1, None, 2)),
        *events(("I", 2, "p", 1), ("U", 2, "x", 3), ("U", 2, "y", 3)),
    ]
    for name in ("tie", "tie_up", "tie_fail"):
        write_parquet(plain / name / "20260101-000001000.parquet", ties, OP | ROW)

    for number, rows in enumerate(SHUFFLED):
        write_parquet(plain / "together" / f"20260101-00000{number}000.parquet", rows, OP | ROW)
    land_shuffled(landing, 4, 1)


def _shuffled() -> list[list[dict[str, Any]]]:
    """Six files of changes of six keys, with deletes, returns and an exact repeat of an earlier event."""
    chance = random.Random(20260101)  # noqa: S311
    files: list[list[dict[str, Any]]] = [[] for _ in range(6)]
    for seq in range(1, 61):
        op = chance.choice("IUUUD")
        name = None if op == "D" else chance.choice("abc")
        files[(seq - 1) // 10] += events((op, chance.randint(1, 6), name, seq))
    files[5].append(files[1][3])
    return files


SHUFFLED = _shuffled()


def land_shuffled(landing: Path, *numbers: int) -> None:
    for n in numbers:
        write_parquet(
            landing / "plain/shuffled" / f"20260101-00000{n}000.parquet", SHUFFLED[n], OP | ROW
        )  # fmt: skip


def land_second(landing: Path) -> None:
    plain = landing / "plain"
    new = {"id": pa.int64(), "name": pa.string(), "fresh": pa.int32(), "ts": ROW["ts"], "seq": ROW["seq"]}
    rows = [{"Op": "U", "id": 1, "name": "a2", "fresh": 7, "ts": at(9), "seq": "9"}]
    write_parquet(plain / "shape/20260101-000009000.parquet", rows, OP | new)
    typed = events(("I", 1, "n", 1), qty=3, note="n")
    write_parquet(plain / "zero/20260101-000001000.parquet", typed, OP | NOTED | {"qty": pa.int32()})
    steps = plain / "steps"
    shutil.copy(steps / "LOAD00000001.parquet", steps / "LOAD00000009.parquet")
    shutil.copy(steps / "20260101-000002000.parquet", steps / "20260101-000099000.parquet")
    ahead = plain / "later/20260101-000002000.parquet"
    stamp = ahead.stat().st_mtime - 7200
    os.utime(ahead, (stamp, stamp))
    land_shuffled(landing, 5, 0)


@dataclass
class Runs:
    """The project after its last run, and what was to be seen in between."""

    project: TemporaryProject
    outcomes: list[Outcome]
    seen: list[dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    project = TemporaryProject.make(tmp_path_factory.mktemp("dms") / "project", SOURCES, declared())
    found = Runs(project, [], [])

    def run() -> None:
        found.outcomes.append(project.attempt())
        watched = ("plain.steps", "plain.steps_history", "plain.tie_fail_changes", "plain.zero_changes")
        found.seen.append({t: project.state(t) for t in watched} | {"later": project.rows("plain.later")})

    land_everything(project.landing)
    run()
    land_second(project.landing)
    project.declare(SOURCES, declared(tie_fail={"on_tie": "delete_wins"}))
    run()
    land_shuffled(project.landing, 3, 2)
    run()
    return found


def by_id(rows: list[dict[str, Any]], *names: str) -> dict[Any, Any]:
    found = {r["id"]: tuple(r[n] for n in names) for r in rows}
    assert len(found) == len(rows)
    return found if len(names) > 1 else {k: v for k, (v,) in found.items()}


def versions(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Versions in the order of their keys and orders: key, named columns, from, to (sequence numbers)."""
    ordered = sorted(rows, key=lambda r: (r["id"], r["_order_from"]["seq"]))
    return [
        (
            r["id"], *(r[n] for n in names), int(r["_order_from"]["seq"]),
            r["_order_to"] and int(r["_order_to"]["seq"]),
        )
        for r in ordered
    ]  # fmt: skip


def columns_of(runs: Runs, table: str) -> dict[str, str]:
    return {n: t.simpleString() for n, t in runs.project.state(table).columns.items() if n != "_order"}


def test_a_load_and_its_log_overlap_freely_over_nested_date_folders(runs: Runs) -> None:
    rows = runs.project.rows("plain.landed")
    assert by_id(rows, "name") == {1: "b", 4: "vier", 5: "f"}
    assert {r["id"]: int(r["_order"]["seq"]) for r in rows} == {1: 10, 4: 13, 5: 14}
    assert versions(runs.project.rows("plain.landed_history"), "name") == [
        (1, "b", 0, 5), (1, "a", 5, 10), (1, "b", 10, None), (2, "p", 6, 7),
        (3, "x", 0, 12), (4, "four", 0, 13), (4, "vier", 13, None), (5, "f", 14, None),
    ]  # fmt: skip


def test_a_full_load_is_known_by_its_name_even_with_an_op_column(runs: Runs) -> None:
    recorded = [r for r in runs.project.rows("plain.landed_changes") if r["_order"]["seq"] == 0]
    assert sorted((r["id"], r["_op"], r["_time"]) for r in recorded) == [
        (i, "upsert", LOADED) for i in (1, 3, 4)
    ]  # fmt: skip


def test_control_columns_stay_out(runs: Runs) -> None:
    assert columns_of(runs, "plain.landed") == {"id": "bigint", "name": "string"}
    assert columns_of(runs, "plain.moved") == {"a": "bigint", "b": "string", "v": "string"}


def test_a_key_change_ends_the_old_key_and_starts_the_new_one(runs: Runs) -> None:
    rows = {(r["a"], r["b"]): r["v"] for r in runs.project.rows("plain.moved")}
    assert rows == {(1, "z"): "v5", (2, "y"): "v4"}
    history = [
        (r["a"], r["b"], r["v"], int(r["_order_from"]["seq"]), r["_order_to"] and int(r["_order_to"]["seq"]))
        for r in runs.project.rows("plain.moved_history")
    ]
    assert sorted(history, key=lambda v: v[3:4] + v[:1]) == [
        (1, "x", "v1", 1, 3), (2, "y", "v2", 2, 4), (1, "z", "v3", 3, 5),
        (2, "y", "v4", 4, None), (1, "z", "v5", 5, None),
    ]  # fmt: skip
    (counts,) = runs.outcomes[0].counts("plain.moved", "ingestion")
    assert (counts["events_in"], counts["applied"]) == (6, 6)


@pytest.mark.parametrize("source", ["plain", "timed"])
def test_one_transaction_is_folded_in_its_own_order(runs: Runs, source: str) -> None:
    assert by_id(runs.project.rows(f"{source}.burst"), "name") == {1: "d", 2: "q"}
    rows = runs.project.rows(f"{source}.burst_history")
    ordered = sorted(rows, key=lambda r: (r["id"], tuple(r["_order_from"].values())))
    assert [(r["id"], r["name"], r["effective_from"], r["effective_to"]) for r in ordered] == [
        (1, "a", at(9), at(9)), (1, "b", at(9), at(9)), (1, "c", at(9), at(9)), (1, "d", at(9), None),
        (2, "p", at(9), at(9)), (2, "q", at(9), None),
    ]  # fmt: skip


def test_without_a_sequence_the_order_is_commit_time_file_and_row(runs: Runs) -> None:
    orders = {r["id"]: r["_order"] for r in runs.project.rows("timed.burst")}
    name = "20260101-000009001.parquet"
    assert orders == {
        1: {"ts": at(9), "file_name": name, "row_number": 1},
        2: {"ts": at(9), "file_name": name, "row_number": 3},
    }


def test_without_any_timestamp_the_file_name_says_when(runs: Runs) -> None:
    name = "20260101-000010000.parquet"
    rows = runs.project.rows("bare.letters_history")
    found = [
        (r["id"], r["name"], r["_order_from"]["row_number"], r["effective_from"], r["effective_to"])
        for r in rows
    ]
    assert sorted(found) == [
        (1, "a", 1, "", name), (1, "c", 1, name, name), (1, "d", 3, name, None), (2, "b", 2, "", name)
    ]  # fmt: skip


def test_headerless_csv_takes_names_and_types_from_the_declaration(runs: Runs) -> None:
    assert by_id(runs.project.rows("text.typed"), "name", "amount", "day") == {
        1: ('one, "1"', Decimal("10.50"), dt.date(2026, 1, 2)),
        2: ("zwei", Decimal("0.05"), dt.date(2026, 2, 28)),
        4: (None, Decimal("7.00"), dt.date(2024, 2, 29)),
    }
    assert columns_of(runs, "text.typed") == {
        "id": "bigint", "name": "string", "amount": "decimal(10,2)", "day": "date"
    }  # fmt: skip
    times = {r["id"]: (r["_order"]["seq"], r["_time"]) for r in runs.project.rows("text.typed_changes")}
    assert times[1] == (0, LOADED)
    assert times[4] == (Decimal(20260101000000000000000000000000007), at(7))
    two = [r for r in runs.project.rows("text.typed_changes") if r["id"] == 2]
    assert max(r["_time"] for r in two) == at(5).replace(microsecond=123456)


def test_a_full_load_may_have_a_header_where_the_columns_of_its_changes_are_declared(runs: Runs) -> None:
    rows = runs.project.rows("headed.policy")
    found = {r["policy_id"]: (r["expiry_date"], r["insured_value"], r["flood_coverage"]) for r in rows}
    assert found == {
        100242: (dt.date(2021, 1, 2), 1617630, "N"),
        100462: (dt.date(2024, 12, 31), 2000, "Y"),
        110001: (dt.date(2024, 12, 31), 210000, "N, B"),
    }


def test_columns_added_dropped_and_renamed_make_no_version_of_untouched_keys(runs: Runs) -> None:
    rows = runs.project.rows("plain.shape")
    assert by_id(rows, "name", "extra", "fresh") == {1: ("a2", None, 7), 2: ("b", "e2", None)}
    history = runs.project.rows("plain.shape_history")
    assert versions(history, "name", "extra", "fresh") == [
        (1, "a", "e1", None, 1, 9), (1, "a2", None, 7, 9, None), (2, "b", "e2", None, 2, None)
    ]  # fmt: skip
    (counts,) = runs.outcomes[1].counts("plain.shape", "history")
    assert (counts["opened"], counts["closed"], counts["rewritten"], counts["removed"]) == (1, 1, 0, 0)
    assert "nm" not in columns_of(runs, "plain.shape")


def test_a_load_without_rows_gives_no_types(runs: Runs) -> None:
    assert runs.seen[0]["plain.zero_changes"] is None
    assert columns_of(runs, "plain.zero") == {"id": "bigint", "name": "string", "qty": "int"}
    assert by_id(runs.project.rows("plain.zero"), "name", "qty") == {1: ("n", 3)}


@pytest.mark.parametrize("source", ["plain", "single"])
def test_one_file_a_batch_or_all_at_once_ends_the_same(runs: Runs, source: str) -> None:
    assert by_id(runs.project.rows(f"{source}.steps"), "name") == {1: "d", 3: "x"}


def test_a_load_and_its_changes_in_one_batch_give_every_version(runs: Runs) -> None:
    assert versions(runs.project.rows("plain.steps_history"), "name") == [
        (1, "a", 0, 1), (1, "c", 1, 4), (1, "d", 4, None), (2, "b", 0, 3), (3, "x", 2, None)
    ]  # fmt: skip


def test_max_files_cuts_a_backlog_into_batches_of_one_run(runs: Runs) -> None:
    reports = [r for r in runs.outcomes[0].reports if r.table == "single.steps"]
    ingested = sorted((r.batch, r.counts["applied"]) for r in reports if r.stage == "ingestion")
    assert ingested == [(1, 2), (2, 2), (3, 2)]
    assert [(r.batch, r.batches) for r in reports if r.stage == "current"] == [(3, 3)]
    assert {r["_batch"] for r in runs.project.rows("single.steps_changes")} == {1, 2, 3}


def test_files_delivered_again_under_other_names_change_nothing(runs: Runs) -> None:
    (counts,) = runs.outcomes[1].counts("plain.steps", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["duplicates"]) == (4, 0, 4)
    for stored in ("plain.steps", "plain.steps_history"):
        before, after = runs.seen[0][stored], runs.seen[1][stored]
        assert before.snapshot_id == after.snapshot_id
        assert after.batch == 2


def test_a_file_from_the_future_is_taken_whatever_this_clock_says(runs: Runs) -> None:
    assert by_id(runs.seen[0]["later"], "name") == {1: "now", 2: "soon"}


def test_unfinished_and_hidden_files_are_passed_over(runs: Runs) -> None:
    assert "plain.later" not in runs.outcomes[0].failed
    names = {r["_position"]["file"] for r in runs.project.rows("plain.later_changes")}
    assert names == {"20260101-000001000.parquet", "20260101-000002000.parquet"}


def test_the_first_versions_may_start_at_the_epoch(runs: Runs) -> None:
    rows = runs.project.rows("plain.epoch_history")
    found = {(r["id"], r["name"]): (r["note"], r["effective_from"], r["effective_to"]) for r in rows}
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001
    assert found == {
        (1, "a"): ("n1", epoch, None),
        (2, "a"): ("n0", epoch, at(2)),
        (2, "b"): ("n2", at(2), None),
    }


def test_the_first_versions_may_start_on_a_date_without_a_current_table(runs: Runs) -> None:
    rows = runs.project.rows("plain.dated_history")
    found = {(r["id"], r["name"]): (r["note"], r["effective_from"], r["effective_to"]) for r in rows}
    first = dt.datetime(2022, 7, 1)  # noqa: DTZ001
    assert found == {
        (1, "a"): ("n1", first, None),
        (2, "a"): ("n0", first, at(2)),
        (2, "b"): ("n2", at(2), None),
    }
    assert runs.project.state("plain.dated") is None


@pytest.mark.parametrize(("table", "names"), [("tie", {2: "y"}), ("tie_up", {1: "b", 2: "y"})])
def test_of_tied_events_the_declared_one_wins(runs: Runs, table: str, names: dict[int, str]) -> None:
    assert by_id(runs.project.rows(f"plain.{table}"), "name") == names
    (counts,) = runs.outcomes[0].counts(f"plain.{table}", "ingestion")
    assert (counts["applied"], counts["sequence_ties"]) == (6, 2)


def test_a_tie_is_no_version(runs: Runs) -> None:
    history = versions(runs.project.rows("plain.tie_history"), "name")
    assert history == [(1, "a", 1, 2), (2, "p", 1, 3), (2, "y", 3, None)]


def test_ties_may_be_refused_until_the_declaration_allows_them(runs: Runs) -> None:
    error = runs.outcomes[0].failed["plain.tie_fail"]
    assert error.code == "SEQUENCE_TIE"  # type: ignore[attr-defined]
    state = runs.seen[0]["plain.tie_fail_changes"]
    assert (state.rows, state.batch, state.branches) == (0, 0, [])
    assert set(runs.outcomes[0].failed) == {"plain.tie_fail"}
    assert runs.outcomes[1].failed == {}
    assert by_id(runs.project.rows("plain.tie_fail"), "name") == {2: "y"}


def test_columns_are_included_and_excluded(runs: Runs) -> None:
    assert columns_of(runs, "plain.later") == {"id": "bigint", "name": "string", "schema_name": "string"}
    assert {r["schema_name"] for r in runs.project.rows("plain.later")} == {"dbo"}
    assert columns_of(runs, "plain.zero") == {"id": "bigint", "name": "string", "qty": "int"}


def test_the_order_of_arrival_does_not_matter(runs: Runs) -> None:
    for suffix in ("", "_history"):
        together = runs.project.rows(f"plain.together{suffix}")
        shuffled = runs.project.rows(f"plain.shuffled{suffix}")
        assert sorted(map(repr, shuffled)) == sorted(map(repr, together))
    last: dict[int, dict[str, Any]] = {}
    for event in sorted((e for f in SHUFFLED for e in f), key=lambda e: int(e["seq"])):
        last[event["id"]] = event
    rows = by_id(runs.project.rows("plain.shuffled"), "name")
    assert rows == {i: e["name"] for i, e in last.items() if e["Op"] != "D"}
    (late,) = [c["late"] for c in runs.outcomes[1].counts("plain.shuffled", "history")]
    assert late > 0


def test_every_event_is_counted_once(runs: Runs) -> None:
    assert runs.outcomes[2].failed == {}
    assert {r.table for r in runs.outcomes[2].reports} == {"plain.shuffled"}
    rows = [r for r in runs.project.ops("batches") if r["stage"] == "ingestion"]
    for row in rows:
        assert row["events_in"] == row["applied"] + row["duplicates"] + row["quarantined"]
    shuffled = [r for r in rows if r["table"] == "plain.shuffled"]
    assert sum(r["applied"] for r in shuffled) == 60
    assert sum(r["duplicates"] for r in shuffled) == 1
    assert sorted(r["batch"] for r in shuffled) == [1, 2, 3]
