"""What a run's end sets off where monitoring.yml declares it: the file of metrics, and messages."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro.pipeline import Pipeline

    from kedro_lakehouse.config.monitoring import MonitoringConfig
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


def tell_outcome(
    project: Project, monitoring: MonitoringConfig, error: BaseException | None, pipeline: Pipeline
) -> None:
    """Write the metrics and tell the notifiers; where that cannot be done, warn: no run fails by it."""
    try:
        if monitoring.metrics is not None:
            from kedro_lakehouse.ops.metrics import write_metrics

            write_metrics(project, Path(monitoring.metrics.path), error)
        if monitoring.notifiers:
            from kedro.framework.project import pipelines

            from kedro_lakehouse.notifiers.notify import notify

            notify(project, monitoring, error, whole_subjects(pipeline, pipelines))
    except LakehouseError as problem:
        logger.warning("The outcome of this run was not told in full: %s", problem)


def whole_subjects(ran: Pipeline, registered: Mapping[str, Pipeline]) -> set[str]:
    """The namespaces of which a run had every node that the default pipeline has: only they can recover.

    A table whose merge failed is not well again because its ingestion alone ran.
    """
    default = registered.get("__default__")
    wanted = _by_namespace(default.nodes) if default is not None else {}
    given = _by_namespace(ran.nodes)
    return {namespace for namespace, names in given.items() if names >= wanted.get(namespace, set())}


def _by_namespace(nodes: Iterable[object]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in nodes:
        namespace, name = getattr(node, "namespace", None), str(getattr(node, "name", ""))
        found.setdefault(namespace or name, set()).add(name)
    return found
