"""``kedro lakehouse init``: the starting configuration, written into any Kedro project."""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from kedro_lakehouse.cli.options import json_option
from kedro_lakehouse.cli.show import print_json
from kedro_lakehouse.errors import ConfigurationError, listed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

_BASE: Final = "base"
_HOLDS: Final = {
    "log4j2.properties": "what the JVM logs",
    f"{_BASE}/catalog_lakehouse.yml": "the datasets of every table, by name",
    f"{_BASE}/globals.yml": "places: lakehouse, landing, cache",
    f"{_BASE}/sources.yml": "where changes come from: yours to fill",
    f"{_BASE}/spark.yml": "settings of the embedded lakehouse",
    f"{_BASE}/tables.yml": "the tables: yours to fill",
}
_SPARK: Final = "Install Spark beside the package: pip install 'kedro-lakehouse[spark41]'."
_STEPS: Final = (
    """\
In src/{package}/pipeline_registry.py, add the tables' pipelines to your own:

    from kedro_lakehouse.pipeline_registry import register_with_own

    def register_pipelines():
        return register_with_own()  # ingestion, cdc_merge, ...; what runs every day is __default__""",
    """\
In src/{package}/settings.py, in the place of its CONFIG_LOADER_ARGS (without it `kedro run` cannot read
   {conf}/globals.yml: "Unsupported interpolation type project_path"):

    from kedro_lakehouse.project import CONFIG_LOADER_ARGS""",
    "Keep data/lakehouse/ and .cache/ out of git.",
    "Declare a source in {conf}/sources.yml and a table in {conf}/tables.yml, let files land, and: kedro run",
)


@click.command()
@click.option("--keep", is_flag=True, help="Leave files that are there as they are, and write the others.")
@json_option
def init(*, keep: bool, as_json: bool) -> None:
    """Write the starting configuration into this Kedro project.

    A file that is there is never overwritten: without --keep nothing is written then.
    """
    from kedro.framework.project import PACKAGE_NAME, settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.project import find_root

    root = find_root()
    bootstrap_project(root)
    base = settings.CONFIG_LOADER_ARGS.get("base_env", _BASE)
    wanted = {
        root / settings.CONF_SOURCE / name.replace(f"{_BASE}/", f"{base}/"): name for name in sorted(_HOLDS)
    }
    kept = [path for path in wanted if path.exists()]
    if kept and not keep:
        raise ConfigurationError(
            file=str(settings.CONF_SOURCE),
            key=listed(path.name for path in kept),
            problem="there already; nothing was written.",
            remedy="Move it away, or write the other files with `kedro lakehouse init --keep`.",
        )
    written = _write({path: name for path, name in wanted.items() if path not in kept})
    steps = _steps(str(PACKAGE_NAME), f"{settings.CONF_SOURCE}/{base}")
    if as_json:
        shown = [[str(path.relative_to(root)) for path in paths] for paths in (written, kept)]
        print_json({"written": shown[0], "kept": shown[1], "next": steps})
        return
    for path in wanted:
        did = "kept " if path in kept else "wrote"
        click.echo(f"{did}  {path.relative_to(root)!s:<36}  {_HOLDS[wanted[path]]}")
    for path in kept:
        if lacking := _lacking(path, wanted[path]):
            click.echo(f"{path.relative_to(root)} lacks what the package's own has: {', '.join(lacking)}.")
    click.echo("\nNext:")
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}. {step}")


def _starter(name: str) -> Traversable:
    return files("kedro_lakehouse").joinpath("starter", "conf", *name.split("/"))


def _write(wanted: Mapping[Path, str]) -> list[Path]:
    for path, name in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:  # x: not even one that came this moment is overwritten
            file.write(_starter(name).read_text(encoding="utf-8"))
    return list(wanted)


def _lacking(path: Path, name: str) -> list[str]:
    """The keys of a starting file that a kept one does not have."""
    import yaml

    if path.suffix != ".yml":
        return []
    ours = yaml.safe_load(_starter(name).read_text(encoding="utf-8")) or {}
    theirs = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return sorted(set(ours) - set(theirs))


def _steps(package: str, conf: str) -> list[str]:
    steps = [step.format(package=package, conf=conf) for step in _STEPS]
    return [_SPARK, *steps] if find_spec("pyspark") is None else steps
