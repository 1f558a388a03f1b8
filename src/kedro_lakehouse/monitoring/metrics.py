"""The metrics of all tables and of the last run, as a file for Prometheus's textfile collector."""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.monitoring.table_status import statuses_of
from kedro_lakehouse.ops.store import RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.monitoring.table_status import TableStatus
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.base import Waiting

logger = logging.getLogger(__name__)

_PREFIX: Final = "kedro_lakehouse_"


@dataclass(frozen=True)
class _Metric:
    """One gauge: its name without the prefix, its help text, and its samples."""

    name: str
    help: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)


def write_metrics(
    project: Project, path: Path, error: BaseException | None, waiting: Mapping[str, Waiting]
) -> None:
    """Bring the file of metrics up to date; a file whose text would be the same stays untouched.

    The metrics are read from table metadata and ``lake.ops.runs`` alone: no Spark job. The file is replaced
    in one step. A problem with the file is logged as a warning: it fails no run.
    """
    statuses = statuses_of(project)
    runs = [run for run in project.ops.read(RUNS) if run["env"] == project.env]
    last = max(runs, key=lambda run: run["started_at"], default=None)
    text = metrics_text(project.env, statuses, last, waiting, succeeded=error is None)
    try:
        replace_file(path, text)
    except OSError as problem:
        logger.warning("The file of metrics was not written: %s", problem.strerror or type(problem).__name__)


def metrics_text(
    env: str,
    statuses: Sequence[TableStatus],
    last_run: Mapping[str, Any] | None,
    waiting: Mapping[str, Waiting],
    *,
    succeeded: bool,
) -> str:
    """Return the file's text.

    Args:
        env: The environment, a label of every sample.
        statuses: The status of each table.
        last_run: The newest row of ``lake.ops.runs``: the last run that changed a table or failed.
        waiting: What waits in the streams of tables, by table.
        succeeded: Whether the present run ended without error.

    Source:
        Prometheus text exposition format 0.0.4.
    """
    metrics = [
        *_table_metrics(statuses),
        *_stream_metrics(waiting),
        *_run_metrics(last_run, succeeded=succeeded),
    ]
    return "".join(_lines(metric, env) for metric in metrics if metric.samples)


def _table_metrics(statuses: Sequence[TableStatus]) -> list[_Metric]:
    rows = _Metric("table_rows", "Rows of a published table.")
    batch = _Metric("table_bookmark_batch", "Last batch that a table holds.")
    lag = _Metric("table_lag_batches", "Recorded batches that current or history lack.")
    commit = _Metric("table_last_commit_timestamp_seconds", "Time of a table's last commit, since the epoch.")
    quarantined = _Metric("table_quarantined_rows", "Events in a table's quarantine.")
    for one in statuses:
        table = {"table": one.table}
        counts = (("current", one.rows), ("history", one.history_rows))
        rows.samples.extend((table | {"role": role}, n) for role, n in counts if n is not None)
        batches = (("changes", one.batch), ("current", one.current_batch), ("history", one.history_batch))
        batch.samples.extend((table | {"role": role}, n) for role, n in batches if n is not None)
        lag.samples.append((table, one.lag))
        if one.last_commit is not None:
            commit.samples.append((table, one.last_commit.timestamp()))
        quarantined.samples.append((table, one.quarantined))
    return [rows, batch, lag, commit, quarantined]


def _stream_metrics(waiting: Mapping[str, Waiting]) -> list[_Metric]:
    records = _Metric("stream_lag_records", "Records of a table's stream that are in no batch, at most.")
    seconds = _Metric("stream_lag_seconds", "How long the first of these records has waited.")
    for table, one in waiting.items():
        if one.records is not None:
            records.samples.append(({"table": table}, one.records))
        seconds.samples.append(({"table": table}, one.seconds or 0.0))
    return [records, seconds]


def _run_metrics(last: Mapping[str, Any] | None, *, succeeded: bool) -> list[_Metric]:
    success = _Metric("run_success", "Whether the last run ended without error.", [({}, int(succeeded))])
    if last is None:
        return [success]
    # A run that changed nothing has no row in lake.ops.runs, so its file of metrics is the same as before.
    seconds = (last["ended_at"] - last["started_at"]).total_seconds()
    ended = last["ended_at"].timestamp()
    return [
        success,
        _Metric(
            "run_duration_seconds",
            "Duration of the last run that changed a table or failed.",
            [({}, seconds)],
        ),
        _Metric("run_end_timestamp_seconds", "End of that run, since the epoch.", [({}, ended)]),
    ]


def _lines(metric: _Metric, env: str) -> str:
    name = _PREFIX + metric.name
    lines = [f"# HELP {name} {metric.help}", f"# TYPE {name} gauge"]
    for labels, value in metric.samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in ({"env": env} | labels).items())
        lines.append(f"{name}{{{shown}}} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def replace_file(path: Path, text: str) -> bool:
    """Replace a file in one step, unless its text is the same already; return whether it was replaced.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    # The collector reads only what ends in .prom.
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(0o644)  # the collector runs as another user
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return True
