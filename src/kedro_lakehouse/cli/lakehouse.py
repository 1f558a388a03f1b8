"""``kedro lakehouse``: the command group, in any project that installs the package."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from kedro_lakehouse.cli.add import add
from kedro_lakehouse.cli.changes import changes
from kedro_lakehouse.cli.check import check
from kedro_lakehouse.cli.console import console
from kedro_lakehouse.cli.crawl import crawl
from kedro_lakehouse.cli.deploy import deploy
from kedro_lakehouse.cli.discovered import discovered
from kedro_lakehouse.cli.drop import drop
from kedro_lakehouse.cli.erase import erase
from kedro_lakehouse.cli.erasures import erasures
from kedro_lakehouse.cli.find_value import find_value
from kedro_lakehouse.cli.grants import grants
from kedro_lakehouse.cli.import_config import import_config
from kedro_lakehouse.cli.init import init
from kedro_lakehouse.cli.lineage import lineage
from kedro_lakehouse.cli.logs import logs
from kedro_lakehouse.cli.maintain import maintain
from kedro_lakehouse.cli.messages import ErrorAsJson, MisuseAsJson, error_of, shown
from kedro_lakehouse.cli.options import AS_JSON, env_option, opened_project
from kedro_lakehouse.cli.plan import plan
from kedro_lakehouse.cli.plugins import plugins
from kedro_lakehouse.cli.pull import pull
from kedro_lakehouse.cli.quarantine import quarantine
from kedro_lakehouse.cli.rebuild import rebuild
from kedro_lakehouse.cli.rectify import rectify
from kedro_lakehouse.cli.report import report
from kedro_lakehouse.cli.rollback import rollback
from kedro_lakehouse.cli.run import run
from kedro_lakehouse.cli.runs import runs
from kedro_lakehouse.cli.schema_files import schema_files
from kedro_lakehouse.cli.schemas import schemas
from kedro_lakehouse.cli.search import search
from kedro_lakehouse.cli.serve import serve
from kedro_lakehouse.cli.snapshots import branch, snapshots, tag
from kedro_lakehouse.cli.sql import sql
from kedro_lakehouse.cli.stream import stream
from kedro_lakehouse.cli.tables import tables
from kedro_lakehouse.errors import did_you_mean

_OUTPUT_AS_JSON: Final = re.compile(r"(?:^| )(?:--output[= ]|-o ?)json(?: |$)")


class LakehouseGroup(click.Group):
    """Commands that end with status 1 and one message where the package says what is wrong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether JSON is asked for: also where the command's own words cannot be understood."""
        words = " ".join(args)
        ctx.meta[AS_JSON] = "--json" in args or _OUTPUT_AS_JSON.search(words) is not None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the package raises on purpose becomes click's error."""
        as_json = ctx.meta[AS_JSON]
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if not as_json:
                raise
            kind = MisuseAsJson if isinstance(error, click.UsageError) else ErrorAsJson
            remedy = "`kedro lakehouse --help` lists the commands."
            raise kind("USAGE", error.format_message(), remedy) from error
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            found = error_of(error, opened_project())
            if found is None:
                raise
            raise shown(found, as_json=as_json) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; name the nearest one where there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            near = did_you_mean(args[0], self.commands)
            ctx.fail(f"No such command '{args[0]}'.{near}")
        return super().resolve_command(ctx, args)


@click.group(name="lakehouse", cls=LakehouseGroup)
@env_option
def lakehouse() -> None:
    """Look at the lakehouse, and mend it.

    Only `changes`, `rebuild`, `rollback`, `tag`, `branch`, `quarantine` (with --replay, or of a blocked
    batch), `sql --engine spark`, `erase`, `rectify`, and `maintain` where something is due start Spark;
    only `rebuild`, `rollback`, `quarantine`, `drop`, `erase` and `rectify` change what tables hold.
    """


@click.group()
def commands() -> None:
    """Commands that the package adds to Kedro."""


_LOOK: Final = (
    check,
    plan,
    tables,
    sql,
    changes,
    snapshots,
    schemas,
    discovered,
    crawl,
    runs,
    report,
    logs,
    lineage,
    plugins,
    search,
    find_value,
    erasures,
    console,
    serve,
    grants,
)
_MEND: Final = (quarantine, tag, branch, rollback, rebuild, drop, maintain, erase, rectify)
_SET_UP: Final = (init, add, schema_files, import_config, deploy)
_RUN: Final = (
    stream,
    pull,
)
for command in (*_RUN, *_LOOK, *_MEND, *_SET_UP):
    lakehouse.add_command(command)
commands.add_command(lakehouse)
# In the place of Kedro's own: a project's cli.py comes after it.
commands.add_command(run)
