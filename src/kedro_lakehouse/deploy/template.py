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

    from kedro_lakehouse.config.lifetimes import PrefixLifetime
    from kedro_lakehouse.deploy.deployment import Deployment, Place

_EXECUTION: Final = "<aws.scheduler.execution-id>"
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


def template(
    deployment: Deployment,
    about: str,
    target: Mapping[str, Any],
    pulls: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A whole template around the part of a target.

    Args:
        pulls: Requests that start the job for the namespaces whose sources are asked, by the minutes between.
    """
    frame = part(
        "frame.yml",
        name=deployment.name,
        bucket=deployment.lakehouse.bucket,
        principal=target["Principal"],
        statements=statements(deployment),
        allowed=target["Allowed"],
        operation=(operation := sub(f"arn:${{AWS::Partition}}:scheduler:::aws-sdk:{target['Operation']}")),
        request=sub(json.dumps(target["Request"])),
    )
    parameters = frame["Parameters"] | landing_parameter(deployment, frame["Parameters"])
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{deployment.name} {about}",
        "Parameters": parameters | target["Parameters"],
        "Conditions": frame["Conditions"],
        "Resources": {
            **_buckets(deployment),
            **frame["Job"],
            **target["Resources"],
            **frame["Schedule"],
            **_pull_schedules(pulls or {}, operation),
        },
    }


def landing_parameter(deployment: Deployment, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameter of the landing bucket, where that is another one than the lakehouse's."""
    if deployment.landing_bucket == deployment.lakehouse.bucket:
        return {}
    return {"LandingBucket": parameters["LakehouseBucket"] | {"Default": deployment.landing_bucket}}


def _pull_schedules(requests: Mapping[int, Mapping[str, Any]], operation: object) -> dict[str, Any]:
    found = {}
    for minutes, request in requests.items():
        made = part(
            "pull_schedule.yml",
            name=sub(f"${{Name}}-{pull_task(minutes)}"),
            rate=f"rate({_length(minutes)})",
            operation=operation,
            request=sub(json.dumps(request)),
        )
        found[f"PullSchedule{minutes}"] = made["Schedule"]
    return found


def _length(minutes: int) -> str:
    """A time as EventBridge Scheduler wants it, in the largest unit.

    Example:
        >>> _length(1), _length(90), _length(60), _length(2880)
        ('1 minute', '90 minutes', '1 hour', '2 days')
    """
    units = {"day": 1440, "hour": 60, "minute": 1}
    unit, size = next((unit, size) for unit, size in units.items() if minutes % size == 0)
    return f"{minutes // size} {unit}{'s' if minutes > size else ''}"


def pull_task(minutes: int) -> str:
    """The name of the runs that pull what is due after so many minutes."""
    return f"pull-{minutes}m"


def scheduled_run(deployment: Deployment, task: str = "run") -> SchedulerRun:
    """What each scheduled run is called in logs: EventBridge Scheduler fills its execution's id in."""
    return SchedulerRun(dag=deployment.name, task=task, run=_EXECUTION)


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

    The rules are those that the configuration declares. None touches ``warehouse/``: which of its files are
    dead only the tables' own metadata knows.
    """
    landed = [
        rule
        for number, place in enumerate(deployment.landing, 1)
        if place.bucket == deployment.landing_bucket
        for rule in _rules(f"landing-{number}", place, deployment.lifetimes[place])
    ]
    lakehouse = [
        rule
        for place, lifetime in deployment.lifetimes.items()
        if place not in deployment.landing
        for rule in _rules(place.prefix.rpartition("/")[2], place, lifetime)
    ] + [_UNFINISHED]
    if deployment.landing_bucket == deployment.lakehouse.bucket:
        return _bucket("Lakehouse", [*lakehouse, *landed])
    return _bucket("Lakehouse", lakehouse) | _bucket("Landing", [*landed, _UNFINISHED])


def _rules(name: str, place: Place, lifetime: PrefixLifetime) -> list[dict[str, Any]]:
    """The rule of a place for S3; none if its files stay as they are."""
    effect: dict[str, Any] = {}
    if lifetime.cold_after:
        move = {"StorageClass": lifetime.cold_class, "TransitionInDays": lifetime.cold_after.days}
        effect["Transitions"] = [move]
    if lifetime.delete_after:
        effect["ExpirationInDays"] = lifetime.delete_after.days
    rule = {"Id": name, "Status": "Enabled", "Prefix": f"{place.prefix}/", **effect}
    return [rule] if effect else []


def _bucket(role: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    name, storage = f"{role}Bucket", f"{role}Storage"
    arns = [sub(f"arn:${{AWS::Partition}}:s3:::${{{name}}}{objects}") for objects in ("", "/*")]
    made = part("bucket.yml", bucket={"Ref": name}, storage={"Ref": storage}, rules=rules, arns=arns)
    return {storage: made["Storage"], f"{storage}Policy": made["Policy"]}
