"""Kedro hooks that report a run to lineage, registered by entry point; undeclared, they do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro.framework.hooks import hook_impl

from kedro_lakehouse.errors import require

if TYPE_CHECKING:
    from kedro.pipeline.node import Node

    from kedro_lakehouse.lineage.run import LineageRun


class LineageHooks:
    """Imports nothing of OpenLineage unless monitoring.yml declares ``lineage``."""

    def __init__(self) -> None:
        """Start outside of any run."""
        self._run: LineageRun | None = None

    @hook_impl
    def before_pipeline_run(self, run_params: dict[str, Any]) -> None:
        """Begin to report, where the environment declares it.

        Raises:
            UnsupportedError: OpenLineage's client is not installed.
            ConfigurationError: The declared credentials are not there.
        """
        from kedro_lakehouse.project import active_project

        self._run = None
        project = active_project()
        declared = project.monitoring.lineage if project.monitoring else None
        if declared is None:
            return
        what = "Lineage needs OpenLineage's client"
        require("openlineage.client", what=what, install="'kedro-lakehouse[lineage]'")
        from kedro_lakehouse.lineage.emitter import Emitter, transport_of
        from kedro_lakehouse.lineage.run import LineageRun
        from kedro_lakehouse.monitoring.runs import pipeline_of

        emitter = Emitter(transport_of(declared, project.credentials))
        self._run = LineageRun(project, emitter, declared.namespace, pipeline_of(run_params))

    @hook_impl
    def before_dataset_loaded(self, node: Node) -> None:
        """A node's first load is its start."""
        if self._run is not None:
            self._run.node_started(node)

    @hook_impl
    def before_dataset_saved(self, dataset_name: str, node: Node) -> None:
        """Note when a commit began."""
        if self._run is not None:
            self._run.save_started(node, dataset_name)

    @hook_impl
    def after_dataset_saved(self, dataset_name: str, node: Node) -> None:
        """Emit what was committed."""
        if self._run is not None:
            self._run.saved(node, dataset_name)

    @hook_impl
    def after_pipeline_run(self) -> None:
        """End the run and all that is open in it."""
        self._finish(None)

    @hook_impl
    def on_pipeline_error(self, error: Exception) -> None:
        """End the run, and emit what failed."""
        self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        if self._run is not None:
            self._run.finish(error)
            self._run = None


hooks = LineageHooks()
