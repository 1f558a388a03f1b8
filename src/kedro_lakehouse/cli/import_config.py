"""``kedro lakehouse import-config``: tables.yml from the JSON of AWS's sample."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kedro_lakehouse.cli.options import json_option
from kedro_lakehouse.cli.show import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARAMETER: Final = "ssm:"
_SECRET: Final = "secretsmanager:"  # noqa: S105 - a scheme
_SOURCE: Final = """\
# Add to sources.yml:
# {source}:
#   type: dms
#   path: ${{globals:landing}}/{source}    # <path>/<schema>/<table>/LOAD0000000N.parquet
#   timestamp_column: last_update_time
"""


@click.command("import-config")
@click.argument("origin", metavar="FROM")
@click.option("--source", default="dms_task", show_default=True, help="Name of the tables' source.")
@click.option("--history", is_flag=True, help="Keep the versions of each table as well.")
@click.option("--with-schema", is_flag=True, help="Name each table <schema>_<table>, as the sample does.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a new file, such as conf/base/tables_imported.yml; by default it is printed.",
)
@json_option
def import_config(  # noqa: PLR0913 - one an option
    *, origin: str, source: str, history: bool, with_schema: bool, out: Path | None, as_json: bool
) -> None:
    """Turn the configuration of AWS's Glue sample into tables.yml.

    FROM is a file, ssm:NAME (a parameter of Systems Manager) or secretsmanager:NAME. It holds a JSON object
    {"schema.table": {"primaryKey": "a,b", "domain": "sports", "partitionCols": "c"}}; the domain becomes the
    namespace, and schema/table the folder below the source.

    \b
    Examples:
      kedro lakehouse import-config tables.json --out conf/base/tables_imported.yml
      kedro lakehouse import-config ssm:lake-iceberg-tables --source dms_task --history
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.config.imported import import_tables

    tables = import_tables(
        _read(origin), origin=Path(origin).name, source=source, history=history, with_schema=with_schema
    )
    if as_json:
        print_json(tables)
    text = _yaml(tables, source)
    if out is not None:
        _write(out, text)
        click.echo(f"Wrote {len(tables)} tables to {out}.", err=as_json)
    elif not as_json:
        click.echo(text, nl=False)


def _read(origin: str) -> str:
    from kedro_lakehouse.aws import read_parameter, read_secret
    from kedro_lakehouse.errors import ConfigurationError

    if origin.startswith(_PARAMETER):
        return read_parameter(origin.removeprefix(_PARAMETER))
    if origin.startswith(_SECRET):
        return read_secret(origin.removeprefix(_SECRET))
    try:
        return Path(origin).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            file=Path(origin).name,
            key="json",
            problem="no file with text that can be read.",
            remedy="Give a file, ssm:NAME or secretsmanager:NAME to `kedro lakehouse import-config`.",
        ) from error


def _yaml(tables: Mapping[str, Mapping[str, Any]], source: str) -> str:
    import yaml

    entries = (yaml.safe_dump({name: dict(keys)}, sort_keys=False) for name, keys in tables.items())
    return _SOURCE.format(source=source) + "\n" + "\n".join(entries)


def _write(out: Path, text: str) -> None:
    from kedro_lakehouse.errors import ConfigurationError

    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigurationError(
            file=out.name,
            key="--out",
            problem="there already; nothing was written.",
            remedy="Name another file: `kedro lakehouse import-config ... --out FILE`.",
        ) from error
