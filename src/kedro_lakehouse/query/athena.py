"""Run queries on Amazon Athena, with the rights that Lake Formation gives to the principal of a role.

Athena itself keeps the state of each query: the id is Athena's, and its result's place tells whose it is.
No grant of grants.yml is enforced here: `kedro lakehouse grants apply` sets them where Athena asks for them.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.aws import client, code_of
from kedro_lakehouse.errors import AwsRefusedError
from kedro_lakehouse.query.errors import QueryError, QueryNotFoundError, QueryOutputError
from kedro_lakehouse.query.states import EVERYBODY, QueryState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.results import Format
    from kedro_lakehouse.query.states import State

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OUTPUT: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}(/[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}){0,4}")
_STATES: Final[Mapping[str, State]] = {
    "QUEUED": "running",
    "RUNNING": "running",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
}
_LOOK_EVERY: Final = 0.5
_UNKNOWN: Final = "InvalidRequestException"
"""How Athena answers an id that is none of its queries."""


class AthenaQueries:
    """The queries of a project on Athena: those whose results lie below its place of results."""

    def __init__(self, project: Project) -> None:
        """Store the settings; nothing is asked yet."""
        self._project, own = project, project.service.query
        self._place, self._workgroup = own.output.rstrip("/"), own.workgroup
        self._limit = own.time.total_seconds()

    def start(
        self,
        query: str,
        format: Format = "csv",  # noqa: A002 - the word of those who ask
        output: str | None = None,
        role: str | None = None,
        *,
        snapshots: Mapping[str, str] | None = None,
    ) -> str:
        """Start a query; its id is Athena's.

        Raises:
            QueryError: It asks for what Athena does not give here, or the role has no principal.
            QueryOutputError: The output is no name.
            AwsRefusedError: Athena does not take it.
        """
        if format != "csv":
            raise QueryError(problem=f"Athena writes csv, not {format}.", remedy='Give `format="csv"`.')
        if snapshots:
            problem = "Athena reads no snapshots by their ids."
            raise QueryError(problem=problem, remedy="Name them in the query: `where _snapshot_id = '...'`.")
        if output is not None and not _OUTPUT.fullmatch(output):
            raise QueryOutputError(output=output, problem="is no name below the place of results")
        place = "/".join(filter(None, [self._place, role or EVERYBODY, output])) + "/"
        given = {
            "QueryString": query,
            "WorkGroup": self._workgroup,
            # Settings of a query take the place of the workgroup's, all of them.
            "ResultConfiguration": {
                "OutputLocation": place,
                "EncryptionConfiguration": {"EncryptionOption": "SSE_S3"},
            },
        }
        return str(self._asked(role, "start_query_execution", **given)["QueryExecutionId"])

    def get(self, query: str) -> QueryState:
        """The state of a query.

        Raises:
            QueryNotFoundError: Athena knows no such query, or it is none of this project's.
        """
        if not _ID.fullmatch(query):
            raise QueryNotFoundError(query=query[:40])
        try:
            found = self._asked(None, "get_query_execution", QueryExecutionId=query)["QueryExecution"]
        except AwsRefusedError as error:
            if error.reason != _UNKNOWN:
                raise
            raise QueryNotFoundError(query=query) from error
        location = str(found.get("ResultConfiguration", {}).get("OutputLocation", ""))
        if not location.startswith(f"{self._place}/"):
            raise QueryNotFoundError(query=query)
        return _state(found, location, location.removeprefix(f"{self._place}/").partition("/")[0])

    def role_of(self, query: str) -> str | None:
        """The role that has started a query.

        Raises:
            QueryNotFoundError: There is none of that id.
        """
        return self.get(query).role

    def cancel(self, query: str) -> QueryState:
        """Stop a query; one that has ended is left as it is."""
        state = self.get(query)
        if not state.has_ended:
            self._asked(state.role, "stop_query_execution", QueryExecutionId=query)
        return self.get(query)

    def wait(self, query: str, seconds: float | None = None) -> QueryState:
        """The state of a query when it has ended; one that takes too long is stopped."""
        limit = self._limit if seconds is None else seconds
        waiting, waited = threading.Event(), 0.0
        while not (state := self.get(query)).has_ended:
            if waited >= limit:
                return self.cancel(query) if seconds is None else state
            waiting.wait(_LOOK_EVERY)
            waited += _LOOK_EVERY
        return state

    def _asked(self, role: str | None, operation: str, **arguments: Any) -> Any:
        """Call Athena with the rights of a role's principal, or with those of this process.

        Raises:
            AwsRefusedError: It does not do it.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            athena = client("athena", **self._keys(role))
            return getattr(athena, operation)(**arguments)
        except ClientError as error:
            raise AwsRefusedError(what=f"Athena's {operation}", reason=code_of(error)) from error
        except BotoCoreError as error:
            raise AwsRefusedError(what=f"Athena's {operation}", reason=type(error).__name__) from error

    def _keys(self, role: str | None) -> dict[str, Any]:
        if role is None:
            return {}
        principal = self._project.grants.principals.get(role, "")
        if ":role/" not in principal:
            raise QueryError(
                problem=f"The role '{role}' has no IAM role of its own, with whose rights Athena would ask.",
                remedy="Give `principals` of grants.yml the ARN of one; then `kedro lakehouse grants apply`.",
            )
        made = client("sts").assume_role(RoleArn=principal, RoleSessionName=f"kedro-lakehouse-{role}"[:64])
        keys = made["Credentials"]
        return {
            "aws_access_key_id": keys["AccessKeyId"],
            "aws_secret_access_key": keys["SecretAccessKey"],
            "aws_session_token": keys["SessionToken"],
        }


def _state(found: Mapping[str, Any], location: str, owner: str) -> QueryState:
    status, figures = found["Status"], found.get("Statistics", {})
    state = _STATES.get(status["State"], "running")
    times = {key: value.isoformat() for key, value in status.items() if key.endswith("DateTime")}
    error = None
    if state in ("failed", "cancelled"):
        # Athena's own words may quote a value.
        kind = str(status.get("AthenaError", {}).get("ErrorCategory", state))
        remedy = "Athena's console shows the rest to who may see it."
        error = {"code": "QUERY", "message": f"Athena ended the query: {kind}.", "remedy": remedy}
    return QueryState(
        id=found["QueryExecutionId"],
        state=state,
        query=found["Query"],
        format="csv",
        location=location,
        started_at=times.get("SubmissionDateTime", ""),
        ended_at=times.get("CompletionDateTime"),
        role=None if owner == EVERYBODY else owner,
        scanned=figures.get("DataScannedInBytes"),
        error=error,
    )
