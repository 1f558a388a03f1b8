"""What the job's role may do: a statement a zone, and nothing outside the project's own places and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.deployment import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.deploy.deployment import Deployment

LOG_GROUP: Final = "/kedro-lakehouse/${Name}"

_TABLES: Final = (
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:CreateDatabase",
    "glue:GetTable",
    "glue:GetTables",
    "glue:CreateTable",
    "glue:UpdateTable",
)


_STREAMS: Final = (
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:GetShardIterator",
    "kinesis:GetRecords",
)


def sub(text: str) -> dict[str, str]:
    """Text in which CloudFormation fills in ``${...}``."""
    return {"Fn::Sub": text}


def statements(deployment: Deployment) -> list[dict[str, Any]]:
    """Landing and places of discovery are read; the warehouse, leases, logs and reports are written.

    Where the job itself lands what it pulls, it writes and tidies; where files name persons, it writes them
    anew. Secrets are read by name.
    """
    prefix, bucket = deployment.lakehouse.prefix, "${LakehouseBucket}"
    written = [f"{prefix}/{zone}" for zone in ("warehouse", "leases", "logs", "reports")]
    found = [
        allow(
            "Warehouse",
            ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
            [objects(bucket, zone) for zone in written],
        ),
        allow("Artifacts", ("s3:GetObject",), [objects(bucket, deployment.artifacts)]),
        listed("ListLakehouse", bucket, [*written, deployment.artifacts]),
    ]
    for number, (place, where) in enumerate(_named(deployment, deployment.landing), 1):
        found.append(allow(f"Landing{number}", ("s3:GetObject",), [objects(where, place.prefix)]))
        found.append(listed(f"ListLanding{number}", where, [place.prefix]))
    for number, (place, where) in enumerate(_named(deployment, deployment.pulled), 1):
        lands = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
        found.append(allow(f"Pulls{number}", lands, [objects(where, place.prefix)]))
    for number, (place, where) in enumerate(_named(deployment, deployment.copies), 1):
        found.append(allow(f"RawCopies{number}", ("s3:PutObject",), [objects(where, place.prefix)]))
        found.append(listed(f"ListRawCopies{number}", where, [place.prefix]))
    found += _erasures(deployment)
    for number, place in enumerate(_in_s3(deployment), 1):
        found.append(allow(f"Discovery{number}", ("s3:GetObject",), [objects(place.bucket, place.prefix)]))
        found.append(listed(f"ListDiscovery{number}", place.bucket, [place.prefix]))
    glue = "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:"
    names = [f"database/{space}" for space in deployment.namespaces]
    names += [f"table/{space}/*" for space in deployment.namespaces]
    found.append(allow("Tables", _TABLES, [sub(glue + name) for name in ("catalog", *names)]))
    logs = "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:"
    writes = ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")
    found.append(allow("LogGroup", writes, [sub(f"{logs}{LOG_GROUP}*:*")]))
    # EMR Serverless looks its group up among the names of all.
    found.append(allow("LogGroups", ("logs:DescribeLogGroups",), [sub(f"{logs}*")]))
    if deployment.streams:
        found.append(allow("Streams", _STREAMS, [_stream(*one) for one in deployment.streams]))
    if deployment.asks_registry:
        # A version is asked for by its own id, which belongs to no registry's name.
        found.append(allow("Schemas", ("glue:GetSchemaVersion",), ["*"]))
    if deployment.secrets:
        # Secrets Manager adds six characters of its own to a secret's ARN.
        arn = "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:"
        secrets = [sub(f"{arn}{name}-??????") for name in deployment.secrets]
        found.append(allow("Secrets", ("secretsmanager:GetSecretValue",), secrets))
    found += [*_scans(deployment.scanned), *table_settings(deployment.table_settings)]
    if deployment.topics:
        found.append(allow("Topics", ("sns:Publish",), list(deployment.topics)))
    return found


def _erasures(deployment: Deployment) -> list[dict[str, Any]]:
    """The right to write files of persons anew, and to ask whether a bucket keeps what they held."""
    anew = ("s3:GetObject", "s3:PutObject", "s3:GetObjectTagging", "s3:PutObjectTagging")
    named = _named(deployment, deployment.erased)
    found = [
        allow(f"Erasures{number}", anew, [objects(where, place.prefix)])
        for number, (place, where) in enumerate(named, 1)
    ]
    buckets = sorted({where for _, where in named} | {"${LakehouseBucket}"})
    arns = [sub(f"arn:${{AWS::Partition}}:s3:::{bucket}") for bucket in buckets]
    return [*found, allow("Versions", ("s3:GetBucketVersioning",), arns)] if found else []


def _scans(tables: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The right to read tables of DynamoDB, by region and name."""
    arns = [
        sub(f"arn:${{AWS::Partition}}:dynamodb:{region or '${AWS::Region}'}:${{AWS::AccountId}}:table/{name}")
        for region, name in tables
    ]
    return [allow("Scans", ("dynamodb:DescribeTable", "dynamodb:Scan"), arns)] if arns else []


def table_settings(declared: str | None) -> list[dict[str, Any]]:
    """The right to read the settings of tables that stand below a path or prefix."""
    if declared is None:
        return []
    service, _, below = declared.partition(":")
    arn = "arn:${AWS::Partition}:" + service + ":${AWS::Region}:${AWS::AccountId}:"
    if service == "ssm":
        place = f"{arn}parameter/{below.strip('/')}"
        return [allow("TableSettings", ("ssm:GetParametersByPath",), [sub(place), sub(f"{place}/*")])]
    secrets = [sub(f"{arn}secret:{below.rstrip('/')}/*")]
    return [
        allow("TableSettings", ("secretsmanager:GetSecretValue",), secrets),
        allow("ListedSecrets", ("secretsmanager:ListSecrets",), ["*"]),
    ]


def _stream(region: str, name: str) -> dict[str, str]:
    place = region or "${AWS::Region}"
    return sub(f"arn:${{AWS::Partition}}:kinesis:{place}:${{AWS::AccountId}}:stream/{name}")


def _named(deployment: Deployment, places: Sequence[Place]) -> list[tuple[Place, str]]:
    """Each place with its bucket as the template names it."""
    named = {deployment.landing_bucket: "${LandingBucket}"} | {
        deployment.lakehouse.bucket: "${LakehouseBucket}"
    }
    return [(place, named.get(place.bucket, place.bucket)) for place in places]


def _in_s3(deployment: Deployment) -> list[Place]:
    """The places of discovery that lie below a prefix in S3: no right is given for a whole bucket."""
    paths = (str(one.path) for one in deployment.discovered)
    places = [Place.of(path) for path in paths if path.startswith("s3://")]
    return [place for place in places if place.prefix]


def objects(bucket: str, prefix: str) -> dict[str, str]:
    """All objects below a prefix."""
    return sub(f"arn:${{AWS::Partition}}:s3:::{bucket}/{prefix}/*")


def listed(sid: str, bucket: str, prefixes: Sequence[str]) -> dict[str, Any]:
    """A statement with the right to list these prefixes."""
    below = [pattern for prefix in prefixes for pattern in (prefix, f"{prefix}/*")]
    found = allow(sid, ("s3:ListBucket",), [sub(f"arn:${{AWS::Partition}}:s3:::{bucket}")])
    return found | {"Condition": {"StringLike": {"s3:prefix": below}}}


def allow(sid: str, actions: Sequence[str], resources: list[Any]) -> dict[str, Any]:
    """A statement that allows these actions."""
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resources}
