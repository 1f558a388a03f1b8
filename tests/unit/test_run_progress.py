"""What `kedro run` shows on a terminal: how far it is, what is left by earlier batches, and warnings."""

from __future__ import annotations

import datetime as dt
import io
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from harness.catalogs import embedded_conf
from kedro.pipeline import node, pipeline
from rich.console import Console

from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig, ExtractSourceConfig
from kedro_lakehouse.ingestion.load import waiting_files
from kedro_lakehouse.ingestion.planner import Ingesting
from kedro_lakehouse.monitoring.past import Past, past_of
from kedro_lakehouse.monitoring.progress import SWITCH, RunProgress, node_is_over, wants_progress
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.spark import STARTING
from kedro_lakehouse.sources.files import LandedFile
from kedro_lakehouse.sources.plans import PlannedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.unit

AT = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
TABLES: dict[str, Any] = {
    "shop.item": {"source": "shop", "keys": ["id"]},
    "shop.list": {"source": "lists", "keys": ["id"]},
    "shop.total": {"keys": ["id"], "derive": {"inputs": {"i": "shop.item"}, "sql": "select * from i"}},
}
SOURCES = {
    "shop": {"type": "dms", "path": "{folder}/in"},
    "lists": {
        "type": "extract",
        "path": "{folder}/lists",
        "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y"},
    },
}  # fmt: skip
NODES = pipeline(
    [
        node(lambda x: x, "a", "b", name="ingest", namespace="shop.item"),
        node(lambda x: x, "b", "c", name="merge", namespace="shop.item"),
        node(lambda x: x, "d", "e", name="ingest", namespace="shop.list"),
        node(lambda x: x, "c", "f", name="ingest", namespace="shop.total"),
    ]
)
INGEST, MERGE = (
    next(n for n in NODES.nodes if n.name == f"shop.item.{name}") for name in ("ingest", "merge")
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    sources = {name: one | {"path": one["path"].format(folder=tmp_path)} for name, one in SOURCES.items()}
    models = {"dms": DmsSourceConfig, "extract": ExtractSourceConfig}
    declared = load_declarations(sources, TABLES, models)
    made = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(tmp_path), lakehouse=str(tmp_path),
        cache=str(tmp_path),
    )  # fmt: skip
    made.catalog.ensure_namespace("ops")
    return made


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(project: Project, screen: io.StringIO) -> Iterator[RunProgress]:
    console = Console(file=screen, force_terminal=True, width=100)
    waiting = {"shop.item": (500, 10_000), "shop.list": (2, 10)}
    made = RunProgress(project, NODES, lambda: waiting, console).open()
    yield made
    made.close()


def drawn(progress: RunProgress) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(progress.drawn())
    return [line.strip() for line in captured.get().splitlines()]


def planned(batch: int, files: int) -> Ingesting:
    landed = tuple(LandedFile(f"/in/{batch}/{n}", 20, 1) for n in range(files))
    lease: Any = None
    return Ingesting(planned=PlannedFiles(batch, landed, f"h{batch}"), lease=lease, begun=0.0)


def committed(batch: int, rows: int) -> CommitReport:
    facts = {"table": "shop.item", "stage": "ingestion", "content_hash": f"h{batch}", "run_id": "r"}
    at = AT.isoformat()
    return CommitReport(**facts, batch=batch, batches=1, committed_at=at, counts={"events_in": rows})


def test_tables_files_and_rows_are_told_as_they_are_done(project: Project, progress: RunProgress) -> None:
    assert drawn(progress)[0].endswith("0 of 3 tables · 0 s")
    progress.node_started(INGEST)
    progress._look()
    project.ingesting[TableName("shop", "item")] = planned(1, 200)
    assert drawn(progress)[1:] == ["shop.item: ingest · 200 of 500 files · 0 s"]
    project.reports.append(committed(1, 1500))
    project.ingesting[TableName("shop", "item")] = planned(2, 100)
    first, line = drawn(progress)
    assert "0 of 3 tables · 1,500 rows · " in first
    assert "rows/s" in first
    assert line == "shop.item: ingest · 300 of 500 files · 1,500 rows · 0 s"
    progress.node_ended(INGEST)
    progress.node_started(MERGE)
    assert drawn(progress)[1].startswith("shop.item: merge")
    progress.node_ended(MERGE)
    (only,) = drawn(progress)
    assert "1 of 3 tables" in only


def test_one_node_after_the_other_each_start_ends_the_one_before(
    project: Project, screen: io.StringIO
) -> None:
    on_screen = Console(file=screen, force_terminal=True, width=100)
    made = RunProgress(project, NODES, dict, on_screen, one_by_one=True).open()
    try:
        made.node_started(INGEST)
        made.node_started(INGEST)  # its second input
        made.node_started(MERGE)
        assert drawn(made)[1:] == ["shop.item: merge · 0 s"]
        made.node_started(next(n for n in NODES.nodes if n.namespace == "shop.list"))
        assert "1 of 3 tables" in drawn(made)[0]
    finally:
        made.close()


