"""``kedro lakehouse add``: blocks for data that is there, from what the data says, into the YAML files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kedro_lakehouse.cli.options import chosen_environment, no_roles, open_project, project_options
from kedro_lakehouse.cli.rebuild import confirm
from kedro_lakehouse.cli.show import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.config.pulled import PulledSourceConfig
    from kedro_lakehouse.discovery.additions import Additions
    from kedro_lakehouse.discovery.found import FoundDataset
    from kedro_lakehouse.project import Project

_BASE: Final = "base"
_FILES: Final = ("sources.yml", "tables.yml")


@click.command()
@click.argument("what", metavar="FILE|FOLDER|TABLE")
@click.option("--name", metavar="NAMESPACE.TABLE", help="Name of the table; default: by folder and file.")
@click.option("--namespace", metavar="NAME", help="Namespace of the tables; default: their folder's name.")
@click.option("--show", "only_show", is_flag=True, help="Only show the blocks; nothing is written.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@no_roles("What lies in files is shown to no role:")
@project_options
def add(  # noqa: PLR0913 - one an option
    *, what: str, name: str | None, namespace: str | None, only_show: bool, yes: bool, as_json: bool
) -> None:
    """Look at data, propose its source and table, and write both into sources.yml and tables.yml.

    WHAT is a file or folder of csv, JSON or parquet, also packed by gzip; or a dataset of catalog.yml, of
    `kedro lakehouse discovered`, or SOURCE.ENTITY of a declared source that is asked for its records. The
    blocks say in comments what they rest on: types, keys with what speaks for each, a time column, personal
    columns. They are shown first; then, after a question, they are added to the files of conf/base, or of
    the environment that --env names. All else in these files stays as it is, and `kedro run` reads the data.
    A table that is declared already is refused. No Spark is started, and the data stays where it is.

    \b
    Examples:
      kedro lakehouse add data/01_raw/shop/order
      kedro lakehouse add data/01_raw/cars.csv --name fleet.car --yes
    """  # noqa: D301 - \b keeps click from wrapping the examples
    project = open_project()
    planned = plan_blocks(project, what, name=name, namespace=namespace or "")
    folder = configuration_folder()
    if not as_json:
        show_blocks(planned, folder)
    if not only_show:
        confirm(f"Add this to {folder.parent.name}/{folder.name}?", yes=yes)
        write_blocks(planned, folder, project.env)
    if as_json:
        print_json(_as_json(planned, folder, written=not only_show))
    elif not only_show:
        names = [one.name for one in planned.tables]
        click.echo(f"Written. Next: kedro run --namespaces={','.join(names)}")


def plan_blocks(project: Project, what: str, *, name: str | None = None, namespace: str = "") -> Additions:
    """The blocks for what was named, without those of tables that are declared.

    Raises:
        ConfigurationError: All of it is declared already, or there can be no block for it.
        UnknownNameError: There is no such file, folder or table.
    """
    from kedro_lakehouse.discovery.additions import additions_for, described_table
    from kedro_lakehouse.errors import ConfigurationError

    if (entity := _pulled(project, what)) is not None:
        planned = described_table(project, *entity, name=name)
    else:
        found = _named(_found(project, what, namespace), name)
        planned = additions_for(found, project.written("sources"), _places(project))
    declared = {str(one) for one in project.all_tables}
    new = [one for one in planned.tables if one.name not in declared]
    if planned.tables and not new:
        problem = "the table is declared already; nothing was written."
        remedy = "Change its block by hand, or give the new one another name by --name."
        raise ConfigurationError(
            file="tables.yml", key=planned.tables[0].name, problem=problem, remedy=remedy
        )
    if not new:
        first = planned.left[0]
        reason = first.comments[-1] if first.comments else "nothing was found in it."
        raise ConfigurationError(
            file="tables.yml", key=first.name, problem=reason, remedy="Correct that, or declare it by hand."
        )
    return planned.only(new)


def _found(project: Project, what: str, namespace: str) -> Sequence[FoundDataset]:
    """What lies at a path or address, or under a name of catalog.yml or of what was discovered.

    Raises:
        UnknownNameError: It is neither a path nor such a name.
        UnreadableFileError: The file is not what its name says.
    """
    from kedro_lakehouse.discovery.additions import look_at
    from kedro_lakehouse.discovery.versions import newest_versions
    from kedro_lakehouse.errors import UnknownNameError
    from kedro_lakehouse.project import project_path

    if "://" in what or Path(what).exists():
        return look_at(what if "://" in what else str(Path(what).absolute()), namespace=namespace)
    catalog = {name: one for name, one in project.written("catalog").items() if _has_file(one)}
    if what in catalog:
        path = project_path(str(catalog[what]["filepath"]))
        return _under_name(look_at(path, namespace=namespace), what, namespace)
    there = [one for one in newest_versions(project.ops) if one.status == "present"]
    discovered = {one.dataset.name: one.dataset for one in there}
    if what in discovered:
        return [discovered[what]]
    raise UnknownNameError(
        option="WHAT", kind="file, folder or table", name=what, known=sorted({*catalog, *discovered})[:20],
        remedy="Give the path of a file or folder, or the name of what a catalog holds.",
    )  # fmt: skip


def _has_file(entry: object) -> bool:
    """Whether an entry of the catalog is one file or folder, and not a pattern of many names."""
    if not isinstance(entry, dict) or not isinstance(entry.get("filepath"), str):
        return False
    return "{" not in entry["filepath"] and str(entry.get("type")).startswith(
        ("pandas.", "spark.", "polars.")
    )


def _under_name(found: Sequence[FoundDataset], entry: str, namespace: str) -> Sequence[FoundDataset]:
    """A dataset of the catalog keeps its name there, as far as a table can have it."""
    from kedro_lakehouse.discovery.found import identifier_of

    if len(found) != 1:
        return found
    space, _, table = entry.rpartition(".")
    space = namespace or identifier_of([space]) if space else found[0].name.partition(".")[0]
    return [found[0].named(f"{space}.{identifier_of([table])}")]


def _pulled(project: Project, what: str) -> tuple[str, PulledSourceConfig, str] | None:
    """The source and the entity that a name means; None where it is no declared source's."""
    from kedro_lakehouse.config.pulled import PulledSourceConfig

    source, _, entity = what.partition(".")
    config = project.declarations.sources.get(source)
    return (source, config, entity) if entity and isinstance(config, PulledSourceConfig) else None


