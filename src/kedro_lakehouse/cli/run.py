"""``kedro run``: Kedro's own, but a mistake ends in one message; here with the isolating runner."""

from __future__ import annotations

import copy
import os
import re
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click
from kedro.framework.cli.project import run as kedro_run
from kedro.framework.cli.utils import KedroCliError

from kedro_lakehouse.cli.messages import FileGoneError, error_of, shown
from kedro_lakehouse.errors import ConfigurationError, LakehouseError, PlaceUnusableError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kedro.pipeline import Pipeline

    from kedro_lakehouse.project import Project

    _Choice = tuple[str, str, Iterable[str], set[str], str]

_WRONG_DATASET: Final = re.compile(
    r"(?:config for|Failed to instantiate) dataset '([^']*)'|Dataset '([^']*)' must only contain"
)
RUNNER: Final = "kedro_lakehouse.runners.IsolatingThreadRunner"
_PIPELINES: Final = "`kedro registry list` lists the pipelines."
_NODES: Final = "`kedro registry describe __default__` lists the nodes."
_NAMESPACES: Final = "`kedro lakehouse tables` lists the tables, a part before a dot means all of it."
_DATASETS: Final = "`kedro registry describe __default__` lists the nodes, with the datasets of each."
_INDEXED: Final = (
    "parameters_column_index.yml",
    "Declare there `column_index: {models: [minilm]}` (docs/how-to/find-columns.md).",
)
_DECLARED_IN: Final = {
    "column_index": _INDEXED,
    "column_eval": _INDEXED,
    "convert": ("convert.yml", "Declare there which files become a table (docs/how-to/convert.md)."),
}
"""Of pipelines that can be without a node: the file that declares what they work on, and what to write."""
_NODE_OPTIONS: Final = {"--nodes": "node_names", "--from-nodes": "from_nodes", "--to-nodes": "to_nodes"}
_DATASET_OPTIONS: Final = {
    "--from-inputs": "from_inputs",
    "--to-outputs": "to_outputs",
    "--load-versions": "load_versions",
}


@click.group()
def cli() -> None:
    """Commands of this project."""


class RunCommand(click.Command):
    """Kedro's command; where the package says what is wrong, it ends with status 1 and that message alone.

    An error that nobody foresaw passes, with its traceback. In a project without tables nothing else happens
    than in Kedro's own command.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options; one of them is a file of configuration."""
        with _one_message({}):
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run; on a terminal, show how far it is."""
        from kedro_lakehouse.hooks import shows_progress
        from kedro_lakehouse.monitoring.progress import wants_progress

        if wants_progress():
            shows_progress.set()
        try:
            with _one_message(ctx.params):
                return super().invoke(ctx)
        finally:
            shows_progress.clear()


@contextmanager
def _one_message(options: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except KedroCliError as error:
        if not _declares_tables(options):
            raise
        # Kedro's own way to show it looks for an exception that is over by then, and prints "NoneType: None".
        raise click.UsageError(error.message.replace(",found", ", found")) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        found = error if isinstance(error, LakehouseError) else _mistake(error, options)
        if found is None:
            raise
        raise shown(found) from error


def _declares_tables(options: Mapping[str, Any]) -> bool:
    """Whether the project around the working folder declares tables."""
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.config.loading import folder_declares_tables
    from kedro_lakehouse.project import find_root

    with suppress(Exception):
        root = find_root()
        bootstrap_project(root)
        return folder_declares_tables(str(options.get("conf_source") or root / settings.CONF_SOURCE))
    return False


def _mistake(error: Exception, options: Mapping[str, Any]) -> LakehouseError | None:
    """The mistake of the user that led to an error of Kedro's or the system's; None where there is none.

    It is looked for only now: a run without mistakes does not wait for it.
    """
    found = None
    with suppress(Exception):  # the error that is being explained is the one to show
        found = _looked_for(error, options)
    return found


def _looked_for(error: Exception, options: Mapping[str, Any]) -> LakehouseError | None:
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.config.files import all_of
    from kedro_lakehouse.config.loading import folder_declares_tables
    from kedro_lakehouse.project import KINDS, Project, configuration_files, find_root

    try:
        root = find_root()
        bootstrap_project(root)
        conf = str(options.get("conf_source") or root / settings.CONF_SOURCE)
        if not folder_declares_tables(conf):
            return None
        env = options.get("env") or os.environ.get("KEDRO_ENV")
        args = settings.CONFIG_LOADER_ARGS
        base, default = args.get("base_env") or "base", args.get("default_run_env") or "local"
        project = Project.load(conf, env, base=base, default=default)
        files = configuration_files(conf, env, base=base, default=default)
        if _while_reading(error) and (mistakes := files.mistakes(KINDS)):
            return all_of(mistakes)
        return _place_of_ours(error, project) or _of_kedro(error, project) or _unknown_name(options)
    except LakehouseError as mistake:
        return mistake


def _while_reading(error: Exception) -> bool:
    """Whether an error was raised while Kedro read the configuration; a node's error was not."""
    frames = traceback.walk_tb(error.__traceback__)
    return any("/kedro/config/" in frame.f_code.co_filename for frame, _ in frames)


