"""What AWS does not give."""

from __future__ import annotations

from kedro_lakehouse.errors.base import TerminalError


class AwsRefusedError(TerminalError):
    """A call to AWS failed; its error's code tells why."""

    code = "AWS_REFUSED"
    what: str
    reason: str
    summary = "AWS does not give {what}: {reason}."
    advice = (
        "Look at its name, at AWS_REGION and at the role's policy, which `kedro lakehouse deploy` renders; "
        "then run the command again."
    )
