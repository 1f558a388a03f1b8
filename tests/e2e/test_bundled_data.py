"""The bundled data against its own origin: what the databases and the extracts say, not our own output."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from harness.oracle import DMS_TABLES, differences, differences_from_expected, extracts_differing
from harness.planned import committed, foreseen
from harness.project import DATA, ROOT, TemporaryProject
from harness.soak import only_in_soak

from kedro_lakehouse.column_search.project_search import open_search

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.e2e


def declared() -> tuple[dict[str, Any], dict[str, Any]]:
    """The repository's own declarations."""
    conf = ROOT / "conf/base"
    sources = yaml.safe_load((conf / "sources.yml").read_text(encoding="utf-8"))
    tables = yaml.safe_load((conf / "tables.yml").read_text(encoding="utf-8"))
    return sources, tables


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """The bundled data, run once from an empty lakehouse."""
    project = TemporaryProject.make(
        tmp_path_factory.mktemp("bundled") / "project", *declared(), as_shipped=True
    )
    shutil.copytree(DATA / "01_raw", project.landing, dirs_exist_ok=True)
    planned = foreseen(project)
    assert committed(project, project.run()) == planned
    return project


@pytest.mark.parametrize("table", DMS_TABLES)
def test_current_table_is_the_database_after_its_last_change(bundled: TemporaryProject, table: str) -> None:
    assert differences_from_expected(table, bundled.arrow(f"dms_sample.{table}")) == (0, 0)


@pytest.mark.parametrize("table", DMS_TABLES)
def test_open_versions_are_the_current_rows(bundled: TemporaryProject, table: str) -> None:
    current, history = bundled.arrow(f"dms_sample.{table}"), bundled.arrow(f"dms_sample.{table}_history")
    is_open = history.filter(history["is_current"])
    assert is_open.num_rows == current.num_rows > 0
    assert differences(current, is_open, [c for c in current.column_names if not c.startswith("_")]) == 0


def test_history_has_every_version_of_one_transaction(bundled: TemporaryProject) -> None:
    log = pq.read_table(next((DATA / "01_raw/dms_sample/person").glob("2026*.parquet"))).to_pylist()
    steps = Counter((r["id"], r["last_update_time"]) for r in log)
    key = next(
        k for (k, t), n in steps.items()
        if n >= 4
        and [r["Op"] for r in log if (r["id"], r["last_update_time"]) == (k, t)] == ["I", "U", "D", "I"]
    )  # fmt: skip
    told = sorted((int(r["change_seq"]), r["Op"], r["full_name"]) for r in log if r["id"] == key)
    versions = sorted(
        (
            int(r["_order_from"]["change_seq"]),
            r["_order_to"] and int(r["_order_to"]["change_seq"]),
            r["full_name"],
        )
        for r in bundled.arrow("dms_sample.person_history").to_pylist()
        if r["id"] == key
    )
    (first, _, name1), (second, _, name2), (third, _, _), (fourth, _, name4) = told
    assert versions == [(first, second, name1), (second, third, name2), (fourth, None, name4)]


def test_as_of_each_extract_the_history_is_that_extract(bundled: TemporaryProject) -> None:
    assert extracts_differing(bundled.arrow("sp500.constituents_history")) == ([], 189, 21)


def test_ragged_rows_are_in_quarantine_with_their_place(bundled: TemporaryProject) -> None:
    rows = bundled.arrow("sp500.constituents_quarantine").to_pylist()
    assert len(rows) == 21
    assert len({r["_position"]["file"] for r in rows}) == 7
    assert all(r["_reasons"][0] == "malformed" and r["_position"]["row"] > 0 and r["_raw"] for r in rows)


def test_every_column_of_every_table_can_be_found(bundled: TemporaryProject) -> None:
    signatures = bundled.rows("ops.column_signatures")
    assert len(signatures) == len(bundled.rows("ops.column_space")) == 111
    assert len({(row["namespace"], row["table"]) for row in signatures}) == 15
    hits = open_search(bundled._project).by_text("price of a ticket", k=5)
    assert "ticket_price" in {hit.column for hit in hits}


