"""An application of EMR Serverless, and the job run that the schedule starts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.access import LOG_GROUP, job_role
from kedro_lakehouse.deploy.arguments import job_arguments
from kedro_lakehouse.deploy.artifacts import ENTRY
from kedro_lakehouse.deploy.schedule import schedule_resources, scheduled_run
from kedro_lakehouse.deploy.storage import bucket_resources
from kedro_lakehouse.deploy.template import Resource, sub, template

if TYPE_CHECKING:
    from kedro_lakehouse.deploy.deployment import Deployment

ENVIRONMENT: Final = "environment.tar.gz"
_MINUTES: Final = 240


def emr_serverless_template(deployment: Deployment) -> dict[str, Any]:
    """The template of an application, the job's role, schedule, logs and buckets."""
    resources = bucket_resources(deployment) | {
        "JobRole": job_role(deployment, "emr-serverless.amazonaws.com"),
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": sub(LOG_GROUP), "RetentionInDays": 90},
        },
        "Application": _application(),
    }
    application = "arn:${AWS::Partition}:emr-serverless:${AWS::Region}:${AWS::AccountId}:/applications/"
    allowed = [
        {
            "Effect": "Allow",
            "Action": "emr-serverless:StartJobRun",
            "Resource": sub(f"{application}${{Application}}"),
        },
        {
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": {"Fn::GetAtt": ["JobRole", "Arn"]},
            "Condition": {"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
        },
    ]
    resources |= schedule_resources("emrserverless:startJobRun", _request(deployment), allowed)
    return template(deployment, f"{deployment.name} on EMR Serverless", resources, _parameters(deployment))


def _parameters(deployment: Deployment) -> dict[str, Any]:
    platform, formats = deployment.platform, deployment.formats
    told = f"A release with Spark {platform.spark}."
    found = {"ReleaseLabel": {"Type": "String", "Default": platform.emr, "Description": told}}
    if deployment.jars == "platform":
        jars = ",".join(filter(None, (platform.jars[name] for name in formats)))
        told = f"The release's own jars for {', '.join(formats)} that are not on its class path, with commas."
        found["PlatformJars"] = {"Type": "String", "Default": jars, "Description": told}
    return found


def _application() -> Resource:
    return {
        "Type": "AWS::EMRServerless::Application",
        "Properties": {
            "Name": {"Ref": "Name"},
            "ReleaseLabel": {"Ref": "ReleaseLabel"},
            "Type": "SPARK",
            "AutoStopConfiguration": {"Enabled": True, "IdleTimeoutMinutes": 5},
            "MaximumCapacity": {"Cpu": "16 vCPU", "Memory": "64 GB"},
            # One run at a time; a second one would only wait for the leases of the first.
            "SchedulerConfiguration": {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": 60},
        },
    }


def _request(deployment: Deployment) -> dict[str, Any]:
    """The request that starts a run, with the names that logs and folders of a scheduled run carry."""
    run = scheduled_run(deployment)
    place = f"s3://${{LakehouseBucket}}/{deployment.artifacts}"
    arguments = [
        word
        for name, value in job_arguments(deployment).items()
        for word in (name, value if isinstance(value, str) else value["Fn::Sub"])
    ]
    logs = f"s3://${{LakehouseBucket}}/{deployment.lakehouse.prefix}/{run.log_folder}"
    return {
        "ApplicationId": "${Application}",
        "ClientToken": run.run,
        "Name": run.cluster_name,
        "ExecutionRoleArn": "${JobRole.Arn}",
        "ExecutionTimeoutMinutes": _MINUTES,
        "JobDriver": {
            "SparkSubmit": {
                "EntryPoint": f"{place}/{ENTRY}",
                "EntryPointArguments": [*arguments, *run.step_arguments()],
                "SparkSubmitParameters": _submit(deployment, place),
            }
        },
        "ConfigurationOverrides": {
            "MonitoringConfiguration": {
                "CloudWatchLoggingConfiguration": {"Enabled": True, "LogGroupName": LOG_GROUP},
                "S3MonitoringConfiguration": {"LogUri": f"{logs}/"},
            }
        },
    }


def _submit(deployment: Deployment, place: str) -> str:
    own = ",".join(f"{place}/jars/{jar}" for jar in deployment.jar_files)
    python = "./environment/bin/python"
    settings = {
        "spark.archives": f"{place}/{ENVIRONMENT}#environment",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
        "spark.jars": own if deployment.jars == "ours" else "${PlatformJars}",
    }
    return " ".join(f"--conf {name}={value}" for name, value in settings.items())
