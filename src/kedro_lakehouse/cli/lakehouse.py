"""``kedro lakehouse``: the command group, in any project that installs the package."""

import click


@click.group(name="lakehouse")
def lakehouse() -> None:
    """Look at and look after the lakehouse."""


@click.group()
def commands() -> None:
    """Commands that the package adds to Kedro."""


commands.add_command(lakehouse)
