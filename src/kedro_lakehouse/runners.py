"""A thread runner in which one table's failure does not stop the others."""

from __future__ import annotations

import logging
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from kedro.runner import ThreadRunner
from kedro.runner.task import Task

from kedro_lakehouse.errors import RefusedExtractsError
from kedro_lakehouse.ops.failures import TablesFailedError, told

if TYPE_CHECKING:
    from kedro.io import CatalogProtocol
    from kedro.pipeline import Pipeline
    from kedro.pipeline.node import Node
    from pluggy import PluginManager

logger = logging.getLogger(__name__)


class IsolatingThreadRunner(ThreadRunner):
    """Runs every node whose ancestors succeeded, tables side by side, and raises at the end.

    Raises:
        TablesFailedError: Nodes failed; it names their tables and the command that retries just them.
    """

    def __init__(self, max_workers: int | None = None, *, is_async: bool = False) -> None:
        """Make a runner that works on two tables more than there are cores: Spark has the cores."""
        super().__init__(max_workers=max_workers, is_async=is_async)

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
        with self._get_executor(self._get_required_workers_count(pipeline)) as executor:
            while waiting or running:
                for node in [n for n in pipeline.nodes if n in waiting and waiting[n] <= done]:
                    del waiting[node]
                    task = Task(
                        node=node, catalog=catalog, hook_manager=hook_manager, is_async=False, run_id=run_id
                    )
                    running[executor.submit(task)] = node
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    node, error = running.pop(future), future.exception()
                    if error is None or _rest_went_on(error):
                        done.add(node)
                    if error is not None:
                        failures[node] = error
                        logger.error("%s failed: %s", node.name, told(_cause(error)))
                        logger.debug("%s", node.name, exc_info=error)
        if failures:
            raise TablesFailedError(tables=_by_table(failures), retry=_retry(failures)) from next(
                iter(failures.values())
            )


def _cause(error: BaseException) -> BaseException:
    """The error that a dataset raised, out of the one in which Kedro wraps it."""
    from kedro_lakehouse.errors import LakehouseError

    inner = error
    while not isinstance(inner, LakehouseError) and inner.__cause__ is not None:
        inner = inner.__cause__
    return inner if isinstance(inner, LakehouseError) else error


def _rest_went_on(error: BaseException) -> bool:
    cause = _cause(error)
    return isinstance(cause, RefusedExtractsError) and cause.published


def _by_table(failures: dict[Node, BaseException]) -> dict[str, BaseException]:
    return {node.namespace or node.name: _cause(error) for node, error in failures.items()}


def _retry(failures: dict[Node, BaseException]) -> str:
    return f"kedro run --namespaces={','.join(sorted(_by_table(failures)))}"
