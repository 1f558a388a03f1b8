"""A thread runner in which one table's failure does not stop the others."""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, Final

from kedro.runner import ThreadRunner
from kedro.runner.task import Task

from kedro_lakehouse.errors import ConfigurationError, rest_went_on
from kedro_lakehouse.logs.context import working_on
from kedro_lakehouse.logs.lines import WHOLE
from kedro_lakehouse.monitoring.progress import node_is_over
from kedro_lakehouse.ops.failures import TablesFailedError, known, message_of
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from kedro.io import CatalogProtocol
    from kedro.pipeline import Pipeline
    from kedro.pipeline.node import Node
    from pluggy import PluginManager

logger = logging.getLogger(__name__)

_TELL_AFTER_SECONDS: Final = 10
ALWAYS: Final = "always"
"""Tag of nodes that run after their ancestors whether these succeeded or not, such as freshness."""


class IsolatingThreadRunner(ThreadRunner):
    """Runs every node whose ancestors succeeded, tables side by side, and raises at the end.

    What was begun goes first: a table's rows are published before the next table is ingested. Nodes with the
    tag ``always`` run also where an ancestor failed.

    Raises:
        TablesFailedError: Nodes failed; it names their tables and the command that retries just them.
    """

    def _run(
        self,
        pipeline: Pipeline,
        catalog: CatalogProtocol[Any, Any],
        hook_manager: PluginManager | None = None,
        run_id: str | None = None,
    ) -> None:
        failures: dict[Node, BaseException] = {}
        waiting = dict(pipeline.node_dependencies)
        done: set[Node] = set()
        running: dict[Future[Any], Node] = {}
        workers = self._get_required_workers_count(pipeline)
        depths = _depths(pipeline)
        with self._get_executor(workers) as executor:
            while waiting or running:
                ready = _ready(pipeline.nodes, waiting, done, failures)
                for node in sorted(ready, key=lambda n: -depths[n])[: workers - len(running)]:
                    del waiting[node]
                    task = Task(
                        node=node, catalog=catalog, hook_manager=hook_manager, is_async=False, run_id=run_id
                    )
                    running[executor.submit(task)] = node
                if not running:
                    break
                finished, busy = wait(running, timeout=_TELL_AFTER_SECONDS, return_when=FIRST_COMPLETED)
                if not finished:
                    logger.info(
                        "Still at work, %s of %s nodes done: %s",
                        len(pipeline.nodes) - len(waiting) - len(running),
                        len(pipeline.nodes),
                        ", ".join(sorted(running[f].name for f in busy)),
                    )
                for future in finished:
                    node, error = running.pop(future), future.exception()
                    node_is_over(node)
                    if error is None or _rest_went_on(error):
                        done.add(node)
                    if error is not None:
                        failures[node] = error
                        with working_on(node=node.name, table=node.namespace):
                            _log_failure(node, _cause(error))
                            logger.debug("%s", node.name, exc_info=error)
                        _let_go(error)
        if failures:
            by_table = {node.namespace or node.name: _cause(error) for node, error in failures.items()}
            again = {t for t, error in by_table.items() if not _rest_went_on(error)}
            if again:  # tables that need one that failed are behind it until they run too
                again |= {node.namespace for node in waiting if node.namespace}
            raise TablesFailedError(tables=by_table, retry=_retry(again)) from next(iter(failures.values()))


def run_tables(folder: Path, env: str | None, tables: Iterable[str], *pipelines: str) -> None:
    """Run pipelines, by default the default ones, of some tables of a project, as ``kedro run`` does.

    Raises:
        TablesFailedError: Tables failed; the others are done.
    """
    from kedro.framework.session import KedroSession

    options: dict[str, Any] = {"runner": IsolatingThreadRunner(), "namespaces": sorted(tables)}
    if pipelines:
        options["pipeline_names"] = list(pipelines)
    with KedroSession.create(project_path=folder, env=env) as session:
        session.run(**options)


def _depths(pipeline: Pipeline) -> dict[Node, int]:
    """How many nodes come before each one, one after the other."""
    needed = pipeline.node_dependencies
    depths: dict[Node, int] = {}
    for node in pipeline.nodes:  # those before it first
        depths[node] = max((depths[before] + 1 for before in needed[node]), default=0)
    return depths


def _ready(
    nodes: Iterable[Node], waiting: Mapping[Node, set[Node]], done: set[Node], failed: Iterable[Node]
) -> list[Node]:
    """The nodes whose ancestors are done; of those tagged ALWAYS it is enough that none is still to run."""
    lost, more = set(failed), True
    while more:
        found = {n for n, needs in waiting.items() if needs & lost and ALWAYS not in n.tags} - lost
        lost, more = lost | found, bool(found)
    settled = done | lost
    return [n for n in nodes if n in waiting and waiting[n] <= (settled if ALWAYS in n.tags else done)]


def _log_failure(node: Node, error: BaseException) -> None:
    """Log the reason: whole in the run's log, by its code on the console, whose last lines have it whole."""
    code = getattr(error, "code", type(error).__name__)
    logger.error("%s failed: %s", node.name, code, extra={WHOLE: f"{node.name} failed: {message_of(error)}"})


def _let_go(error: BaseException | None) -> None:
    """Drop what an error's frames hold: a generator of batches among them would keep its table's lease."""
    seen = set()
    while error is not None and id(error) not in seen:  # a chain may come back to itself
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _cause(error: BaseException) -> BaseException:
    """The error that a dataset raised, out of the one in which Kedro wraps it."""
    found = known(error)
    if isinstance(found, ConfigurationError):
        return active_project().placed(found)
    return found or error


def _rest_went_on(error: BaseException) -> bool:
    return rest_went_on(_cause(error))


def _retry(tables: Collection[str]) -> str:
    """The command that runs all stages of these tables again, in the environment that ran now, if any.

    Extracts that were refused are not among them: they would be refused again.
    """
    if not tables:
        return ""
    return f"kedro run{active_project().env_option} --namespaces={','.join(sorted(tables))}"
