"""What is done at the end of a run where monitoring.yml declares it: the file of metrics, and messages."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors import LakehouseError, rest_went_on

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kedro.io import CatalogProtocol
    from kedro.pipeline import Pipeline
    from kedro.pipeline.node import Node

    from kedro_lakehouse.config.monitoring import MonitoringConfig
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.base import Waiting

logger = logging.getLogger(__name__)


def tell_outcome(
    project: Project,
    monitoring: MonitoringConfig,
    error: BaseException | None,
    whole: Collection[str],
    find_waiting: Callable[[], Mapping[str, Waiting]],
) -> None:
    """Write the metrics and notify; where that fails, log a warning: it never fails the run.

    Args:
        whole: The tables of which every node ran to its end.
        find_waiting: Asks what waits in the streams of tables, for the metrics.
    """
    try:
        if monitoring.metrics is not None:
            from kedro_lakehouse.monitoring.metrics import write_metrics

            write_metrics(project, Path(monitoring.metrics.path), error, find_waiting())
        if monitoring.notifiers:
            from kedro_lakehouse.monitoring.notify import notify

            notify(project, monitoring, error, whole)
    except LakehouseError as problem:
        logger.warning("The outcome of this run was not reported in full: %s", problem)


def keep_report(project: Project, catalog: CatalogProtocol[Any, Any]) -> None:
    """Save the page about this run, if it has left a record; where that fails, log a warning."""
    from kedro.io import DatasetError

    from kedro_lakehouse.monitoring.run_report import keep_page, page_of, report_entry, run_report
    from kedro_lakehouse.monitoring.runs import known_runs

    try:
        run = next((one for one in known_runs(project.ops) if one["run_id"] == project.run_id), None)
        if run is None:
            logger.info("This run changed nothing, so there is no report of it.")
            return
        place = keep_page(catalog, report_entry(project), page_of(run_report(project, run)))
        logger.info("The report of this run: %s", place)
    except DatasetError as problem:
        logger.warning("The report of this run was not kept: %s", problem)


def whole_subjects(
    ran: Pipeline, registered: Mapping[str, Pipeline], failed: Mapping[str, BaseException]
) -> set[str]:
    """The namespaces of which every node of the default pipeline ran to its end: only they can recover.

    A table whose merge failed has not recovered if only its ingestion ran, or if it was not reached because
    a table that it depends on failed first.
    """
    default = registered.get("__default__")
    wanted = _by_namespace(default.nodes) if default is not None else {}
    stopped = _stopped(ran, failed)
    given = _by_namespace(node for node in ran.nodes if node not in stopped)
    return {subject for subject, names in given.items() if names >= wanted.get(subject, names)}


def unreached_subjects(ran: Pipeline, failed: Mapping[str, BaseException]) -> set[str]:
    """The namespaces that did not fail, but of which a node did not run because it needs one that failed."""
    return {_subject(node) for node in _stopped(ran, failed)} - failed.keys()


def _stopped(ran: Pipeline, failed: Mapping[str, BaseException]) -> set[Node]:
    """The nodes of what failed, and all that depend on them, unless only extracts of it were refused."""
    ended = {subject for subject, error in failed.items() if not rest_went_on(error)}
    stopped = {node for node in ran.nodes if _subject(node) in ended}
    dependencies = ran.node_dependencies
    while more := {node for node, awaited in dependencies.items() if awaited & stopped} - stopped:
        stopped |= more
    return stopped | {node for node in ran.nodes if _subject(node) in failed}


def _subject(node: Node) -> str:
    return node.namespace or node.name


def _by_namespace(nodes: Iterable[Node]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in nodes:
        found.setdefault(_subject(node), set()).add(node.name)
    return found
