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
    print_rows(found, as_json=as_json, narrow=_narrow)


def _narrow(one: dict[str, str]) -> dict[str, object]:
    """The cells that fit 80 columns: the group without the package's name, and the class alone."""
    group, name = one["group"].removeprefix("kedro_lakehouse."), one["name"]
    return {"group": group, "name": name, "class": one["module"].rpartition(":")[2]}
