"""The frame of a CloudFormation template: its parameters and conditions, around a target's resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.deploy.deployment import Deployment

Resource = dict[str, Any]

HAS_KEY: Final = "HasKey"
MAKES_BUCKETS: Final = "MakesBuckets"
_CONDITIONS: Final = {
    HAS_KEY: {"Fn::Not": [{"Fn::Equals": [{"Ref": "KmsKeyArn"}, ""]}]},
    MAKES_BUCKETS: {"Fn::Equals": [{"Ref": "CreateBuckets"}, "true"]},
}


def sub(text: str) -> dict[str, str]:
    """Text in which CloudFormation fills in ``${...}``."""
    return {"Fn::Sub": text}


def template(
    deployment: Deployment,
    about: str,
    resources: Mapping[str, Resource],
    parameters: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A whole template; what differs between accounts is a parameter with a default."""
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": about,
        "Parameters": _parameters(deployment) | {name: dict(given) for name, given in parameters.items()},
        "Conditions": dict(_CONDITIONS),
        "Resources": dict(resources),
    }


def _parameters(deployment: Deployment) -> dict[str, Any]:
    bucket = {"Type": "String", "AllowedPattern": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"}
    found: dict[str, Any] = {
        "Name": {"Type": "String", "Default": deployment.name, "Description": "Begins the resources' names."},
        "LakehouseBucket": bucket | {"Default": deployment.lakehouse.bucket},
        "CreateBuckets": {
            "Type": "String",
            "Default": "true",
            "AllowedValues": ["true", "false"],
            "Description": "false where the buckets are there already.",
        },
        "KmsKeyArn": {
            "Type": "String",
            "Default": "",
            "Description": "The lakehouse's key; empty: S3's own.",
        },
        "ScheduleExpression": {"Type": "String", "Default": "rate(1 hour)"},
        "ScheduleState": {
            "Type": "String",
            "Default": "DISABLED",
            "AllowedValues": ["DISABLED", "ENABLED"],
        },
    }
    if deployment.landing_bucket != deployment.lakehouse.bucket:
        found["LandingBucket"] = bucket | {"Default": deployment.landing_bucket}
    return found
