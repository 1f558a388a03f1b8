"""Glue's optimistic locking, which moto lacks: a commit of an outdated version of a table is refused."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any, Final

from harness.lossy import Answer, Line, Request, served

_PATIENCE: Final = 60
"""Seconds that a commit waits for a second one."""
_COMMIT: Final = "AWSGlue.UpdateTable"
_READ: Final = "AWSGlue.GetTable"
_REFUSED: Final = {
    "__type": "ConcurrentModificationException",
    "Message": "Update table failed due to concurrent modifications.",
}


class VersionedGlue(Line):
    """Compares the ``VersionId`` of each commit with that of the table, as Glue does, and refuses others.

    A commit without one is applied, as by Glue. ``met`` counts what was applied, refused and unversioned.
    """

    def __init__(self, address: str) -> None:
        """Listen on a free port of this machine."""
        super().__init__(address)
        self.met: Counter[str] = Counter()
        self._meeting: threading.Barrier | None = None
        self._updating: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def let_two_meet(self) -> None:
        """Let a commit wait for a second one that was planned on the same version, until one is refused."""
        self._meeting = threading.Barrier(2, timeout=_PATIENCE)

    def pass_on(self, request: Request) -> Answer:
        """The answer of moto, or the refusal that it forgets."""
        if request.target != _COMMIT:
            return super().pass_on(request)
        commit = json.loads(request.body)
        table = commit["DatabaseName"], commit["TableInput"]["Name"]
        if self._meeting is not None and not self.met["refused"]:
            with contextlib.suppress(threading.BrokenBarrierError):  # the other writer is done
                self._meeting.wait()
        with self._updating[table]:
            wanted = commit.get("VersionId")
            if wanted is None:
                self.met["unversioned"] += 1
            elif wanted != self._version(request, *table):
                self.met["refused"] += 1
                return Answer(400, (("Content-Type", "application/x-amz-json-1.1"),), _json(_REFUSED))
            self.met["applied"] += 1
            return super().pass_on(request)

    def _version(self, request: Request, database: str, table: str) -> str:
        """The version of the table now."""
        body = _json({"DatabaseName": database, "Name": table})
        headers = {name: text for name, text in request.headers.items() if name != "Content-Length"}
        read = replace(request, headers=headers | {"X-Amz-Target": _READ}, body=body)
        return str(json.loads(super().pass_on(read).content)["Table"]["VersionId"])


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def versioned_glue(address: str) -> contextlib.AbstractContextManager[VersionedGlue]:
    """Glue's stand-in at ``address``, behind a line that compares versions."""
    return served(VersionedGlue(address))
