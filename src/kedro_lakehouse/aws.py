"""Clients of AWS, and the texts that its stores of parameters and secrets hold.

Credentials, profile and endpoint are those that every AWS client finds: the role of the job, or the
variables and files of the machine. Of what is read here credentials alone are kept, never to be printed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.errors import AwsRefusedError, ConfigurationError, require
from kedro_lakehouse.redaction import keep_secret

if TYPE_CHECKING:
    from collections.abc import Callable

Service = Literal[
    "s3", "glue", "ssm", "secretsmanager", "sns", "kinesis", "lakeformation", "sts", "athena", "dynamodb"
]
_making: Final = threading.Lock()
_BUSY: Final = frozenset(
    {
        "ConditionalRequestConflict", "InternalError", "InternalFailure", "InternalServiceException",
        "OperationAborted", "OperationTimeoutException", "RequestLimitExceeded", "RequestTimeout",
        "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException",
    }
)  # fmt: skip
"""Codes of a service that could not answer now; some come without a status of 500 or more."""
_THROTTLED, _BROKEN = 429, 500


def client(
    service: Service, *, timeout: float | None = None, region: str | None = None, **more: str | None
) -> Any:
    """A client of one service, by default in the region of the environment; it has called nothing yet.

    With a ``timeout`` it waits so long for a connection and so long for an answer, and asks once: whoever
    calls decides when to ask again. Without one it waits and repeats as boto3 is configured.

    Args:
        more: Other arguments of boto3: the address of the service, or keys.

    Units:
        timeout: seconds.

    Raises:
        UnsupportedError: boto3 is not installed.
    """
    boto3 = require("boto3", what="AWS needs boto3", install="'kedro-lakehouse[aws]'")
    from botocore.config import Config

    asks_once = {"connect_timeout": timeout, "read_timeout": timeout, "retries": {"total_max_attempts": 1}}
    config = Config(**asks_once) if timeout is not None else None
    # boto3 itself looks only at AWS_DEFAULT_REGION; jobs of Glue and EMR are told AWS_REGION.
    with _making:  # a client may be used by several threads, and be made by one at a time
        region = region or os.environ.get("AWS_REGION")
        return boto3.client(service, region_name=region, config=config, **more)


def code_of(error: BaseException) -> str:
    """The code with which a service refuses; "unknown" where its answer names none, or none came."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", "unknown"))


def is_unanswered(error: Exception) -> bool:
    """Whether an error of a client says that no answer came, or that the service is at its limit.

    What was asked for may have been done all the same. Any other error is an answer: a refusal.
    """
    errors = sys.modules.get("botocore.exceptions")
    if errors is None:  # no error of botocore is raised before it is imported
        return False
    if isinstance(error, errors.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= _BROKEN or status == _THROTTLED or code_of(error) in _BUSY
    lost = (
        errors.HTTPClientError,
        errors.ConnectionError,
        errors.IncompleteReadError,
        errors.CredentialRetrievalError,
        errors.MetadataRetrievalError,
    )
    return isinstance(error, lost)


def read_parameter(name: str) -> str:
    """The text of a parameter of Systems Manager, decrypted.

    Raises:
        AwsRefusedError: There is no such parameter, or it may not be read.
    """
    return str(_call("ssm", "get_parameter", name, Name=name, WithDecryption=True)["Parameter"]["Value"])


def read_secret(name: str) -> str:
    """The text of a secret of Secrets Manager.

    Raises:
        AwsRefusedError: There is no such secret, it may not be read, or it holds bytes and no text.
    """
    found = _call("secretsmanager", "get_secret_value", name, SecretId=name)
    if "SecretString" not in found:
        raise AwsRefusedError(what=f"the secret '{name}'", reason="it holds bytes, not text")
    return str(found["SecretString"])


def read_parameters_below(path: str) -> dict[str, str]:
    """The texts of all parameters below a path, decrypted, by the rest of their names.

    Raises:
        AwsRefusedError: They may not be read.
    """
    path = f"{path.rstrip('/')}/"
    pages = _pages(
        "ssm", "get_parameters_by_path", path, Path=path.rstrip("/") or "/", Recursive=True,
        WithDecryption=True,
    )  # fmt: skip
    return {one["Name"].removeprefix(path): str(one["Value"]) for page in pages for one in page["Parameters"]}


def read_secrets_below(prefix: str) -> dict[str, str]:
    """The texts of all secrets whose names begin with a prefix and a ``/``, by the rest of their names.

    Raises:
        AwsRefusedError: They may not be listed or read, or one holds bytes and no text.
    """
    prefix = f"{prefix.rstrip('/')}/"
    pages = _pages("secretsmanager", "list_secrets", prefix, Filters=[{"Key": "name", "Values": [prefix]}])
    names = [one["Name"] for page in pages for one in page["SecretList"]]
    return {name.removeprefix(prefix): read_secret(name) for name in names if name.startswith(prefix)}


def read_credentials(name: str) -> dict[str, Any]:
    """The keys of a secret that stands for an entry of credentials.yml.

    Raises:
        AwsRefusedError: There is no such secret, or it may not be read.
        ConfigurationError: It is not a JSON object.
    """
    try:
        found = json.loads(read_secret(name))
    except json.JSONDecodeError:  # it holds the secret's text: the error below must not
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            file="Secrets Manager",
            key=name,
            problem="the secret is not a JSON object.",
            remedy="Store the keys that an entry of credentials.yml would have.",
        )
    return keep_secret(found)


def _pages(service: Service, operation: str, name: str, **arguments: object) -> list[Any]:
    def read(called: Any) -> list[Any]:
        return list(called.get_paginator(operation).paginate(**arguments))

    found: list[Any] = _asked(service, name, read)
    return found


def _call(service: Service, operation: str, name: str, **arguments: object) -> Any:
    return _asked(service, name, lambda called: getattr(called, operation)(**arguments))


def _asked(service: Service, name: str, ask: Callable[[Any], Any]) -> Any:
    called = client(service)
    from botocore.exceptions import BotoCoreError, ClientError

    kind = {"ssm": "parameter", "secretsmanager": "secret"}[service]
    try:
        return ask(called)
    except ClientError as error:
        # The code alone: a message may quote the caller's identity.
        raise AwsRefusedError(what=f"the {kind} '{name}'", reason=code_of(error)) from error
    except BotoCoreError as error:
        raise AwsRefusedError(what=f"the {kind} '{name}'", reason=type(error).__name__) from error
