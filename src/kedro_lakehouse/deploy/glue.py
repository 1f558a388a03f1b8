"""A job of AWS Glue."""

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

_MINUTES: Final = 240


def glue_template(deployment: Deployment) -> dict[str, Any]:
    """The template of a Glue job, its role, schedule, logs and buckets."""
    resources = bucket_resources(deployment) | {
        "JobRole": job_role(deployment, "glue.amazonaws.com"),
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": sub(LOG_GROUP), "RetentionInDays": 90},
        },
        "Job": _job(deployment),
    }
    run = scheduled_run(deployment)
    words = run.step_arguments()
    request = {"JobName": "${Job}", "Arguments": dict(zip(words[::2], words[1::2], strict=True))}
    job = sub("arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:job/${Job}")
    started = {"Effect": "Allow", "Action": "glue:StartJobRun", "Resource": job}
    resources |= schedule_resources("glue:startJobRun", request, [started])
    return template(deployment, f"{deployment.name} as a job of AWS Glue", resources, _parameters(deployment))


def _parameters(deployment: Deployment) -> dict[str, Any]:
    platform = deployment.platform
    told = f"A version with Spark {platform.spark}."
    return {
        "GlueVersion": {"Type": "String", "Default": platform.glue, "Description": told},
        "WorkerType": {"Type": "String", "Default": "G.1X"},
        "Workers": {"Type": "Number", "Default": 2, "MinValue": 2},
    }


def _job(deployment: Deployment) -> Resource:
    return {
        "Type": "AWS::Glue::Job",
        "Properties": {
            "Name": {"Ref": "Name"},
            "Role": {"Fn::GetAtt": ["JobRole", "Arn"]},
            "GlueVersion": {"Ref": "GlueVersion"},
            "WorkerType": {"Ref": "WorkerType"},
            "NumberOfWorkers": {"Ref": "Workers"},
            "Timeout": _MINUTES,
            # A failed table is taken up by the next run; two runs would only wait for each other.
            "MaxRetries": 0,
            "ExecutionProperty": {"MaxConcurrentRuns": 1},
            "Command": {
                "Name": "glueetl",
                "PythonVersion": "3",
                "ScriptLocation": sub(f"s3://${{LakehouseBucket}}/{deployment.artifacts}/{ENTRY}"),
            },
            "DefaultArguments": _arguments(deployment),
        },
    }


def _arguments(deployment: Deployment) -> dict[str, Any]:
    place = f"s3://${{LakehouseBucket}}/{deployment.artifacts}"
    modules = [*(f"{place}/{wheel}" for wheel in deployment.wheels), *deployment.modules]
    found = {
        **job_arguments(deployment),
        "--additional-python-modules": sub(",".join(modules)),
        "--continuous-log-logGroup": sub(LOG_GROUP),
        "--enable-continuous-cloudwatch-log": "true",
        "--job-bookmark-option": "job-bookmark-disable",
    }
    if deployment.jars == "platform":
        return found | {"--datalake-formats": ",".join(deployment.formats)}
    jars = ",".join(f"{place}/jars/{jar}" for jar in deployment.jar_files)
    return found | {"--extra-jars": sub(jars), "--user-jars-first": "true"}
