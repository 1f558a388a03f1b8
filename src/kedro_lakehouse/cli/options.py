"""What the commands of ``kedro lakehouse`` share: their options, and the project that they look at."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_lakehouse.grants.access import RoleAccess
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")
_ENV: Final = "kedro_lakehouse.env"
_PROJECT: Final = "kedro_lakehouse.project"
AS_JSON: Final = "kedro_lakehouse.as_json"
"""Where a command's context remembers that JSON was asked for: its errors are JSON then as well."""


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta[_ENV] = value  # shared by the group and its command: the option may stand after either


env_option = click.option(
    "--env",
    "-e",
    expose_value=False,
    callback=_remember,
    metavar="NAME",
    help="Configuration environment; by default KEDRO_ENV, else local.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, errors too (those on stderr)."
)


def project_options(command: _Command) -> _Command:
    """The options of every command that looks at the project: --env and --json."""
    return env_option(json_option(command))


def output_option(command: _Command) -> _Command:
    """The option --output, for who is used to it: `--output json` is `--json`."""
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        callback=_as_json,
        is_eager=True,
        help="How to print; json is the same as --json.",
    )(command)


def _as_json(ctx: click.Context, _: click.Parameter, value: str) -> None:
    if value == "json":
        ctx.meta[AS_JSON] = True
        ctx.default_map = {**(ctx.default_map or {}), "as_json": True}


def env_name() -> str | None:
    """The environment that is asked for: by --env, or by KEDRO_ENV; None for the default one."""
    return click.get_current_context().meta.get(_ENV) or os.environ.get("KEDRO_ENV")


def role_option(what: str) -> Callable[[_Command], _Command]:
    """The option by which a command shows what one role of grants.yml may see."""
    return click.option("--as", "role", metavar="ROLE", help=what)


def access_of(project: Project, role: str | None) -> RoleAccess | None:
    """What a role may see; None where no role asks.

    Raises:
        ConfigurationError: grants.yml does not declare the role, or something is wrong in it.
    """
    if role is None:
        return None
    from kedro_lakehouse.grants.access import RoleAccess

    return RoleAccess.of(project, role)


def no_roles(why: str) -> Callable[[_Command], _Command]:
    """The same option of a command that shows nothing of which a role could be given a part."""

    def refused(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{why} `kedro lakehouse sql --as {value}` reads what is granted.")

    return click.option("--as", "role", hidden=True, expose_value=False, callback=refused)


def limit_option(default: int) -> Callable[[_Command], _Command]:
    """The option that bounds how many rows are printed."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        help="Print at most so many rows; 0 prints all.",
    )


def length_of_time(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read an option's length of time in seconds; None where it is not given."""
    from kedro_lakehouse.config.history import seconds_of

    if value is None:
        return None
    try:
        return seconds_of(value)
    except ValueError as error:
        raise click.BadParameter("give a length of time such as '10 s' or '5 minutes'.") from error


def moment(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Read an option's time, UTC where it names no zone; None where it is not given."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter("give a time such as '2026-11-21 00:21:18' (UTC).") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def open_project() -> Project:
    """The project around the working folder, in the environment asked for, made the active one.

    Raises:
        ConfigurationError: There is no Kedro project, no such environment, or a declaration is wrong.
    """
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.project import Project, activate, find_root

    root = find_root()
    bootstrap_project(root)
    project = activate(Project.load(str(root / settings.CONF_SOURCE), env_name()))
    click.get_current_context().meta[_PROJECT] = project
    return project


def chosen_environment() -> str | None:
    """The environment that --env names; None without that option."""
    env: str | None = click.get_current_context().meta.get(_ENV)
    return env


def opened_project() -> Project | None:
    """The project that the running command has opened; None where it did not come so far."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(_PROJECT) if ctx else None


def open_table(text: str) -> tuple[Project, LakeTable]:
    """The project, and the table of that name in it.

    Raises:
        ConfigurationError: There is no project, or it does not declare the table.
    """
    from kedro_lakehouse.names import TableName

    name = TableName.parse(text)
    project = open_project()
    project.table(name)  # refuses a table that is not declared
    return project, project.bind(name)
