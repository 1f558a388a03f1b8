"""``kedro lakehouse schema-files``: JSON Schemas of the YAML files, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kedro_lakehouse.cli.options import json_option
from kedro_lakehouse.cli.show import print_json

_FOLDER: Final = "schemas"


@click.command("schema-files")
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for the files; default: {_FOLDER} beside the project's configuration.",
)  # fmt: skip
@json_option
def schema_files(*, folder: Path | None, as_json: bool) -> None:
    """Write the JSON Schemas of sources.yml, tables.yml and the other files of the package.

    An editor that knows YAML then completes keys, says what they mean, and marks mistakes, in each file that
    begins with a line such as

      # yaml-language-server: $schema=../../schemas/tables.json

    The schemas have the keys of every installed plug-in. <name>.env.json is for files in the folder of an
    environment, which hold only what differs there. Files of an earlier call are replaced.
    """
    where = folder or schema_folder()
    names = write_schemas(where)
    if as_json:
        print_json({"folder": str(where), "written": names})
        return
    click.echo(f"Wrote {len(names)} files to {where}.")


def write_schemas(where: Path) -> list[str]:
    """Write the schemas into a folder, over those of an earlier time; return the names of the files."""
    from kedro_lakehouse.config.json_schema import PARTIAL, schema_text
    from kedro_lakehouse.project import file_schemas

    where.mkdir(parents=True, exist_ok=True)
    names = []
    for ending, partial in ((".json", False), (PARTIAL, True)):
        for name, schema in file_schemas(partial=partial).items():
            (where / f"{name}{ending}").write_text(schema_text(schema), encoding="utf-8")
            names.append(f"{name}{ending}")
    return sorted(names)


def schema_folder() -> Path:
    """The folder of the project's schemas: beside that of its configuration."""
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.project import find_root

    root = find_root()
    bootstrap_project(root)
    return Path(root / settings.CONF_SOURCE).parent / _FOLDER
