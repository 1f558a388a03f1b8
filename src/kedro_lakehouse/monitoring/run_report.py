"""A page about one run: what came in, what changed, what failed, and when; no row's value is in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import counted, sized
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, QUALITY_RESULTS
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jinja2 import Template
    from kedro.io import CatalogProtocol

    from kedro_lakehouse.project import Project

REPORT: Final = "ops.run_report"
"""The catalog's entry that keeps the pages, unless monitoring.yml names another one."""
_CHANGED: Final = ("inserted", "updated", "deleted", "opened", "closed", "removed", "folded")
_STAGES: Final = ("ingestion", "current", "history", "archive")
_OTHER: Final = "other"
_WIDTH, _LABELS, _ROW = 900, 260, 26


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """What a run read of one table: files with their bytes, its events, and those set aside."""

    table: str
    files: int
    size: str
    events: int
    applied: int
    quarantined: int
    refused: int


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A step of a table in the chart: from when to when, in the chart's own units."""

    stage: str
    x: float
    width: float
    told: str


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A table's line in the chart."""

    table: str
    y: int
    seconds: float
    bars: Sequence[Bar]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """When each table was worked on; its ticks are seconds since the start of the run."""

    width: int
    height: int
    labels: int
    lanes: Sequence[Lane]
    stages: Sequence[str]
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """The facts of the page.

    Attributes:
        run: The row of ``lake.ops.runs``, or what commits tell of a run without one.
        incoming: What was read, by table.
        commits: What was published, in the order of time.
        failed: Tables (or the run itself, without a name) with code and message.
        unmet: Expectations that were not met.
        chart: When what was done; None where nothing was committed.
    """

    run: Mapping[str, Any]
    incoming: Sequence[Incoming]
    commits: Sequence[Mapping[str, Any]]
    failed: Sequence[Mapping[str, Any]]
    unmet: Sequence[Mapping[str, Any]]
    chart: Chart | None

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return float((self.run["ended_at"] - self.run["started_at"]).total_seconds())

    @property
    def totals(self) -> Mapping[str, str]:
        """The figures at the top."""
        applied = sum(one.applied for one in self.incoming)
        aside = sum(one.quarantined for one in self.incoming)
        return {
            "tables changed": f"{len({row['table'] for row in self.commits}):,}",
            "events applied": f"{applied:,}",
            "records in quarantine": f"{aside:,}",
            "failures": f"{len(self.failed):,}",
            "seconds": f"{self.seconds:,.1f}",
        }


def run_report(project: Project, run: Mapping[str, Any]) -> RunReport:
    """Collect what ``lake.ops`` holds of a run, a row of ``known_runs``. Starts no Spark."""
    name = run["run_id"]
    commits = sorted(project.ops.read_of_run(BATCHES, name), key=lambda row: row["committed_at"])
    planned = sorted(project.ops.read_of_run(BATCH_LEDGER, name), key=lambda row: row["planned_at"])
    results = project.ops.read_of_run(QUALITY_RESULTS, name)
    derived = {str(t) for t, config in project.declarations.tables.items() if config.derive is not None}
    return RunReport(
        run=run,
        incoming=list(_incoming(commits, planned, derived)),
        commits=[row | {"rows": _rows(row)} for row in commits],
        failed=[dict(one) for one in run["failed"] or ()],
        unmet=sorted((r for r in results if not r["success"]), key=lambda r: (r["suite"], r["expectation"])),
        chart=_chart(run, commits, planned),
    )


def _incoming(
    commits: Sequence[Mapping[str, Any]], planned: Sequence[Mapping[str, Any]], derived: set[str]
) -> Iterable[Incoming]:
    """What was read of each table; the inputs of a derived table are no files."""
    events: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[str, dict[str, int]] = defaultdict(dict)
    refused: dict[str, set[str]] = defaultdict(set)
    for row in commits:
        if row["stage"] == "ingestion":
            events[row["table"]].update({n: row[n] or 0 for n in ("events_in", "applied", "quarantined")})
    for row in planned:
        if row["batch"] is not None and row["table"] not in derived:
            files[row["table"]] |= {file["path"]: file["size"] or 0 for file in row["files"] or ()}
        for one in (*(row["refused"] or ()), *(row["waiting"] or ())):
            refused[row["table"]].add(one["path"])
    for table in sorted(events.keys() | files.keys() | refused.keys()):
        read = files[table]
        yield Incoming(
            table=table,
            files=len(read),
            size=sized(sum(read.values())) if read else "",
            events=events[table]["events_in"],
            applied=events[table]["applied"],
            quarantined=events[table]["quarantined"],
            refused=len(refused[table]),
        )


