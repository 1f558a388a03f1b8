"""The page about a run: its facts, its chart, that texts stay texts, and that it is kept in versions."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from harness.catalogs import embedded_conf
from kedro.io import DataCatalog

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.monitoring import load_monitoring
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.monitoring.outcome import keep_report
from kedro_lakehouse.monitoring.run_report import page_of, run_report
from kedro_lakehouse.monitoring.runs import known_runs
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, QUALITY_RESULTS, RUNS
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

AT = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
HOSTILE = "<script>alert('&quot;')</script>\"' onload=x"
TABLES: dict[str, Any] = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True},
    "shop.total": {"keys": ["id"], "derive": {"inputs": {"i": "shop.item"}, "sql": "select * from i"}},
}


def after(seconds: float) -> dt.datetime:
    return AT + dt.timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder: Path = tmp_path_factory.mktemp("lake")
    declared = load_declarations({"shop": {"type": "dms", "path": "/in"}}, TABLES, {"dms": DmsSourceConfig})
    made = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(folder), lakehouse=str(folder),
        cache=str(folder), run_id="run1",
    )  # fmt: skip
    made.catalog.ensure_namespace("ops")
    commits: list[tuple[str, str, float, dict[str, int]]] = [
        ("shop.item", "ingestion", 4, {"events_in": 1500, "applied": 1498, "quarantined": 2}),
        ("shop.item", "current", 6, {"inserted": 1400, "updated": 98}),
        ("shop.total", "ingestion", 9, {"events_in": 3, "applied": 3}),
    ]
    rows = [
        {
            "table": t,
            "stage": s,
            "batch": 1,
            "run_id": "run1",
            "committed_at": after(at),
            "snapshot_id": 7,
            **n,
        }
        for t, s, at, n in commits
    ]
    killed = {
        "table": "shop.item",
        "stage": "ingestion",
        "batch": 2,
        "run_id": "run0",
        "committed_at": after(-99),
    }
    made.ops.append(BATCHES, [*rows, killed])
    files = [{"path": f"/in/item/{n}.csv", "size": 1024 * n, "modified": 1} for n in (1, 2)]
    planned = {"table": "shop.item", "run_id": "run1", "planned_at": after(1), "content_hash": "x"}
    made.ops.append(
        BATCH_LEDGER,
        [
            planned | {"batch": 1, "files": files},
            planned | {"batch": None, "refused": [{"path": f"/in/{HOSTILE}", "code": "SNAPSHOT_EMPTY"}]},
            planned | {"table": "shop.total", "batch": 1, "files": files, "planned_at": after(7)},
        ],
    )
    failed = [{"table": "shop.item", "code": "REFUSED", "message": HOSTILE}]
    made.ops.append(
        RUNS,
        [
            {
                "run_id": "run1", "pipeline": HOSTILE, "env": "local", "status": "failed", "started_at": AT,
                "ended_at": after(10), "tables": ["shop.item", "shop.total"], "failed": failed,
                "recovered": ["shop.total"],
            }
        ],
    )  # fmt: skip
    result = {
        "suite": "shop.item", "table": "shop.item", "expectation": HOSTILE, "severity": "warn",
        "run_id": "run1", "judged_at": AT, "elements": 1498,
    }  # fmt: skip
    made.ops.append(
        QUALITY_RESULTS,
        [result | {"success": False, "unexpected": 12}, result | {"success": True, "expectation": "met"}],
    )
    return made


@pytest.fixture(scope="module")
def page(project: Project) -> str:
    return page_of(run_report(project, known_runs(project.ops)[0]))


class Parsed(HTMLParser):
    """Every element, its attributes and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_what_came_in_is_counted_by_table(project: Project) -> None:
    item, total = run_report(project, known_runs(project.ops)[0]).incoming
    assert (item.table, item.files, item.size, item.refused) == ("shop.item", 2, "3.0 KiB", 1)
    assert (item.events, item.applied, item.quarantined) == (1500, 1498, 2)
    assert (total.table, total.files, total.applied) == ("shop.total", 0, 3)  # it reads tables, no files


