"""An application of EMR Serverless, and the job run that the schedule starts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.artifacts import ENTRY
from kedro_lakehouse.deploy.template import job_arguments, part, pull_task, scheduled_run, template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.deploy.deployment import Deployment
    from kedro_lakehouse.logs.scheduler import SchedulerRun

ENVIRONMENT: Final = "environment.tar.gz"


def emr_serverless_template(deployment: Deployment) -> dict[str, Any]:
    """The template of an application, the job's role, schedules, logs and buckets."""
    requests = {
        minutes: _application(deployment, scheduled_run(deployment, pull_task(minutes)), namespaces)[
            "Request"
        ]
        for minutes, namespaces in deployment.pulls
        if not deployment.every  # a loop asks by itself
    }
    application = _application(deployment, scheduled_run(deployment))
    return template(deployment, "on EMR Serverless", application, requests)


def _application(deployment: Deployment, run: SchedulerRun, namespaces: Sequence[str] = ()) -> dict[str, Any]:
    """The part of an application, and the request that starts a job run, for all or for some namespaces."""
    platform, formats = deployment.platform, deployment.formats
    arguments = [
        word
        for name, value in job_arguments(deployment).items()
        for word in (name, value if isinstance(value, str) else value["Fn::Sub"])
    ]
    wanted = ["--namespaces", ",".join(namespaces)] if namespaces else []
    brought = f"The release's own jars for {', '.join(formats)} that are not on its class path, with commas."
    application = part(
        "emr_serverless.yml",
        version=platform.emr,
        described=f"A release with Spark {platform.spark}.",
        jars=",".join(filter(None, (platform.jars[name] for name in formats))),
        jars_told=brought,
        execution=run.run,
        run=run.cluster_name,
        script=f"{deployment.place}/{ENTRY}",
        arguments=[*arguments, *run.step_arguments(), *wanted],
        submit=_submit(deployment),
        logs=f"s3://${{LakehouseBucket}}/{deployment.lakehouse.prefix}/{run.log_folder}/",
    )
    if deployment.jars == "ours":
        del application["Parameters"]["PlatformJars"]
    if deployment.every:  # a streaming job has no time limit, and is tried again when it fails
        request = application["Request"]
        request |= {"Mode": "STREAMING", "RetryPolicy": {"MaxFailedAttemptsPerHour": 5}}
        del request["ExecutionTimeoutMinutes"]
    return application


def _submit(deployment: Deployment) -> str:
    python = "./environment/bin/python"
    settings = {
        "spark.archives": f"{deployment.place}/{ENVIRONMENT}#environment",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
        "spark.jars": deployment.shipped_jars if deployment.jars == "ours" else "${PlatformJars}",
    }
    return " ".join(f"--conf {name}={value}" for name, value in settings.items())