def _named(found: Sequence[FoundDataset], name: str | None) -> Sequence[FoundDataset]:
    from kedro_lakehouse.names import TableName

    if name is None:
        return found
    TableName.parse(name)
    if len(found) > 1:
        told = ", ".join(one.name for one in found[:5])
        raise click.UsageError(f"--name is for one table, and there are {len(found)}: {told}.")
    return [found[0].named(name)]


def _places(project: Project) -> dict[str, str]:
    """Folders with the texts that stand for them in YAML."""
    from kedro_lakehouse.project import find_root

    landing = project.written("globals").get("landing")
    inner = {"${globals:landing}": str(landing)} if landing else {}
    return {**inner, "${project_path:<below>}": str(find_root())}


def configuration_folder() -> Path:
    """The folder of the environment that blocks are written to."""
    from kedro.framework.project import settings

    from kedro_lakehouse.project import find_root

    base = settings.CONFIG_LOADER_ARGS.get("base_env", _BASE)
    return Path(find_root() / settings.CONF_SOURCE / (chosen_environment() or base))


def _texts(planned: Additions) -> dict[str, str]:
    texts = dict(zip(_FILES, (planned.sources_text, planned.tables_text), strict=True))
    return {file: text for file, text in texts.items() if text}


def show_blocks(planned: Additions, folder: Path) -> None:
    """Print the blocks, and what gets none."""
    for file, text in _texts(planned).items():
        click.echo(f"# {folder.parent.name}/{folder.name}/{file}\n{text}")
    for name in planned.reused:
        click.echo(f"# The source {name} is declared already as it is needed.")
    for one in planned.left:
        click.echo(f"# No block for {one.name}: {one.comments[-1] if one.comments else ''}")


def write_blocks(planned: Additions, folder: Path, env: str) -> None:
    """Add the blocks to the files of a folder; if the project cannot be loaded then, all is as it was.

    Raises:
        ConfigurationError: A file cannot take blocks, or they do not fit to what is declared.
    """
    from kedro_lakehouse.config.blocks import added_to
    from kedro_lakehouse.project import Project

    with added_to({folder / file: text for file, text in _texts(planned).items()}):
        Project.load(str(folder.parent), env)


def _as_json(planned: Additions, folder: Path, *, written: bool) -> dict[str, Any]:
    return {
        "sources": dict(planned.sources),
        "tables": {one.name: dict(one.tables[one.name]) for one in planned.tables},
        "comments": {one.name: list(one.comments) for one in (*planned.tables, *planned.left)},
        "written": [f"{folder.parent.name}/{folder.name}/{file}" for file in _texts(planned)]
        if written
        else [],
    }
