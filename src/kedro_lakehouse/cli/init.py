"""``kedro lakehouse init``: the starting configuration, written into any Kedro project."""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kedro_lakehouse.cli.add import plan_blocks, show_blocks, write_blocks
from kedro_lakehouse.cli.options import json_option
from kedro_lakehouse.cli.schema_files import schema_folder, write_schemas
from kedro_lakehouse.cli.show import print_json
from kedro_lakehouse.errors import ConfigurationError, listed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from kedro_lakehouse.discovery.additions import Additions

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
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), help="A file or folder: its tables are declared."
)
@json_option
def init(*, keep: bool, data: Path | None, as_json: bool) -> None:
    """Write the starting configuration into this Kedro project.

    A file that is there is never overwritten: without --keep nothing is written then. With --data, blocks
    for the data are added to sources.yml and tables.yml, as `kedro lakehouse add` proposes them. The folder
    schemas gets JSON Schemas of the files, for editors: see `kedro lakehouse schema-files`.
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
    schemas = write_schemas(schema_folder())
    declared = _declare(data, root / settings.CONF_SOURCE, base) if data else None
    steps = _steps(str(PACKAGE_NAME), f"{settings.CONF_SOURCE}/{base}")
    if as_json:
        shown = [[str(path.relative_to(root)) for path in paths] for paths in (written, kept)]
        tables = [one.name for one in declared.tables] if declared else []
        facts = {"written": shown[0], "kept": shown[1], "schemas": len(schemas), "tables": tables}
        print_json({**facts, "next": steps})
        return
    for path in wanted:
        did = "kept " if path in kept else "wrote"
        click.echo(f"{did}  {path.relative_to(root)!s:<36}  {_HOLDS[wanted[path]]}")
    click.echo(f"wrote  {'schemas':<36}  what the files may hold, for editors")
    if declared:
        click.echo()
        show_blocks(declared, root / settings.CONF_SOURCE / base)
    for path in kept:
        if lacking := _lacking(path, wanted[path]):
            click.echo(f"{path.relative_to(root)} lacks what the package's own has: {', '.join(lacking)}.")
    click.echo("\nNext:")
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}. {step}")


def _declare(data: Path, conf: Path, base: str) -> Additions:
    """Add blocks for data to the files that were just written."""
    from kedro_lakehouse.project import Project

    project = Project.load(str(conf), None, base=base)
    planned = plan_blocks(project, str(data))
    write_blocks(planned, conf / base, project.env)
    return planned


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
