"""The buckets: encrypted, closed to the public, with rules for what grows old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.template import HAS_KEY, MAKES_BUCKETS, Resource, sub

if TYPE_CHECKING:
    from kedro_lakehouse.deploy.deployment import Deployment

_DAYS_OF_LOGS: Final = 90
_DAYS_UNTIL_COLD: Final = 90


def bucket_resources(deployment: Deployment) -> dict[str, Resource]:
    """The lakehouse's bucket, and the landing bucket where that is another one.

    No rule touches ``warehouse/``: which of its files are dead only the tables' own metadata knows.
    """
    prefix = deployment.lakehouse.prefix
    lakehouse = [
        _expire("logs", f"{prefix}/logs/", _DAYS_OF_LOGS),
        _expire("leases", f"{prefix}/leases/", 1),
        _UNFINISHED,
    ]
    # A landed file is read once; `rebuild --from-landing` and archives still find it.
    cold = [
        {
            "Id": f"cold-{number}",
            "Status": "Enabled",
            "Prefix": f"{place.prefix}/",
            "Transitions": [{"StorageClass": "GLACIER_IR", "TransitionInDays": _DAYS_UNTIL_COLD}],
        }
        for number, place in enumerate(deployment.landing, 1)
        if place.bucket == deployment.landing_bucket
    ]
    if deployment.landing_bucket == deployment.lakehouse.bucket:
        return _bucket("Lakehouse", [*lakehouse, *cold])
    return _bucket("Lakehouse", lakehouse) | _bucket("Landing", [*cold, _UNFINISHED])


_UNFINISHED: Final = {
    "Id": "unfinished-uploads",
    "Status": "Enabled",
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
}


def _expire(name: str, prefix: str, days: int) -> dict[str, Any]:
    return {"Id": name, "Status": "Enabled", "Prefix": prefix, "ExpirationInDays": days}


def _bucket(role: str, rules: list[dict[str, Any]]) -> dict[str, Resource]:
    name = f"{role}Bucket"
    encryption = {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Fn::If": [HAS_KEY, {"Ref": "KmsKeyArn"}, {"Ref": "AWS::NoValue"}]},
    }
    closed = dict.fromkeys(
        ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
    )
    arns = [
        sub(f"arn:${{AWS::Partition}}:s3:::${{{name}}}"),
        sub(f"arn:${{AWS::Partition}}:s3:::${{{name}}}/*"),
    ]
    return {
        f"{role}Storage": {
            "Type": "AWS::S3::Bucket",
            "Condition": MAKES_BUCKETS,
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": {
                "BucketName": {"Ref": name},
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [
                        {"ServerSideEncryptionByDefault": encryption, "BucketKeyEnabled": True}
                    ]
                },
                "PublicAccessBlockConfiguration": closed,
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "LifecycleConfiguration": {"Rules": rules},
            },
        },
        f"{role}StoragePolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Condition": MAKES_BUCKETS,
            "Properties": {
                "Bucket": {"Ref": f"{role}Storage"},
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Sid": "EncryptedConnectionsOnly",
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": arns,
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            },
        },
    }
