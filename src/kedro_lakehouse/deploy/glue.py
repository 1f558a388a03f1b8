"""A job of AWS Glue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.deploy.access import LOG_GROUP, sub
from kedro_lakehouse.deploy.artifacts import ENTRY
from kedro_lakehouse.deploy.template import job_arguments, part, scheduled_run, template

if TYPE_CHECKING:
    from kedro_lakehouse.deploy.deployment import Deployment


def glue_template(deployment: Deployment) -> dict[str, Any]:
    """The template of a Glue job, its role, schedule, logs and buckets."""
    words = scheduled_run(deployment).step_arguments()
    job = part(
        "glue.yml",
        version=deployment.platform.glue,
        described=f"A version with Spark {deployment.platform.spark}.",
        # A streaming job has no end of its own, and no time limit.
        command="gluestreaming" if deployment.every else "glueetl",
        minutes={"Ref": "AWS::NoValue"} if deployment.every else 240,
        script=sub(f"{deployment.place}/{ENTRY}"),
        arguments=_arguments(deployment),
        run=dict(zip(words[::2], words[1::2], strict=True)),
    )
    return template(deployment, "as a job of AWS Glue", job)


def _arguments(deployment: Deployment) -> dict[str, Any]:
    wheels = [f"{deployment.place}/{wheel}" for wheel in deployment.wheels]
    found = {
        **job_arguments(deployment),
        "--additional-python-modules": sub(",".join([*wheels, *deployment.modules])),
        "--continuous-log-logGroup": sub(LOG_GROUP),
        "--enable-continuous-cloudwatch-log": "true",
        "--job-bookmark-option": "job-bookmark-disable",
    }
    if deployment.jars == "platform":
        return found | {"--datalake-formats": ",".join(deployment.formats)}
    return found | {"--extra-jars": sub(deployment.shipped_jars), "--user-jars-first": "true"}