def _of_kedro(error: Exception, project: Project) -> LakehouseError | None:
    """A mistake that Kedro itself has found: in the file of --config, or in an entry of catalog.yml."""
    import yaml
    from kedro.io import DatasetError

    from kedro_lakehouse.config.files import mistake_in_text

    if isinstance(error, yaml.MarkedYAMLError):
        return mistake_in_text(error)
    found = _WRONG_DATASET.search(str(error)) if type(error) is DatasetError else None
    if found is None:
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[1] if lines[0].startswith("An exception occurred") and len(lines) > 1 else lines[0]
    return project.placed(
        ConfigurationError(
            file="catalog.yml",
            key=found[1] or found[2],
            problem=f"{said.rstrip('.')}.",
            remedy="Correct this entry, or the pattern that its name fits.",
        )
    )


def _place_of_ours(error: Exception, project: Project) -> LakehouseError | None:
    """The error of a folder or file that the package needs; another one may be a node's own, and a bug."""
    found = error_of(error, project)
    if isinstance(found, PlaceUnusableError):
        ours = (project.lakehouse, project.cache, project.logs, project.catalog.place)
        return found if found.path.startswith(ours) else None
    return None if isinstance(found, FileGoneError) else found


def _unknown_name(options: Mapping[str, Any]) -> LakehouseError | None:
    """The first name on the command line that is not that of anything there is."""
    from kedro.framework.project import pipelines
    from kedro.pipeline import Pipeline

    asked = list(options.get("pipelines") or ())
    if options.get("pipeline"):
        asked.append(options["pipeline"])
    choices: list[_Choice] = [("--pipelines", "pipeline", asked, set(pipelines), _PIPELINES)]
    found = [pipelines[name] for name in asked or ["__default__"] if name in pipelines]
    chosen = sum(found, Pipeline([]))
    choices += _choices(options, chosen)
    for option, kind, names, there, remedy in choices:
        for name in names:
            if name not in there:
                return UnknownNameError(
                    option=option, kind=kind, name=name, known=sorted(there), remedy=remedy
                )
    runner = _unknown_runner(options.get("runner"))
    return runner or _empty_choice(options, chosen) or _empty_pipelines(asked, chosen)


def _choices(options: Mapping[str, Any], chosen: Pipeline) -> Iterator[_Choice]:
    """Each option that names parts of a pipeline: its names, those that there are, and what lists them."""
    nodes = {node.name for node in chosen.nodes} | {node.short_name for node in chosen.nodes}
    spaces = {
        ".".join(parts[: n + 1])
        for node in chosen.nodes
        for parts in [(node.namespace or "").split(".")]
        for n in range(len(parts))
    } - {""}
    tags = {tag for node in chosen.nodes for tag in node.tags}
    datasets = chosen.datasets()
    yield "--namespaces", "namespace", options.get("namespaces") or (), spaces, _NAMESPACES
    yield "--tags", "tag", options.get("tags") or (), tags, f"Declare it under 'tags' in tables.yml; {_NODES}"
    for option, key in _NODE_OPTIONS.items():
        yield option, "node", options.get(key) or (), nodes, _NODES
    for option, key in _DATASET_OPTIONS.items():
        yield option, "dataset", options.get(key) or (), datasets, _DATASETS


def _unknown_runner(name: str | None) -> LakehouseError | None:
    from kedro.utils import load_obj

    if not name:
        return None
    try:
        load_obj(name, "kedro.runner")
    except (ImportError, AttributeError, ValueError):
        known = ["SequentialRunner", "ThreadRunner", "ParallelRunner", RUNNER]
        remedy = "Use one of these with `kedro run --runner=NAME`, or the path of your own class."
        return UnknownNameError(option="--runner", kind="runner", name=name, known=known, remedy=remedy)
    return None


def _empty_choice(options: Mapping[str, Any], chosen: Pipeline) -> LakehouseError | None:
    """Names that are known each, and have no node in common."""
    keys = ("tags", "from_nodes", "to_nodes", "node_names", "from_inputs", "to_outputs")
    given = {key: options[key] for key in keys if options.get(key)}
    spaces = options.get("namespaces")
    if not given and not spaces:
        return None
    try:
        left = chosen.filter(**given, node_namespaces=spaces or None).nodes
    except ValueError:
        left = []
    if left:
        return None
    names = [name for value in (*given.values(), spaces or ()) for name in value]
    remedy = "Leave some of these options out; " + _NODES
    return UnknownNameError(
        option="kedro run", kind="node that fits all of", name=", ".join(names), known=[], remedy=remedy
    )


def _empty_pipelines(asked: Sequence[str], chosen: Pipeline) -> LakehouseError | None:
    """Pipelines that are there, but for which nothing is declared: they have no node."""
    if not asked or chosen.nodes:
        return None
    file, remedy = _DECLARED_IN.get(asked[0], ("tables.yml", "Declare a table that it works on."))
    names = ", ".join(asked)
    return ConfigurationError(
        file=file,
        key=names,
        problem=f"the pipeline {names} has no node, for nothing is declared.",
        remedy=remedy,
    )


def _with_one_message(command: click.Command, *, runner: str | None = None) -> RunCommand:
    """Kedro's command as one whose mistakes end in one message; with another default of --runner if given."""
    options = [copy.copy(option) for option in command.params]
    for option in options:
        if option.name == "runner" and runner is not None:
            option.default = runner
    return RunCommand(
        name=command.name,
        params=options,
        callback=command.callback,
        help=command.help,
        short_help=command.short_help,
        context_settings=command.context_settings,
    )


run = _with_one_message(kedro_run)
"""For any project that installs the package; its own ``cli.py`` may take the place of it."""
cli.add_command(_with_one_message(kedro_run, runner=RUNNER))
