"""``kedro run`` of this project: Kedro's own, with the isolating runner by default."""

from __future__ import annotations

import copy
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
from kedro.framework.cli.project import run as kedro_run

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNER: Final = "kedro_lakehouse.runners.IsolatingThreadRunner"


@click.group()
def cli() -> None:
    """Commands of this project."""


def _told(callback: Callable[..., Any]) -> Callable[..., Any]:
    """End with status 1 and no traceback where the run has said what failed."""

    @wraps(callback)
    def run(**options: object) -> object:
        try:
            return callback(**options)
        except LakehouseError as error:
            raise click.ClickException(redacted(str(error))) from error

    return run


def _with_default_runner(command: click.Command) -> click.Command:
    changed = copy.copy(command)
    changed.params = [copy.copy(p) for p in command.params]
    for option in changed.params:
        if option.name == "runner":
            option.default = RUNNER
    changed.callback = _told(command.callback) if command.callback else None
    return changed


cli.add_command(_with_default_runner(kedro_run))