def test_the_chart_has_a_bar_from_when_a_step_began_to_its_commit(project: Project) -> None:
    chart = run_report(project, known_runs(project.ops)[0]).chart
    assert chart is not None
    item, total = chart.lanes
    second = (900 - 260) / 10
    assert [(bar.stage, bar.x, bar.width) for bar in item.bars] == [
        ("ingestion", 260 + second, 3 * second), ("current", 260 + 4 * second, 2 * second),
    ]  # fmt: skip
    assert (total.y > item.y, total.seconds) == (True, 2)
    assert chart.stages == ["ingestion", "current"]
    assert [label for _, label in chart.ticks] == ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]


def test_every_text_on_the_page_is_a_text(page: str) -> None:
    parsed = Parsed(page)
    assert {"script", "img", "link", "iframe"} & {tag for tag, _ in parsed.elements} == set()
    assert not [name for _, given in parsed.elements for name in given if name.startswith("on")]
    assert page.count("alert(") == page.count(html.escape("<script>alert("))
    # The pipeline, the message and the expectation; the refused file is counted, and not named.
    assert sum("alert(" in text for text in parsed.texts) == 3
    assert not re.findall(r"(?:src|href)=|https?:", page)
    assert "default-src 'none'" in page


def test_the_page_tells_failures_figures_and_what_recovered(page: str) -> None:
    texts = " | ".join(filter(None, Parsed(page).texts))
    for told in (
        "failed",
        "1,501",
        "REFUSED",
        "12 of 1,498",
        "1,400 inserted, 98 updated",
        "Recovered: shop.total",
    ):
        assert told in texts
    assert "| met |" not in texts


def test_a_run_without_a_record_has_a_page_of_its_commits(project: Project) -> None:
    killed = next(run for run in known_runs(project.ops) if run["run_id"] == "run0")
    page = page_of(run_report(project, killed))
    assert "no record" in page
    assert "run0" in page


def kept(folder: Path) -> DataCatalog:
    entry = {"type": "text.TextDataset", "filepath": str(folder / "run_report.html"), "versioned": True}
    return DataCatalog.from_config({"ops.run_report": entry})


def test_a_page_is_a_version_of_the_catalogs_entry(project: Project, tmp_path: Path) -> None:
    for _ in range(2):
        keep_report(project, kept(tmp_path))
    pages = sorted(tmp_path.glob("run_report.html/*/run_report.html"))
    assert len(pages) == 2
    assert "Run run1" in kept(tmp_path).load("ops.run_report")


def test_a_page_that_cannot_be_kept_is_a_warning(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    keep_report(project, DataCatalog())
    assert "The report of this run was not kept" in caplog.text


def test_the_key_names_an_entry_of_the_catalog() -> None:
    assert load_monitoring({"report": "ops.run_report"}, [], {}).report == "ops.run_report"
    assert load_monitoring({}, [], {}).report is None


@pytest.fixture
def call(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("kedro_lakehouse.cli.report.open_project", lambda: project)
    return lambda *words: CliRunner().invoke(lakehouse, ["report", *words])


def test_the_command_writes_the_page_of_a_past_run(call: Any, tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    done = call("run1", "--to", str(target), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"run": "run1", "report": str(target)}
    assert "Run run1" in target.read_text(encoding="utf-8")
    assert target.stat().st_mode & 0o077 == 0
    assert "is there already" in call("run1", "--to", str(target)).stderr
    assert "Run run1" in (call("--to", str(tmp_path / "new.html")), (tmp_path / "new.html").read_text())[1]


def test_a_run_that_is_not_there_and_a_role_are_refused(call: Any) -> None:
    assert call("run7").exit_code == 1
    assert call("run").exit_code == 1  # two begin so
    assert call("--as", "nobody").exit_code == 2
