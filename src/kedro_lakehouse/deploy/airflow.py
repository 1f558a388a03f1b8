"""A DAG for Airflow, written by kedro-airflow from our template."""

from __future__ import annotations

import contextlib
import io
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kedro.framework.startup import ProjectMetadata

    Pulls = Sequence[tuple[int, Sequence[str]]]


def write_dag(metadata: ProjectMetadata, env: str, folder: Path, pulls: Pulls = ()) -> Path:
    """Write the default pipeline's DAG: one task a namespace, hourly, paused when Airflow first sees it.

    Args:
        pulls: Minutes, and the namespaces whose sources are asked again after them: each is a DAG, too.

    Raises:
        UnsupportedError: kedro-airflow is not installed.
    """
    what = "The target airflow needs kedro-airflow"
    plugin = require("kedro_airflow.plugin", what=what, install="'kedro-lakehouse[deploy]'")
    ours = files("kedro_lakehouse").joinpath("deploy", "templates", "airflow_dag.py.j2")
    with as_file(ours) as template, contextlib.redirect_stdout(io.StringIO()):
        words = ["--env", env, "--target-dir", str(folder), "--jinja-file", str(template)]
        if pulls:
            told = "/".join("+".join([str(minutes), *spaces]) for minutes, spaces in pulls)
            words += ["--params", f"pulls={told}"]
        plugin.create.main(args=[*words, "--group-by", "namespace"], obj=metadata, standalone_mode=False)
    # kedro-airflow leaves out the name of Kedro's own default environment.
    named = [metadata.package_name, *([] if env == "local" else [env]), "dag.py"]
    return folder / "_".join(named)
