"""What the script of the job is told, on either platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.deploy.artifacts import CONF
from kedro_lakehouse.deploy.template import sub

if TYPE_CHECKING:
    from kedro_lakehouse.deploy.deployment import Deployment


def job_arguments(deployment: Deployment) -> dict[str, Any]:
    """The arguments of ``kedro_lakehouse.deploy.job`` by name; their texts may hold ``${...}``."""
    landing = (
        "LandingBucket" if deployment.landing_bucket != deployment.lakehouse.bucket else "LakehouseBucket"
    )
    variables = f"LAKEHOUSE_BUCKET=${{LakehouseBucket}},LANDING_BUCKET=${{{landing}}},"
    return {
        "--conf_archive": sub(f"s3://${{LakehouseBucket}}/{deployment.artifacts}/{CONF}"),
        "--package": deployment.package,
        "--env": deployment.env,
        "--variables": sub(f"{variables}LAKEHOUSE_KMS_KEY=${{KmsKeyArn}},AWS_REGION=${{AWS::Region}}"),
    }