def _rows(commit: Mapping[str, Any]) -> str:
    """What a commit did to rows, in words."""
    names = ("applied", "quarantined") if commit["stage"] == "ingestion" else _CHANGED
    return ", ".join(f"{commit[name]:,} {name}" for name in names if commit.get(name))


def _chart(
    run: Mapping[str, Any], commits: Sequence[Mapping[str, Any]], planned: Sequence[Mapping[str, Any]]
) -> Chart | None:
    """Each table's steps, from the plan of its first batch, or its commit before, to each commit."""
    if not commits:
        return None
    begun: dict[str, datetime] = {}
    for row in planned:
        begun.setdefault(row["table"], row["planned_at"])
    first = min(run["started_at"], commits[0]["committed_at"], *begun.values())
    last = max(run["ended_at"], commits[-1]["committed_at"])
    seconds = max((last - first).total_seconds(), 0.001)
    scale = (_WIDTH - _LABELS) / seconds
    ingested: dict[tuple[str, int], datetime] = {}
    lanes: dict[str, list[Bar]] = {}
    for row in commits:
        table, stage, at = row["table"], row["stage"], row["committed_at"]
        if stage == "ingestion":
            since = ingested.get((table, row["batch"] - 1), begun.get(table, at))
            ingested[table, row["batch"]] = at
        else:
            since = ingested.get((table, row["batch"]), at)
        start, took = (since - first).total_seconds(), max((at - since).total_seconds(), 0)
        bar = Bar(
            stage=stage if stage in _STAGES else _OTHER,
            x=round(_LABELS + start * scale, 1),
            width=round(max(took * scale, 2), 1),
            told=f"{stage}, batch {row['batch']}: {took:,.1f} s" + (f", {r}" if (r := _rows(row)) else ""),
        )
        lanes.setdefault(table, []).append(bar)
    ends = {row["table"]: row["committed_at"] for row in commits}
    drawn = [
        Lane(
            table=table,
            y=number * _ROW,
            seconds=(ends[table] - begun.get(table, ends[table])).total_seconds(),
            bars=bars,
        )
        for number, (table, bars) in enumerate(lanes.items(), start=1)
    ]
    step = _step(seconds)
    ticks = [
        (round(_LABELS + n * step * scale, 1), f"{n * step:g} s") for n in range(int(seconds / step) + 1)
    ]
    return Chart(
        width=_WIDTH + 60,
        height=(len(drawn) + 2) * _ROW,
        labels=_LABELS,
        lanes=drawn,
        stages=[
            s for s in (*_STAGES, _OTHER) if any(bar.stage == s for bars in lanes.values() for bar in bars)
        ],
        ticks=ticks,
    )


def _step(seconds: float) -> float:
    """Seconds between two ticks, so that there are some six."""
    for step in (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600):
        if seconds / step <= 7:  # noqa: PLR2004 - more would stand on each other
            return step
    return seconds / 6


def page_of(report: RunReport) -> str:
    """The report as one HTML page that loads nothing; every text in it is escaped."""
    facts = _template().render(report=report, now=datetime.now(UTC), counted=counted)
    return redacted(facts)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything is escaped, whatever the file's name is.
    environment = Environment(
        loader=PackageLoader("kedro_lakehouse.monitoring"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["time"] = lambda moment: f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    environment.filters["count"] = lambda number: f"{number or 0:,}"
    return environment.get_template("run_report.html")


def report_entry(project: Project) -> str:
    """The catalog's entry that keeps the pages."""
    declared = project.monitoring.report if project.monitoring else None
    return declared or REPORT


def keep_page(catalog: CatalogProtocol[Any, Any], entry: str, page: str) -> str:
    """Save a page by the catalog's entry; where it lies now, as far as the entry tells it.

    Raises:
        DatasetError: There is no such entry, or it cannot be written.
    """
    dataset = catalog[entry]
    dataset.save(page)
    place = getattr(dataset, "resolve_save_version", lambda: None)()
    path = getattr(dataset, "_filepath", None)
    if path is None:
        return entry
    return str(path if place is None else path / place / path.name)
