"""``kedro lakehouse plugins``: what is installed, by entry-point group."""

from __future__ import annotations

import click

from kedro_lakehouse.cli.options import json_option
from kedro_lakehouse.cli.show import print_rows


@click.command()
@json_option
def plugins(*, as_json: bool) -> None:
    """List the installed plug-ins by group."""
    from kedro_lakehouse.plugins import GROUPS, list_plugins

    found = [
        {"group": group, "name": name, "module": module}
        for group in GROUPS
        for name, module in list_plugins(group).items()
    ]
    print_rows(found, as_json=as_json)
