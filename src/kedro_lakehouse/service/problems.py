"""What the service answers where it cannot do what is asked: problem JSON with a code of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.errors import LakehouseError

PROBLEM: Final = "application/problem+json"
TITLES: Final = {
    400: "Bad request",
    401: "Not authorized",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    413: "Too large",
    429: "Too many requests",
    500: "Unforeseen",
    503: "Not available",
}
_STATUS: Final[Mapping[str, int]] = {
    "QUERY": 400,
    "QUERY_NOT_FOUND": 404,
    "QUERY_OUTPUT": 400,
    "QUERIES_TOO_MANY": 429,
    "SNAPSHOT_NOT_FOUND": 404,
    "SNAPSHOT_EXPIRED": 410,
    "SNAPSHOT_ERASED": 410,
}


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """An answer that is a problem."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """Keep what is answered."""
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, dict(headers or {})

    def facts(self) -> dict[str, object]:
        """The answer; it holds no secret, and only characters that can be sent."""
        detail = redacted(self.detail).encode(errors="replace").decode()
        return {
            "type": f"urn:kedro-lakehouse:{self.code}",
            "title": TITLES.get(self.status, "Problem"),
            "status": self.status,
            "code": self.code,
            "detail": detail,
        }

    def body(self) -> bytes:
        """The answer as JSON."""
        return json.dumps(self.facts(), ensure_ascii=False).encode()


def not_found(what: str) -> Problem:
    """The one answer for what is not there and for what a role is not granted."""
    return Problem(404, "NOT_FOUND", f"There is no {what} here.")


def unauthorized() -> Problem:
    """The answer to whoever shows no token, or one that is not known."""
    detail = "Show a token: `Authorization: Bearer TOKEN`."
    return Problem(401, "UNAUTHORIZED", detail, {"WWW-Authenticate": "Bearer"})


def problem_of(error: LakehouseError) -> Problem:
    """What an error of ours is to who asked; one about the project's own files is not shown."""
    status = _STATUS.get(error.code)
    if status is None:
        return Problem(503, error.code, "The service cannot answer this now; its log says why.")
    message, remedy = error.sentences()
    headers = {"Retry-After": "1"} if status == 429 else None  # noqa: PLR2004
    return Problem(status, error.code, f"{message} {remedy}", headers)