def test_a_runner_tells_the_progress_that_is_shown(progress: RunProgress) -> None:
    progress.node_started(INGEST)
    node_is_over(INGEST)
    node_is_over(INGEST)
    node_is_over(MERGE)
    assert "1 of 3 tables" in drawn(progress)[0]
    progress.close()
    node_is_over(MERGE)


def test_a_table_that_only_begins_has_no_number_of_files_it_does_not_know(progress: RunProgress) -> None:
    derived = next(n for n in NODES.nodes if n.namespace == "shop.total")
    progress.node_started(derived)
    assert drawn(progress)[1:] == ["shop.total: ingest · 0 s"]


def test_only_warnings_are_seen_and_logging_is_as_before(project: Project, screen: io.StringIO) -> None:
    told, root = io.StringIO(), logging.getLogger()
    before = list(root.handlers)
    console, kept = logging.StreamHandler(told), logging.NullHandler()
    root.handlers[:] = [console, kept]
    own = logging.getLogger("kedro_lakehouse.some")
    own.setLevel(logging.INFO)
    try:
        on_screen = Console(file=screen, force_terminal=True, width=100)
        made = RunProgress(project, NODES, dict, on_screen).open()
        own.info("a batch is done")
        own.warning("a file is [bold]odd[/]")
        own.info("Starting Spark", extra={STARTING: True})
        assert kept in root.handlers
        assert any("starting Spark" in line for line in drawn(made)) or "pyspark" in sys.modules
        made.close()
        own.info("after it")
        assert root.handlers == [console, kept]
    finally:
        root.handlers[:] = before
        own.setLevel(logging.NOTSET)
    assert told.getvalue() == "after it\n"
    assert "a file is [bold]odd[/]" in screen.getvalue()
    assert "a batch is done" not in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in screen.getvalue()  # the cursor is back


def test_what_is_left_is_told_by_earlier_batches(project: Project, progress: RunProgress) -> None:
    progress._look()
    assert "left" not in drawn(progress)[0]
    files = [{"path": "/in/a", "size": 1000, "modified": 1}]
    ledger, commits = [], []
    for batch, seconds in ((1, 4), (2, 6), (3, 30)):
        begun = AT + dt.timedelta(hours=batch)
        row = {"table": "shop.item", "batch": batch, "run_id": f"r{batch}"}
        ledger.append(row | {"planned_at": begun, "files": files, "content_hash": "x"})
        for stage, part in (("ingestion", 0.5), ("current", 1)):
            commits.append(
                row | {"stage": stage, "committed_at": begun + dt.timedelta(seconds=seconds * part)}
            )
    died = {"table": "shop.item", "batch": 4, "run_id": "r4", "planned_at": AT, "files": files}
    project.ops.append(BATCH_LEDGER, [*ledger, died])
    project.ops.append(BATCHES, commits)
    past = past_of(project.ops)
    assert dict(past.tables) == {"shop.item": [(1000, 4.0), (1000, 6.0), (1000, 30.0)]}
    assert past.side_by_side == 1
    assert past.seconds("shop.item", 10) == 6  # as most of its batches took
    assert past.seconds("shop.item", 10_000) == 300  # ten times the largest
    assert past.seconds("shop.list", 10) == 6  # as others take
    progress._look()
    assert "about 5 min 06 s left" in drawn(progress)[0]


def test_without_earlier_batches_nothing_is_expected() -> None:
    assert Past(tables={}, side_by_side=1).seconds("shop.item", 5) is None


def test_what_waits_is_what_landed_and_is_in_no_batch(project: Project, tmp_path: Path) -> None:
    for name in ("LOAD1", "LOAD2"):
        file = tmp_path / f"in/item/{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1,2\n", encoding="utf-8")
    tables = [project.bind(TableName("shop", name)) for name in ("item", "list")]
    assert waiting_files(tables, project.ops) == {"shop.item": (2, 8)}  # no folder yet
    known = tables[0].open_source().files()[0]
    row = {"path": known.path, "size": known.size, "modified": known.modified}
    project.ops.append(BATCH_LEDGER, [{"table": "shop.item", "batch": 1, "planned_at": AT, "files": [row]}])
    assert waiting_files(tables, project.ops)["shop.item"] == (1, 4)


@pytest.mark.parametrize(
    ("on_terminal", "variables", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {SWITCH: "off"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"KEDRO_LAKEHOUSE_LOG_FORMAT": "json"}, False),
    ],
)
def test_it_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, on_terminal: bool, variables: dict[str, str], wanted: bool
) -> None:
    for name in (SWITCH, "KEDRO_LAKEHOUSE_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr.isatty", lambda: on_terminal, raising=False)
    assert wants_progress() is wanted
