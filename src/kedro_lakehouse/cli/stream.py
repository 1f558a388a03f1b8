"""``kedro lakehouse stream``: keep tables up to date until it is stopped."""

from __future__ import annotations

import click

from kedro_lakehouse.cli.options import env_option, length_of_time, open_project


@click.command()
@click.option(
    "--namespaces", default="", metavar="A,B", help="Only tables with these names, or in these namespaces."
)
@click.option(
    "--every",
    default="10 s",
    show_default=True,
    callback=length_of_time,
    metavar="TIME",
    help="How long to wait where nothing is new.",
)
@click.option(
    "--maintain",
    default="15 minutes",
    show_default=True,
    callback=length_of_time,
    metavar="TIME",
    help="How long after its last maintenance a table that was written is maintained again; at the latest "
    "after 100 cycles that wrote it.",
)
@click.option("--for", "lasting", callback=length_of_time, metavar="TIME", help="End after so long.")
@click.option("--until-idle", is_flag=True, help="End when nothing is new.")
@env_option
def stream(
    *, namespaces: str, every: float, maintain: float, lasting: float | None, until_idle: bool
) -> None:
    """Keep tables up to date until it is stopped.

    Looks for new records of all sources, also files, without Spark, and runs the tables that have some as
    `kedro run` does, in one process. A table that fails is tried again after pauses that grow, while the
    others go on. Between batches one table at a time is maintained by the thresholds of maintenance.yml; a
    minute after its last new row the small files of a table become one.
    SIGTERM and Ctrl-C end it after the batch in hand; a second one at once.

    \b
    Examples:
      kedro lakehouse stream --every '5 s'
      kedro lakehouse stream --namespaces=shop --until-idle
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.project import find_root
    from kedro_lakehouse.streaming import Stream, ended_by_signals

    project, folder = open_project(), find_root()
    spaces = [space.strip() for space in namespaces.split(",") if space.strip()]
    loop = Stream(folder=folder, env=project.env, namespaces=spaces, every=every, maintain_every=maintain)
    with ended_by_signals():
        failed = loop.run(project, seconds=lasting, until_idle=until_idle)
    if failed:
        raise click.ClickException(f"{len(failed)} tables failed at their last try: {', '.join(failed)}")
