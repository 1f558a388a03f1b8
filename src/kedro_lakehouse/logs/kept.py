"""Stored logs: the runs that wrote them, and their lines (Python's and the JVM's) in the order of time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import LogNotFoundError, RunNotFoundError
from kedro_lakehouse.logs.place import JVM_LINES, PYTHON_LINES, LogPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_NEWEST: Final = 5


@dataclass(frozen=True, kw_only=True)
class KeptLog:
    """The stored log of one run, which its first line names."""

    run_id: str
    correlation_id: str
    place: LogPlace
    files: Sequence[str]

    def answers_to(self, wanted: str) -> bool:
        """Whether an id means this log: that of the run, the scheduler's run, the task, or both of these."""
        task, _, scheduled = self.correlation_id.partition(" ")
        return wanted in {self.run_id, self.correlation_id, *([task, scheduled] if scheduled else [])}


def kept_logs(folder: str) -> list[KeptLog]:
    """The logs of a place, oldest first."""
    place, found = LogPlace(folder), []
    names = place.names()
    for name in names:
        run_id = name.partition(".")[0]
        if name != run_id + PYTHON_LINES:
            continue
        first = next(_lines(place, name), None)
        if first is not None:
            beside = [other for other in names if other.startswith(run_id + JVM_LINES)]
            scheduled, files = str(first["correlation_id"]), [name, *beside]
            found.append(KeptLog(run_id=run_id, correlation_id=scheduled, place=place, files=files))
    return found


def find_logs(folder: str, wanted: str | None) -> list[KeptLog]:
    """The logs that an id means, or else the one run whose name begins so; without an id the last run's log.

    Raises:
        LogNotFoundError: No stored log has that id.
        RunNotFoundError: The names of several runs begin so.
    """
    kept = kept_logs(folder)
    found = kept[-1:] if wanted is None else [log for log in kept if log.answers_to(wanted)]
    if not found and wanted:
        found = [log for log in kept if log.run_id.startswith(wanted)]
        if len(found) > 1:
            raise RunNotFoundError(wanted=wanted, known=[log.run_id for log in reversed(found)])
    if not found:
        newest = [log.correlation_id for log in reversed(kept[-_NEWEST:])]
        raise LogNotFoundError(id=wanted or "the last run", kept=newest)
    return found


def read_lines(logs: Iterable[KeptLog]) -> list[dict[str, Any]]:
    """All lines of some logs in the order of time."""
    lines = [line for log in logs for file in log.files for line in _lines(log.place, file)]
    return sorted(lines, key=lambda line: str(line["time"]))


def _lines(place: LogPlace, name: str) -> Iterator[dict[str, Any]]:
    """The lines of a file; the half line that a killed process leaves at its end is skipped."""
    with place.open(name) as text:
        for row in text:
            try:
                line = json.loads(row)
            except json.JSONDecodeError:
                continue
            if isinstance(line, dict) and "time" in line:
                yield _as_written(line)


def _as_written(line: dict[str, Any]) -> dict[str, Any]:
    """A line with the types that Python writes: the JVM writes each fact as text, empty where it is null."""
    facts = {name: value if value != "" else None for name, value in line.items()}
    batch = facts.get("batch")
    return facts | {"batch": int(batch) if isinstance(batch, str) and batch.isdecimal() else batch}
