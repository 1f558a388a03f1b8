"""Kedro hooks, registered by entry point: capture the project, keep the record of runs, tell the outcome."""

from __future__ import annotations

import logging
import threading
import warnings
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro.framework.hooks import hook_impl

if TYPE_CHECKING:
    from kedro.framework.context import KedroContext
    from kedro.io import CatalogProtocol
    from kedro.pipeline import Pipeline
    from kedro.pipeline.node import Node

    from kedro_lakehouse.monitoring.progress import RunProgress
    from kedro_lakehouse.monitoring.run_log import RunLog
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

shows_progress: Final = threading.Event()
"""Set where runs show how far they are: by `kedro run` on a terminal."""


class LakehouseHooks:
    """Does nothing in a project that declares no tables."""

    def __init__(self) -> None:
        """Start without a project."""
        self._project: Project | None = None
        self._folder = Path()
        self._log: RunLog | None = None
        self._progress: RunProgress | None = None
        self._started = datetime.now(UTC)
        self._catalog: CatalogProtocol[Any, Any] | None = None

    @hook_impl
    def after_catalog_created(self, catalog: CatalogProtocol[Any, Any]) -> None:
        """Keep the catalog, by which a report is saved."""
        self._catalog = catalog

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Make the environment that Kedro runs in the one that datasets look declarations up in."""
        from kedro_lakehouse.config.loading import declares_tables
        from kedro_lakehouse.project import Project, activate

        self._project = None
        if not declares_tables(context.config_loader):
            return
        # Dotted dataset names are the fixed interface; Kedro takes the dots for namespaces.
        warnings.filterwarnings(
            "ignore", message="Dataset name .* contains '.' characters", category=UserWarning
        )
        project = activate(Project.of_context(context))
        if project.declarations.tables or project.discovery.places:
            self._project, self._folder = project, Path(context.project_path)

    @hook_impl
    def before_pipeline_run(self, run_params: dict[str, Any], pipeline: Pipeline) -> None:
        """Look for Spark's needs once, not once a table; open the log; settle what a killed run owes."""
        if self._project is None:
            return
        from kedro_lakehouse.commits.acknowledge import write_unrecorded_commits
        from kedro_lakehouse.ingestion.load import load_of
        from kedro_lakehouse.monitoring.run_log import RunLog
        from kedro_lakehouse.session.java import require_java
        from kedro_lakehouse.session.line import require_line
        from kedro_lakehouse.session.spark import spark_runs

        require_line(self._project.spark_conf)
        # Discovery alone starts no Spark.
        if not spark_runs() and any("discovery" not in node.tags for node in pipeline.nodes):
            require_java()
        reached = {node.namespace for node in pipeline.nodes}
        landing = [t for t, c in self._project.declarations.tables.items() if c.source and str(t) in reached]
        bound = [self._project.bind(name) for name in landing]
        self._project.find_load = partial(load_of, bound, self._project.ops)
        self._started = datetime.now(UTC)
        self._close_log()  # of a run that was interrupted
        self._log = RunLog(self._project, run_params).open()
        try:
            tables = map(self._project.bind, self._project.all_tables)
            unrecorded = write_unrecorded_commits(self._project.ops, tables)
        except BaseException:
            self._close_log()
            raise
        if unrecorded:
            logger.info("Wrote %s rows of lake.ops.batches that an interrupted run left out.", unrecorded)
        self._project.ops.gathers = True
        if shows_progress.is_set():
            from kedro_lakehouse.ingestion.load import waiting_files
            from kedro_lakehouse.monitoring.progress import RunProgress

            find_waiting = partial(waiting_files, bound, self._project.ops)
            # The isolating runner says itself when a node is over.
            one_by_one = "IsolatingThreadRunner" not in str(run_params.get("runner"))
            progress = RunProgress(self._project, pipeline, find_waiting, one_by_one=one_by_one)
            self._progress = progress.open()

    @hook_impl
    def before_dataset_loaded(self, node: Node) -> None:
        """Let the lines and jobs of this thread speak of its node: the first that happens to one."""
        if self._log is not None:
            from kedro_lakehouse.logs.context import turn_to
            from kedro_lakehouse.session.later import spark_may_wait

            spark_may_wait.set(str(getattr(node.func, "__module__", "")).startswith("kedro_lakehouse."))
            turn_to(node=node.name, table=node.namespace)
        if self._progress is not None:
            self._progress.node_started(node)

    @hook_impl(trylast=True)
    def after_pipeline_run(self, run_params: dict[str, Any], pipeline: Pipeline) -> None:
        """Record a run that changed something, and print what happened to each table."""
        self._finish(run_params, None, pipeline)

    @hook_impl(trylast=True)
    def on_pipeline_error(self, error: Exception, run_params: dict[str, Any], pipeline: Pipeline) -> None:
        """Record a failed run, and print what happened to each table."""
        self._finish(run_params, error, pipeline)

    def _finish(self, run_params: dict[str, Any], error: Exception | None, pipeline: Pipeline) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None
        if self._project is None:
            return
        from kedro.framework.project import pipelines

        from kedro_lakehouse.datasets.viz import write_viz_stats
        from kedro_lakehouse.ingestion.landing import waiting_in_streams
        from kedro_lakehouse.monitoring.outcome import tell_outcome, unreached_subjects, whole_subjects
        from kedro_lakehouse.monitoring.runs import failures, record_run
        from kedro_lakehouse.monitoring.summary import print_summary

        self._project.ops.gathers = False
        try:
            self._project.ops.flush()
            failed = failures(error)
            whole = whole_subjects(pipeline, dict(pipelines), failed)
            record_run(self._project, run_params, self._started, error, whole=whole)
            # After kedro-viz's own hook: it writes the file anew.
            write_viz_stats(self._project, self._folder)
            unreached = unreached_subjects(pipeline, failed)
            reached = {node.namespace for node in pipeline.nodes if node.namespace} - unreached
            print_summary(self._project, error, reached, unreached)
            if self._project.monitoring is not None:
                declared = map(self._project.bind, sorted(self._project.declarations.tables))
                find_waiting = partial(waiting_in_streams, declared)
                tell_outcome(self._project, self._project.monitoring, error, whole, find_waiting)
                if self._project.monitoring.report is not None and self._catalog is not None:
                    from kedro_lakehouse.monitoring.outcome import keep_report

                    keep_report(self._project, self._catalog)
        finally:
            self._close_log()

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


hooks = LakehouseHooks()
