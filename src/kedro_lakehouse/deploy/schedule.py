"""The schedule that starts the job, created disabled, and the role that may do nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.access import trusted
from kedro_lakehouse.deploy.template import Resource, sub
from kedro_lakehouse.logs.scheduler import SchedulerRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.deploy.deployment import Deployment

_EXECUTION: Final = "<aws.scheduler.execution-id>"


def scheduled_run(deployment: Deployment) -> SchedulerRun:
    """What each scheduled run is called in logs: EventBridge Scheduler fills its execution's id in."""
    return SchedulerRun(dag=deployment.name, task="run", run=_EXECUTION)


def schedule_resources(
    operation: str, request: Mapping[str, Any], allowed: list[dict[str, Any]]
) -> dict[str, Resource]:
    """A schedule that calls one operation of an AWS service.

    Args:
        operation: ``service:operation``, as EventBridge Scheduler names it.
        request: The operation's request; its texts may hold ``${...}``.
        allowed: The statements that this call needs.
    """
    return {
        "ScheduleRole": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": trusted("scheduler.amazonaws.com"),
                "Policies": [
                    {
                        "PolicyName": "start",
                        "PolicyDocument": {"Version": "2012-10-17", "Statement": allowed},
                    }
                ],
            },
        },
        "Schedule": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "Name": {"Ref": "Name"},
                "ScheduleExpression": {"Ref": "ScheduleExpression"},
                "State": {"Ref": "ScheduleState"},
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": sub(f"arn:${{AWS::Partition}}:scheduler:::aws-sdk:{operation}"),
                    "RoleArn": {"Fn::GetAtt": ["ScheduleRole", "Arn"]},
                    "Input": sub(json.dumps(request)),
                    # The next hour tries again, and finds what this one left.
                    "RetryPolicy": {"MaximumRetryAttempts": 0},
                },
            },
        },
    }
