"""``kedro lakehouse deploy``: what runs this project elsewhere, rendered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.options import length_of_time, open_project, project_options
from kedro_lakehouse.cli.show import print_json

if TYPE_CHECKING:
    from kedro_lakehouse.deploy.deployment import Jars
    from kedro_lakehouse.deploy.render import Target


@click.command()
@click.option(
    "--target",
    type=click.Choice(["emr-serverless", "glue", "airflow", "service"]),
    required=True,
    help="What runs it; `service` is `kedro lakehouse serve` on Fargate.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write; by default build/deploy/<target>. Except for Airflow it is written anew.",
)
@click.option(
    "--jars",
    type=click.Choice(["platform", "ours"]),
    default="platform",
    show_default=True,
    help="The table formats as the platform has them, or those of spark.yml.",
)
@click.option(
    "--wheel",
    "wheels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A wheel to ship; by default the project's own, which is built.",
)
@click.option(
    "--loop",
    "every",
    metavar="TIME",
    callback=length_of_time,
    help="Run the loop, which looks for new records so often, in place of pipelines by a schedule.",
)
@project_options
def deploy(  # noqa: PLR0913 - one an option
    *,
    target: Target,
    out: Path | None,
    jars: Jars,
    wheels: tuple[Path, ...],
    every: float | None,
    as_json: bool,
) -> None:
    """Render what runs this project on EMR Serverless, on Glue or by Airflow; or its service on Fargate.

    For EMR Serverless and Glue: a CloudFormation template (job, roles with least privilege, schedules that
    are created disabled, buckets with their rules), the wheel, the configuration and the script that is
    started. For Airflow: a DAG, and one for each `every` of pulled sources. For the service: a template of
    its own, without a task until there is an image, and a Dockerfile. Nothing is sent anywhere; the commands
    that come next are printed.

    \b
    Examples:
      kedro lakehouse deploy --target glue --env aws
      kedro lakehouse deploy --target glue --env aws --loop '10 s'
      kedro lakehouse deploy --target airflow --env aws --out dags
      kedro lakehouse deploy --target service --env aws
    """  # noqa: D301 - \b keeps click from wrapping the examples
    if target == "service" and (every is not None or jars != "platform"):
        raise click.UsageError(
            "--target service takes neither --loop nor --jars: the service only answers, without Spark."
        )
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.deploy.render import render
    from kedro_lakehouse.project import find_root

    project = open_project()
    metadata = bootstrap_project(find_root())
    folder = (out or metadata.project_path / "build" / "deploy" / target).absolute()
    conf = metadata.project_path / settings.CONF_SOURCE
    done = render(target, project, metadata, conf, folder, jars=jars, wheels=wheels, every=every)
    if as_json:
        print_json({"files": [str(file) for file in done.files], "next": done.steps})
        return
    for file in done.files:
        click.echo(f"wrote  {file.relative_to(folder)}")
    click.echo(f"\nNext, in {folder}:")
    for number, step in enumerate(done.steps, 1):
        click.echo(f"{number}. {step}")
