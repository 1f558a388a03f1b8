"""The metadata service as a task of ECS on Fargate, which reads the lake and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.deploy.access import allow, listed, objects, sub, table_settings
from kedro_lakehouse.deploy.template import job_arguments, landing_parameter, part
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.service import QueryConfig
    from kedro_lakehouse.deploy.deployment import Deployment
    from kedro_lakehouse.project import Project

_READ: Final = ("glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables")
_ITSELF: Final = 2**30
"""What the service holds beside its queries."""
_SIZES: Final = ((1024, 2, 8, 1), (2048, 4, 16, 1), (4096, 8, 30, 1), (8192, 16, 60, 4), (16384, 32, 120, 8))
"""Units of processor on Fargate, and the least memory, the most, and its steps, in GiB."""


def service_template(deployment: Deployment, project: Project) -> dict[str, Any]:
    """The template of the service: image, roles, logs, task, and the balancer before it.

    Raises:
        UnsupportedError: Its tokens are no secret of AWS, or its queries may hold more than a task can.
    """
    if project.secrets is None:
        raise UnsupportedError(
            what="The service finds its tokens in Secrets Manager, and this environment names no secrets.",
            remedy="Set `secrets`, the prefix of their names, in globals.yml of the environment.",
        )
    service, local = project.service, project.service.query.engine == "local"
    cpu, memory = _size(service.query)
    filled = part(
        "service.yml",
        name=deployment.name,
        bucket=deployment.lakehouse.bucket,
        most=1 if local else 10,
        tasks_told=f"0 until there is an image{'; a task knows its own queries alone.' if local else '.'}",
        cpu=str(cpu),
        memory=str(memory),
        memory_told=f"MiB: {_queries(service.query)}, and itself." if local else "MiB.",
        statements=_statements(deployment, project),
        command=_command(deployment, service.port),
        port=service.port,
        health=["CMD", "python", "-c", _asks(service.port)],
    )
    filled["Parameters"] |= landing_parameter(deployment, filled["Parameters"])
    about = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{deployment.name} on Fargate",
    }
    return about | filled


def _size(query: QueryConfig) -> tuple[int, int]:
    """Units of processor and MiB of memory that hold all queries which may run at one time."""
    wanted = _ITSELF + (query.at_once * query.memory if query.engine == "local" else 0)
    for cpu, least, most, step in _SIZES:
        if wanted <= most * 2**30:
            steps = -(-wanted // (step * 2**30))
            return cpu, max(least, steps * step) * 1024
    raise UnsupportedError(
        what=f"{_queries(query)} do not fit into a task of Fargate.",
        remedy="Lower `query.at_once` or `query.memory` in service.yml, or use the engine athena.",
    )


def _queries(query: QueryConfig) -> str:
    return f"{query.at_once} queries of {query.memory // 2**20} MiB"


def _command(deployment: Deployment, port: int) -> list[Any]:
    arguments: Mapping[str, Any] = job_arguments(deployment) | {"--port": str(port)}
    return [word for pair in arguments.items() for word in pair]


def _asks(port: int) -> str:
    return f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/health', timeout=4)"


def _statements(deployment: Deployment, project: Project) -> list[dict[str, Any]]:
    """Tables are read, and the secret with the hashes of the tokens; on Athena, roles ask for themselves."""
    bucket, warehouse = "${LakehouseBucket}", f"{deployment.lakehouse.prefix}/warehouse"
    glue = "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:"
    names = [f"{kind}/{space}" for space in deployment.namespaces for kind in ("database", "table")]
    tables = ["catalog", *(f"{name}/*" if name.startswith("table/") else name for name in names)]
    arn = "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:"
    tokens = f"{arn}{project.secrets}{project.service.credentials}-??????"
    found = [
        allow("Warehouse", ("s3:GetObject",), [objects(bucket, warehouse)]),
        allow("Artifacts", ("s3:GetObject",), [objects(bucket, deployment.artifacts)]),
        listed("ListLakehouse", bucket, [warehouse, deployment.artifacts]),
        allow("Tables", _READ, [sub(f"{glue}{name}") for name in tables]),
        allow("Tokens", ("secretsmanager:GetSecretValue",), [sub(tokens)]),
        *table_settings(deployment.table_settings),
    ]
    query = project.service.query
    if query.engine == "athena":
        group = "arn:${AWS::Partition}:athena:${AWS::Region}:${AWS::AccountId}:workgroup/" + query.workgroup
        roles = sorted({one for one in project.grants.principals.values() if ":role/" in one})
        found.append(allow("QueryStates", ("athena:GetQueryExecution",), [sub(group)]))
        if roles:
            found.append(allow("RolesThatAsk", ("sts:AssumeRole",), roles))
    return found