def test_the_search_reaches_the_thresholds_of_its_evaluation(bundled: TemporaryProject) -> None:
    bundled.run("column_eval")


def test_a_second_run_changes_nothing(bundled: TemporaryProject) -> None:
    def everything() -> dict[str, int]:
        folder = bundled.path / "lakehouse"
        return {
            str(p.relative_to(folder)): p.stat().st_mtime_ns
            for p in folder.rglob("*")
            if "warehouse" in p.parts
        }

    before = everything()
    assert bundled.run() == []
    assert everything() == before


@only_in_soak
def test_without_a_sequence_the_tables_are_the_same(bundled: TemporaryProject, tmp_path: Path) -> None:
    sources, tables = declared()
    del sources["dms_sample"]["sequence_column"]
    tables = {name: table for name, table in tables.items() if table["source"] == "dms_sample"}
    project = TemporaryProject.make(tmp_path / "project", {"dms_sample": sources["dms_sample"]}, tables)
    raw = DATA / "01_raw"
    for path in (raw / "dms_sample").rglob("*.parquet"):
        target = project.landing / path.relative_to(raw)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(path).drop_columns(["change_seq"]), target)
    project.run()
    for table in DMS_TABLES:
        assert differences_from_expected(table, project.arrow(f"dms_sample.{table}")) == (0, 0)
        with_it, without = (
            bundled.arrow(f"dms_sample.{table}_history"),
            project.arrow(f"dms_sample.{table}_history"),
        )
        assert differences(with_it, without, [c for c in with_it.column_names if not c.startswith("_")]) == 0


def test_a_dropped_file_is_all_that_is_read_and_a_broken_table_stops_no_other(
    bundled: TemporaryProject,
) -> None:
    """Runs after the others: it changes the tables."""
    sources, tables = declared()
    sources["unplugged"] = {**sources["dms_sample"], "path": "${globals:landing}/unplugged"}
    tables["dms_sample.person"]["source"] = "unplugged"
    tables["dms_sample.division_copy"] = {**tables["dms_sample.sport_division"], "entity": "sport_division"}
    bundled.declare(sources, tables)
    log = next((DATA / "01_raw/dms_sample/player").glob("2026*.parquet"))
    event = pq.read_table(log).slice(0, 1).to_pylist()[0] | {"Op": "I", "id": -1.0, "change_seq": "9" * 34}
    dropped = bundled.landing / "dms_sample/player" / "20261122-000000000.parquet"
    pq.write_table(pa.Table.from_pylist([event], schema=pq.read_schema(log)), dropped)
    players = bundled.state("dms_sample.player").rows

    planned = foreseen(bundled)
    outcome = bundled.attempt()

    assert committed(bundled, outcome.reports) == planned
    assert {t: getattr(e, "code", e) for t, e in outcome.failed.items()} == {
        "dms_sample.person": "SOURCE_NOT_FOUND"
    }
    assert outcome.retry == "kedro run --namespaces=dms_sample.person"
    done = {(r.table, r.stage) for r in outcome.reports}
    assert {(table, stage) for table, stage in done if table != "ops.column_signatures"} == {
        (f"dms_sample.{table}", stage)
        for table in ("player", "division_copy")
        for stage in ("ingestion", "current", "history")
    }
    ledger = [r for r in bundled.ops("batch_ledger") if r["table"] == "dms_sample.player" and r["batch"] == 2]
    assert [[f["path"].rpartition("/")[2] for f in r["files"]] for r in ledger] == [[dropped.name]]
    assert bundled.state("dms_sample.player").rows == players + 1
    copied, original = bundled.arrow("dms_sample.division_copy"), bundled.arrow("dms_sample.sport_division")
    assert differences(copied, original, [c for c in copied.column_names if not c.startswith("_")]) == 0
