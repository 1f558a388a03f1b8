"""Broken rows, files and declarations: each stays where it is, and everything else goes on."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import json
import logging
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import Outcome, TemporaryProject, write_parquet, write_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

CANARY = "kanarienvogel"
LANDING = {"type": "dms", "path": "${globals:landing}/shop"}
SOURCES: dict[str, Any] = {
    "shop": LANDING | {"sequence_column": "seq", "timestamp_column": "ts"},
    "text": LANDING | {"sequence_column": "seq", "file_format": "csv"},
}
TYPES = {"seq": "decimal(38,0)", "id": "bigint", "qty": "int", "price": "decimal(6,2)", "day": "date"}
TABLES: dict[str, dict[str, Any]] = {
    "shop.mixed": {
        "keys": ["id", "part"], "history": True,
        "checks": {"positive": "qty > 0", "named": "name <> 'nobody'"},
    },
    "text.typed": {"types": TYPES},
    "text.all_bad": {"types": TYPES},
    "shop.only_deletes": {"history": True},
    "shop.torn": {"current": False},
    "text.torn_gz": {"types": TYPES},
    "shop.no_bytes": {"current": False},
    "shop.nowhere": {"current": False},
    "shop.no_op": {"current": False},
    "shop.no_key": {"current": False},
    "shop.no_sequence": {"current": False},
    "shop.reserved": {"current": False},
    "shop.cased": {"current": False},
    "shop.drift": {},
    "shop.wider": {},
    "shop.limit": {"max_invalid_fraction": 0.25},
}  # fmt: skip
ROW = {"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}
FILE = "20260101-000001000"
DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it


def declared(**changes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"source": name.partition(".")[0], "keys": ["id"]} | table | changes.get(name.split(".")[1], {})
        for name, table in TABLES.items()
    }


def row(op: str | None, key: int | None, seq: int | None, name: str | None = CANARY, **more: Any) -> Any:
    return {
        "Op": op, "id": key, "name": name, "ts": DAY + dt.timedelta(seconds=seq or 0),
        "seq": None if seq is None else str(seq),
    } | more  # fmt: skip


def land(
    folder: Path, rows: list[Any], schema: dict[str, pa.DataType] | None = None, name: str = FILE
) -> Path:
    return write_parquet(folder / f"{name}.parquet", rows, schema or ROW)


MIXED = [
    row("I", 1, 1, part="a", qty=1),
    row("X", 2, 2, part="a", qty=1),
    row(None, 3, 3, part="a", qty=1),
    row("I", None, 4, part="a", qty=1),
    row("I", 5, 5, part=None, qty=1),
    row("I", 6, None, part="a", qty=1),
    row("I", 7, 7, part="a", qty=0),
    row("I", 8, 8, part="a", qty=None),
    row("D", 1, 9, part="a", qty=-1, name="nobody"),
    row("I", 10, 10, part="a", qty=0, name="nobody"),
    row("?", None, None, part="a", qty=-5),
    row("I", 12, 12, part="a", qty=2),
    row("I", 12, 12, part="a", qty=2),
]
"""In this order in one file; positions count from 1."""


PACKED = "".join(f"I,{i},{i},{i % 7},1.00,2026-01-02\n" for i in range(1, 20_001))


def land_everything(landing: Path) -> None:
    shop = landing / "shop"
    land(shop / "mixed", MIXED, ROW | {"part": pa.string(), "qty": pa.int32()})
    write_text(
        shop / "typed" / f"{FILE}.csv",
        f"I,1,1,5,1.25,2026-01-02\nI,2,2,{CANARY},1.00,2026-01-02\nI,3,3,5,{CANARY}\n"
        f"I,4,4,5,1.00,2026-01-02,{CANARY}\nI,5,5,5,12345.67,2026-02-30\nX,6\nI,7,7,,,\n"
        "I,x,8,1,1.00,2026-01-02\nI,9,nine,1,1.00,2026-01-02\n",
    )
    write_text(shop / "all_bad" / f"{FILE}.csv", f"I,1,{CANARY},1,1.00,2026-01-02\nI,2\n")
    land(shop / "only_deletes", [row("D", 1, 1, name=None), row("D", 2, 2, name=None)])

    land(shop / "torn", [row("I", 1, 1)])
    whole = land(shop / "torn", [row("I", 2, 2)], name="20260101-000002000")
    whole.write_bytes(whole.read_bytes()[:-40])
    write_text(shop / "torn_gz" / f"{FILE}.csv", "I,90000,90000,1,1.00,2026-01-02\n")
    packed = gzip.compress(PACKED.encode())
    (shop / "torn_gz" / "20260101-000002000.csv.gz").write_bytes(packed[: len(packed) // 2])
    write_text(shop / "no_bytes" / f"{FILE}.parquet", "")

    for name, missing in (("no_op", "Op"), ("no_key", "id"), ("no_sequence", "seq")):
        schema = {c: t for c, t in ROW.items() if c != missing}
        land(shop / name, [{c: row("I", 1, 1)[c] for c in schema}], schema)
    land(shop / "reserved", [row("I", 1, 1, Effective_From=CANARY)], ROW | {"Effective_From": pa.string()})
    land(shop / "cased", [row("I", 1, 1, Name=CANARY)], ROW | {"Name": pa.string()})

    land(shop / "drift", [row("I", 1, 1, n=2**40)], ROW | {"n": pa.int64()})
    narrow = {"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(6, 2), "s": pa.int16()}
    land(shop / "wider", [row("I", 1, 1, i=-5, f=0.5, d=Decimal("1.25"), s=7)], ROW | narrow)
    land(shop / "limit", [row("I", 1, 1), row("I", 2, 2), row(CANARY, 3, 3)])


def repair(landing: Path) -> None:
    """Deliver what was broken again; the drifting and the widening file land too."""
    shop = landing / "shop"
    land(shop / "torn", [row("I", 2, 2, "whole")], name="20260101-000002000")
    (shop / "torn_gz" / "20260101-000002000.csv.gz").write_bytes(gzip.compress(PACKED.encode()))
    land(shop / "no_bytes", [row("I", 1, 1, "whole")])
    for name in ("nowhere", "no_op", "no_key", "no_sequence", "reserved", "cased"):
        land(shop / name, [row("I", 1, 1, "whole")])
    land(shop / "drift", [row("I", 2, 2, n=CANARY)], ROW | {"n": pa.string()}, "20260101-000002000")
    wide = {"i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(12, 2), "s": pa.int64()}
    facts = {"i": 2**40, "f": 1e300, "d": Decimal("1234567890.25"), "s": 2**33}
    land(shop / "wider", [row("I", 2, 2, **facts)], ROW | wide, "20260101-000002000")


def land_last(landing: Path) -> None:
    shop = landing / "shop"
    (shop / "drift/20260101-000002000.parquet").unlink()
    land(shop / "drift", [row("I", 3, 3, n=3)], ROW | {"n": pa.int64()}, "20260101-000003000")
    narrow = {"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(6, 2), "s": pa.int16()}
    facts = {"i": 3, "f": 1.5, "d": Decimal("3.00"), "s": 3}
    land(shop / "wider", [row("I", 3, 3, **facts)], ROW | narrow, "20260101-000003000")


@dataclass
class Runs:
    """The project after its last run, and what was to be seen in between."""

    project: TemporaryProject
    outcomes: list[Outcome] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    told: str = ""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    project = TemporaryProject.make(tmp_path_factory.mktemp("bad") / "project", SOURCES, declared())
    found, told = Runs(project), io.StringIO()
    handler = logging.StreamHandler(told)
    log = logging.getLogger("kedro_lakehouse")
    log.addHandler(handler)

    def run() -> None:
        with contextlib.redirect_stdout(told):
            found.outcomes.append(project.attempt())
        stored = [f"{t}{suffix}" for t in TABLES for suffix in ("", "_changes", "_quarantine")]
        found.states.append({t: project.state(t) for t in stored})

    land_everything(project.landing)
    run()
    repair(project.landing)
    project.declare(SOURCES, declared(limit={"max_invalid_fraction": 0.5}))
    run()
    land_last(project.landing)
    run()
    log.removeHandler(handler)
    found.told = told.getvalue()
    return found


def quarantined(runs: Runs, table: str) -> dict[int, list[str]]:
    rows = runs.project.rows(f"{table}_quarantine")
    assert {r["_position"]["file"].partition(".")[0] for r in rows} <= {FILE}
    assert len({r["_position"]["row"] for r in rows}) == len(rows)
    return {r["_position"]["row"]: r["_reasons"] for r in rows}


def test_each_broken_change_is_quarantined_with_its_reasons_in_order(runs: Runs) -> None:
    assert quarantined(runs, "shop.mixed") == {
        2: ["unknown_op"],
        3: ["unknown_op"],
        4: ["null_key"],
        5: ["null_key"],
        6: ["null_sequence"],
        7: ["positive"],
        10: ["positive", "named"],
        11: ["unknown_op", "null_key", "null_sequence"],
    }


def test_the_rest_of_the_batch_is_applied(runs: Runs) -> None:
    rows = {(r["id"], r["part"]): r["qty"] for r in runs.project.rows("shop.mixed")}
    assert rows == {(8, "a"): None, (12, "a"): 2}
    (counts,) = runs.outcomes[0].counts("shop.mixed", "ingestion")
    found = [counts[n] for n in ("events_in", "applied", "duplicates", "quarantined")]
    assert found == [13, 4, 1, 8]
    history = {(r["id"], r["is_current"]) for r in runs.project.rows("shop.mixed_history")}
    assert history == {(1, False), (8, True), (12, True)}


def test_a_quarantined_event_keeps_its_raw_record(runs: Runs) -> None:
    raw = {r["_position"]["row"]: r["_raw"] for r in runs.project.rows("shop.mixed_quarantine")}
    kept = json.loads(raw[2])
    assert {k: kept[k] for k in ("Op", "id", "name", "part", "qty", "seq")} == {
        "Op": "X", "id": 2, "name": CANARY, "part": "a", "qty": 1, "seq": "2"
    }  # fmt: skip
    assert json.loads(raw[6])["seq"] is None
    ragged = {r["_position"]["row"]: r["_raw"] for r in runs.project.rows("text.typed_quarantine")}
    assert ragged[3] == f"I,3,3,5,{CANARY}"
    assert ragged[4] == f"I,4,4,5,1.00,2026-01-02,{CANARY}"


def test_text_that_does_not_fit_its_type_or_header_is_quarantined(runs: Runs) -> None:
    found = quarantined(runs, "text.typed")
    assert {n: reasons[0] for n, reasons in found.items()} == {
        2: "incompatible_type",
        3: "malformed",
        4: "malformed",
        5: "incompatible_type",
        6: "malformed",
        8: "null_sequence",
        9: "null_key",
    }
    assert found[9] == ["null_key", "incompatible_type"]
    rows = {r["id"]: (r["qty"], r["price"], r["day"]) for r in runs.project.rows("text.typed")}
    assert rows == {1: (5, Decimal("1.25"), dt.date(2026, 1, 2)), 7: (None, None, None)}


def test_a_batch_in_which_every_event_is_broken_is_quarantined(runs: Runs) -> None:
    assert "text.all_bad" not in runs.outcomes[0].failed
    assert set(quarantined(runs, "text.all_bad")) == {1, 2}
    (counts,) = runs.outcomes[0].counts("text.all_bad", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["quarantined"]) == (2, 0, 2)
    assert "text.all_bad: 2 of 2 events of batch 1 cannot be applied." in runs.told
    assert runs.project.rows("text.all_bad") == []


def test_a_batch_of_deletes_alone_leaves_empty_tables(runs: Runs) -> None:
    assert "shop.only_deletes" not in runs.outcomes[0].failed
    assert len(runs.project.rows("shop.only_deletes_changes")) == 2
    assert runs.project.rows("shop.only_deletes") == []
    assert runs.project.rows("shop.only_deletes_history") == []


BROKEN = {
    "shop.torn": ("UNREADABLE_FILE", "20260101-000002000.parquet"),
    "text.torn_gz": ("UNREADABLE_FILE", "20260101-000002000.csv.gz"),
    "shop.no_bytes": ("UNREADABLE_FILE", f"{FILE}.parquet"),
    "shop.nowhere": ("SOURCE_NOT_FOUND", "shop/nowhere"),
    "shop.no_op": ("MISSING_COLUMN", "Op"),
    "shop.no_key": ("MISSING_COLUMN", "id"),
    "shop.no_sequence": ("MISSING_COLUMN", "seq"),
    "shop.reserved": ("RESERVED_COLUMN", "Effective_From"),
    "shop.cased": ("UNSUPPORTED", "'name' and 'Name' differ only in case"),
    "shop.limit": ("TOO_MANY_INVALID", "1 of 3"),
}


@pytest.mark.parametrize("table", BROKEN)
def test_a_broken_table_fails_alone_and_nothing_of_it_is_written(runs: Runs, table: str) -> None:
    code, named = BROKEN[table]
    error = runs.outcomes[0].failed[table]
    assert getattr(error, "code", None) == code
    assert named in str(error)
    for suffix in ("", "_changes", "_quarantine"):
        state = runs.states[0][f"{table}{suffix}"]
        assert state is None or (state.rows, state.batch, state.branches) == (0, 0, [])


def test_only_the_broken_tables_are_named(runs: Runs) -> None:
    outcome = runs.outcomes[0]
    assert set(outcome.failed) == set(BROKEN)
    assert outcome.retry == f"kedro run --namespaces={','.join(sorted(BROKEN))}"
    done = {r.table for r in outcome.reports if r.stage == "ingestion"}
    assert done == set(TABLES) - set(BROKEN)


def test_the_record_of_runs_has_each_failure_with_its_code(runs: Runs) -> None:
    recorded = sorted(runs.project.ops("runs"), key=lambda r: r["started_at"])
    assert recorded[0]["status"] == "failed"
    assert {f["table"]: f["code"] for f in recorded[0]["failed"]} == {t: c for t, (c, _) in BROKEN.items()}


def test_the_published_counts_add_up(runs: Runs) -> None:
    rows = [r for r in runs.project.ops("batches") if r["stage"] == "ingestion"]
    assert rows
    for r in rows:
        assert r["events_in"] == r["applied"] + r["duplicates"] + r["quarantined"]


@pytest.mark.parametrize("table", sorted(set(BROKEN) - {"text.torn_gz"}))
def test_the_next_run_takes_what_was_repaired_as_the_next_batch(runs: Runs, table: str) -> None:
    assert table not in runs.outcomes[1].failed
    assert sorted(r["id"] for r in runs.project.rows(f"{table}_changes")) == {
        "shop.torn": [1, 2], "shop.limit": [1, 2]
    }.get(table, [1])  # fmt: skip
    assert {r["_batch"] for r in runs.project.rows(f"{table}_changes")} == {1}
    assert runs.project.state(f"{table}_changes").batch == 1


def test_a_file_that_ended_early_may_be_delivered_again(runs: Runs) -> None:
    assert "text.torn_gz" not in runs.outcomes[1].failed
    rows = {r["id"]: r["qty"] for r in runs.project.rows("text.torn_gz")}
    assert len(rows) == 20_001
    assert (rows[1], rows[20_000], rows[90_000]) == (1, 1, 1)
    assert runs.project.state("text.torn_gz_changes").batch == 1


def test_the_batch_that_the_limit_refused_is_ingested_once_it_is_raised(runs: Runs) -> None:
    assert quarantined(runs, "shop.limit") == {3: ["unknown_op"]}
    (counts,) = runs.outcomes[1].counts("shop.limit", "ingestion")
    assert (counts["events_in"], counts["applied"], counts["quarantined"]) == (3, 2, 1)


def test_an_incompatible_type_is_refused_before_any_write(runs: Runs) -> None:
    error = runs.outcomes[1].failed["shop.drift"]
    assert getattr(error, "code", None) == "INCOMPATIBLE_TYPE"
    message = str(error)
    assert all(word in message for word in ("20260101-000002000.parquet", " n:", "bigint", "string"))
    for suffix in ("", "_changes"):
        before, after = runs.states[0][f"shop.drift{suffix}"], runs.states[1][f"shop.drift{suffix}"]
        assert (before.snapshot_id, before.columns, before.batch) == (
            after.snapshot_id, after.columns, after.batch
        )  # fmt: skip


def test_a_later_good_file_is_taken_when_the_bad_one_is_gone(runs: Runs) -> None:
    assert "shop.drift" not in runs.outcomes[2].failed
    assert {r["id"]: r["n"] for r in runs.project.rows("shop.drift")} == {1: 2**40, 3: 3}
    assert runs.project.state("shop.drift").batch == 2


def test_wider_types_are_adopted_and_narrower_files_cast_up(runs: Runs) -> None:
    kinds = {n: t.simpleString() for n, t in runs.project.state("shop.wider").columns.items()}
    assert [kinds[n] for n in "ifds"] == ["bigint", "double", "decimal(12,2)", "bigint"]
    rows = {r["id"]: (r["i"], r["f"], r["d"], r["s"]) for r in runs.project.rows("shop.wider")}
    assert rows == {
        1: (-5, 0.5, Decimal("1.25"), 7),
        2: (2**40, 1e300, Decimal("1234567890.25"), 2**33),
        3: (3, 1.5, Decimal("3.00"), 3),
    }
    assert [r.batch for r in runs.outcomes[2].reports if r.table == "shop.wider"] == [3, 3]


def test_no_value_of_a_row_is_ever_told(runs: Runs) -> None:
    errors = [str(e) for o in runs.outcomes for e in o.failed.values()]
    recorded = [f["message"] for r in runs.project.ops("runs") for f in r["failed"]]
    assert len(errors) == len(recorded) > len(BROKEN)
    assert "shop.drift" in runs.told
    for text in (*errors, *recorded, runs.told):
        assert CANARY not in text
