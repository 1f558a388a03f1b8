"""A whole CloudFormation template: the files of ``templates/``, filled with what a deployment holds."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import yaml

from kedro_lakehouse.deploy.access import statements, sub
from kedro_lakehouse.deploy.artifacts import CONF
from kedro_lakehouse.logs.scheduler import SchedulerRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.deploy.deployment import Deployment

_EXECUTION: Final = "<aws.scheduler.execution-id>"
_DAYS_OF_LOGS: Final = 90
_DAYS_UNTIL_COLD: Final = 90
_UNFINISHED: Final[dict[str, Any]] = {
    "Id": "unfinished-uploads",
    "Status": "Enabled",
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
}


def part(file: str, **facts: object) -> dict[str, Any]:
    """The content of a file of ``templates/``; there ``!fact NAME`` stands for the fact of that name."""

    class Loader(yaml.SafeLoader):
        """Knows the facts of this part."""

    Loader.add_constructor("!fact", lambda _, node: facts[str(node.value)])
    text = files("kedro_lakehouse").joinpath("deploy", "templates", file).read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader)  # noqa: S506 - a safe loader
    return content


def template(deployment: Deployment, about: str, target: Mapping[str, Any]) -> dict[str, Any]:
    """A whole template around the part of a target."""
    frame = part(
        "frame.yml",
        name=deployment.name,
        bucket=deployment.lakehouse.bucket,
        principal=target["Principal"],
        statements=statements(deployment),
        allowed=target["Allowed"],
        operation=sub(f"arn:${{AWS::Partition}}:scheduler:::aws-sdk:{target['Operation']}"),
        request=sub(json.dumps(target["Request"])),
    )
    parameters = frame["Parameters"]
    if deployment.landing_bucket != deployment.lakehouse.bucket:
        parameters["LandingBucket"] = parameters["LakehouseBucket"] | {"Default": deployment.landing_bucket}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{deployment.name} {about}",
        "Parameters": parameters | target["Parameters"],
        "Conditions": frame["Conditions"],
        "Resources": _buckets(deployment) | frame["Job"] | target["Resources"] | frame["Schedule"],
    }


def scheduled_run(deployment: Deployment) -> SchedulerRun:
    """What each scheduled run is called in logs: EventBridge Scheduler fills its execution's id in."""
    return SchedulerRun(dag=deployment.name, task="run", run=_EXECUTION)


def job_arguments(deployment: Deployment) -> dict[str, Any]:
    """The arguments of ``kedro_lakehouse.deploy.job`` by name; their texts may hold ``${...}``."""
    apart = deployment.landing_bucket != deployment.lakehouse.bucket
    landing = "LandingBucket" if apart else "LakehouseBucket"
    variables = f"LAKEHOUSE_BUCKET=${{LakehouseBucket}},LANDING_BUCKET=${{{landing}}},"
    return {
        "--conf_archive": sub(f"{deployment.place}/{CONF}"),
        "--package": deployment.package,
        "--env": deployment.env,
        "--variables": sub(f"{variables}LAKEHOUSE_KMS_KEY=${{KmsKeyArn}},AWS_REGION=${{AWS::Region}}"),
        **({"--stream": f"{deployment.every:.0f} s"} if deployment.every else {}),
    }


def _buckets(deployment: Deployment) -> dict[str, Any]:
    """The lakehouse's bucket, and the landing bucket where that is another one.

    No rule touches ``warehouse/``: which of its files are dead only the tables' own metadata knows.
    """
    prefix = deployment.lakehouse.prefix
    lakehouse = [
        _rule("logs", f"{prefix}/logs/", ExpirationInDays=_DAYS_OF_LOGS),
        _rule("leases", f"{prefix}/leases/", ExpirationInDays=1),
        _UNFINISHED,
    ]
    # A landed file is read once; `rebuild --from-landing` and archives still find it.
    moves = [{"StorageClass": "GLACIER_IR", "TransitionInDays": _DAYS_UNTIL_COLD}]
    cold = [
        _rule(f"cold-{number}", f"{place.prefix}/", Transitions=moves)
        for number, place in enumerate(deployment.landing, 1)
        if place.bucket == deployment.landing_bucket
    ]
    if deployment.landing_bucket == deployment.lakehouse.bucket:
        return _bucket("Lakehouse", [*lakehouse, *cold])
    return _bucket("Lakehouse", lakehouse) | _bucket("Landing", [*cold, _UNFINISHED])


def _rule(name: str, prefix: str, **effect: object) -> dict[str, Any]:
    return {"Id": name, "Status": "Enabled", "Prefix": prefix, **effect}


def _bucket(role: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    name, storage = f"{role}Bucket", f"{role}Storage"
    arns = [sub(f"arn:${{AWS::Partition}}:s3:::${{{name}}}{objects}") for objects in ("", "/*")]
    made = part("bucket.yml", bucket={"Ref": name}, storage={"Ref": storage}, rules=rules, arns=arns)
    return {storage: made["Storage"], f"{storage}Policy": made["Policy"]}
