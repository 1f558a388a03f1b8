"""The lineage of one run: which nodes work, which commits they made, and how each of them ended."""

from __future__ import annotations

import inspect
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.lineage.datasets import Datasets
from kedro_lakehouse.lineage.events import Described, JobKind, JobRun, ended, started
from kedro_lakehouse.monitoring.runs import failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro.pipeline.node import Node
    from openlineage.client.event_v2 import RunEvent

    from kedro_lakehouse.lineage.emitter import Emitter
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.project import Project

_STAGES: Final = {"changes": "ingestion", "current": "current", "history": "history"}
_WRITTEN: Final = {
    "ingestion": ("applied",),
    "current": ("inserted", "updated"),
    "history": ("opened", "closed", "rewritten"),
}


@dataclass
class _Work:
    """A node that works: ``saving`` are the saves that have begun and not ended."""

    node: Node
    run: JobRun
    last: datetime
    saving: dict[str, datetime] = field(default_factory=dict)
    saved: set[str] = field(default_factory=set)


class LineageRun:
    """Emits a run's events as Kedro's hooks report what happens; several threads may report at once.

    Kedro reports when a save has ended well, but neither when a save failed nor when a node is done. So a
    node counts as done when all its outputs are saved; one that yields batches, when another node loads its
    outputs, or when the run ends. Failures are emitted at the end of the run, from the errors that it ends
    with.
    """

    def __init__(self, project: Project, emitter: Emitter, namespace: str, pipeline: str) -> None:
        """Begin the run, and emit its start."""
        self._project, self._emitter, self._datasets = project, emitter, Datasets(project)
        self._run = JobRun(
            namespace=namespace,
            name=pipeline,
            kind="PIPELINE",
            started=datetime.now(UTC),
            token=project.run_id,
            tags={"run_id": project.run_id, "env": project.env},
        )
        self._at_work: dict[str, _Work] = {}
        self._known: set[str] = set()
        self._told: set[tuple[str, str, int]] = set()
        self._lock = threading.Lock()
        emitter.emit(lambda: [started(self._run, inputs=[], outputs=[])])

    def node_started(self, node: Node) -> None:
        """Emit the start of a node when it loads its first input; its further inputs change nothing."""
        now = datetime.now(UTC)
        with self._lock:
            if node.name in self._known:
                return
            self._known.add(node.name)
            done = [w for w in self._at_work.values() if set(w.node.outputs) & set(node.inputs)]
            work = self._at_work[node.name] = _Work(node, self._child(self._run, node.name, "NODE", now), now)
        for other in done:
            self._end(other, other.last)
        self._emitter.emit(lambda: [started(work.run, **self._of_node(work.node))])

    def save_started(self, node: Node, dataset: str) -> None:
        """Note when a node begins to save an output, or the next part of one."""
        with self._lock:
            if (work := self._at_work.get(node.name)) is not None:
                work.saving[dataset] = datetime.now(UTC)

    def saved(self, node: Node, dataset: str) -> None:
        """Emit what a save that ended well has committed; end the node if all its outputs are saved."""
        now = datetime.now(UTC)
        with self._lock:
            work = self._at_work.get(node.name)
            if work is None:
                return
            begun = work.saving.pop(dataset, now)
            work.saved.add(dataset)
            work.last = now
            reports = self._new_reports(dataset)
        for report in reports:
            self._emitter.emit(partial(self._commit, work, dataset, begun, now, report))
        if work.saved >= set(node.outputs) and not inspect.isgeneratorfunction(node.func):
            self._end(work, now)

    def finish(self, error: BaseException | None) -> None:
        """End the run and the nodes that still work; those of failed tables end with their errors."""
        now, failed = datetime.now(UTC), failures(error)
        for work in list(self._at_work.values()):
            problem = failed.get(work.node.namespace or work.node.name, failed.get(""))
            if problem is None:
                self._end(work, work.last)
                continue
            for dataset, begun in work.saving.items():
                self._emitter.emit(partial(self._failed_commit, work, dataset, begun, now, problem))
            self._end(work, now, problem)
        self._emitter.emit(lambda: [ended(self._run, now, inputs=[], outputs=[], error=error)])
        self._emitter.close()

    def _child(
        self, parent: JobRun, name: str, kind: JobKind, at: datetime, batch: int | None = None
    ) -> JobRun:
        tags = dict(self._run.tags) | ({"batch": str(batch)} if batch is not None else {})
        return JobRun(
            namespace=parent.namespace,
            name=f"{parent.name}.{name}",
            kind=kind,
            started=at,
            token=f"{self._project.run_id}/{batch}",
            parent=parent,
            tags=tags,
        )

    def _of_node(self, node: Node) -> dict[str, Sequence[Described]]:
        of_kedro = self._datasets.of_kedro
        return {"inputs": of_kedro(node.inputs), "outputs": of_kedro(node.outputs)}

    def _end(self, work: _Work, at: datetime, error: BaseException | None = None) -> None:
        with self._lock:
            if self._at_work.pop(work.node.name, None) is None:
                return
        self._emitter.emit(lambda: [ended(work.run, at, error=error, **self._of_node(work.node))])

    def _new_reports(self, dataset: str) -> list[CommitReport]:
        """The commits of a dataset that were made since its last save."""
        known = self._datasets.role_of(dataset)
        if known is None or known[1] not in _STAGES:
            return []
        name, role = str(known[0]), _STAGES[known[1]]
        made = [r for r in self._project.reports if (r.table, r.stage) == (name, role)]
        found = [r for r in made if (name, role, r.batch) not in self._told]
        self._told |= {(r.table, r.stage, r.batch) for r in found}
        return found

    def _commit(
        self, work: _Work, dataset: str, begun: datetime, at: datetime, report: CommitReport
    ) -> list[RunEvent]:
        """The events of a commit; its start is emitted only now, because a save may commit nothing."""
        known = self._datasets.role_of(dataset)
        assert known is not None  # noqa: S101 - it has a report
        name, role = known
        rows = sum(report.counts.get(count, 0) for count in _WRITTEN[report.stage])
        if role == "changes":
            inputs, output = self._datasets.changes(name, rows)
        else:
            inputs, output = self._datasets.target(name, "current" if role == "current" else "history", rows)

        def whole(part: str, kind: JobKind, read: Sequence[Described], made: Described) -> list[RunEvent]:
            run = self._child(work.run, part, kind, begun, report.batch)
            return [started(run, inputs=read, outputs=[made]), ended(run, at, inputs=read, outputs=[made])]

        events = whole(role, "COMMIT", inputs, output)
        if role == "changes" and (count := report.counts.get("quarantined")):
            aside = self._datasets.stored(name.with_suffix("quarantine"), rows=count)
            events += whole("quarantine", "COMMIT", inputs, aside)
        if role == "history" and (view := self._datasets.view(name)) is not None:
            events += whole("view", "VIEW", *view)
        return events

    def _failed_commit(
        self, work: _Work, dataset: str, begun: datetime, at: datetime, error: BaseException
    ) -> list[RunEvent]:
        known = self._datasets.role_of(dataset)
        if known is None:
            return []
        run = self._child(work.run, known[1], "COMMIT", begun)
        outputs = self._datasets.of_kedro([dataset])
        end = ended(run, at, inputs=[], outputs=outputs, error=error)
        return [started(run, inputs=[], outputs=outputs), end]
