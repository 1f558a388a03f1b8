"""What a job of Glue or EMR Serverless runs: the packaged project, with its configuration from S3."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCHEDULER: Final = ("dag_name", "task_id", "correlation_id")


def main(words: Sequence[str] | None = None) -> None:
    """Run a pipeline; ends the process with 1 where a table failed.

    Args:
        words: ``--conf_archive`` (a zip with ``conf/``, local or in S3), ``--package``, ``--env``,
            ``--variables`` (``NAME=value,...`` for the environment of the process), ``--pipelines``,
            ``--namespaces``, ``--stream`` (a length of time: run the loop, which looks for news so often, in
            place of pipelines), and a scheduler's ``--dag_name --task_id --correlation_id``. Others are the
            platform's, and are passed over.
    """
    made = parser()
    for name in ("pipelines", "namespaces", "stream", *_SCHEDULER):
        made.add_argument(f"--{name}", default="")
    given = made.parse_known_args(words)[0]
    with unpacked(given) as folder:
        _run(folder, given)


def parser() -> argparse.ArgumentParser:
    """What each process takes that runs the packaged project."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("conf_archive", "package", "env"):
        made.add_argument(f"--{name}", required=True)
    made.add_argument("--variables", default="")
    return made


@contextmanager
def unpacked(given: argparse.Namespace) -> Iterator[Path]:
    """A folder with the configuration, in which the process works; its variables are set before."""
    for variable in filter(None, given.variables.split(",")):
        name, _, value = variable.partition("=")
        if value:  # an empty one is as good as none: defaults of the configuration stand
            os.environ[name] = value
    os.environ.setdefault("KEDRO_LAKEHOUSE_LOG_FORMAT", "json")
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-") as folder:
        _unpack(given.conf_archive, Path(folder))
        os.chdir(folder)  # relative places of the configuration are meant from here
        try:
            yield Path(folder)
        finally:
            os.chdir("/")


def _unpack(archive: str, folder: Path) -> None:
    import fsspec

    with fsspec.open(archive, "rb") as packed, zipfile.ZipFile(packed) as found:
        found.extractall(folder)


def _run(folder: Path, given: argparse.Namespace) -> None:
    import yaml
    from kedro.framework.project import LOGGING, configure_project
    from kedro.framework.session import KedroSession

    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.runners import IsolatingThreadRunner

    logging = folder / "conf" / "logging.yml"
    if logging.is_file():
        LOGGING.configure(yaml.safe_load(logging.read_text(encoding="utf-8")))
    configure_project(given.package)
    if given.stream:
        _follow(folder, given)
        return
    scheduler: dict[str, Any] = {n: getattr(given, n) for n in _SCHEDULER if getattr(given, n)}
    session = KedroSession.create(
        project_path=folder, conf_source=str(folder / "conf"), env=given.env, runtime_params=scheduler
    )
    with session:
        try:
            session.run(
                pipeline_names=_listed(given.pipelines) or None,
                namespaces=_listed(given.namespaces),
                runner=IsolatingThreadRunner(),
            )
        except LakehouseError as error:
            sys.exit(str(error))


def _follow(folder: Path, given: argparse.Namespace) -> None:
    """Run the loop until the platform ends it, by SIGTERM."""
    from kedro_lakehouse.config.history import seconds_of
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.streaming import Stream, ended_by_signals

    spaces, every = _listed(given.namespaces), seconds_of(given.stream)
    loop = Stream(folder=folder, env=given.env, namespaces=spaces, every=every)
    with ended_by_signals():
        failed = loop.run(Project.load(str(folder / "conf"), given.env))
    if failed:
        sys.exit(f"{len(failed)} tables failed at their last try: {', '.join(failed)}")


def _listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
