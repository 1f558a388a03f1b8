"""A job of AWS Glue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.deploy.access import LOG_GROUP, sub
from kedro_lakehouse.deploy.artifacts import ENTRY
from kedro_lakehouse.deploy.template import job_arguments, part, pull_task, scheduled_run, template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.deploy.deployment import Deployment
    from kedro_lakehouse.logs.scheduler import SchedulerRun


def glue_template(deployment: Deployment) -> dict[str, Any]:
    """The template of a Glue job, its role, schedules, logs and buckets."""
    requests = {
        minutes: _job(deployment, scheduled_run(deployment, pull_task(minutes)), namespaces)["Request"]
        for minutes, namespaces in deployment.pulls
        if not deployment.every  # a loop asks by itself
    }
    job = _job(deployment, scheduled_run(deployment))
    if requests:  # runs of several schedules wait for each other
        job["Resources"]["Job"]["Properties"]["JobRunQueuingEnabled"] = True
    return template(deployment, "as a job of AWS Glue", job, requests)


def _job(deployment: Deployment, run: SchedulerRun, namespaces: Sequence[str] = ()) -> dict[str, Any]:
    """The part of a job, and the request that a schedule starts it with, for all or for some namespaces."""
    words = run.step_arguments() + (["--namespaces", ",".join(namespaces)] if namespaces else [])
    return part(
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
