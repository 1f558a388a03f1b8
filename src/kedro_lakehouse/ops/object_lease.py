"""The lease on a table where the lakehouse is in S3: an object that its holder writes again and again."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import uuid
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.aws import client, is_unanswered
from kedro_lakehouse.errors import AwsRefusedError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)

_LEASE: Final = ".lease"
BEAT: Final = 20.0
DEAD_AFTER: Final = 90.0
PATIENCE: Final = 300.0
_SURE: Final = 2 / 3
"""Part of ``dead_after`` for which a beat is trusted: the rest is for what a run does after its check."""
_TIMEOUTS: Final = 9
"""A request is given up after this part of ``dead_after``: some fit in before the lease is in doubt."""
_SHORTEST_TIMEOUT: Final = 1.0
_ASKED: Final = 3
"""How many times ``confirm`` and ``release`` ask where no answer comes."""
_LONGEST_PAUSE: Final = 10.0
_NOT_SO: Final = frozenset({"PreconditionFailed", "NoSuchKey", "404"})


@contextlib.contextmanager
def object_lease(  # noqa: PLR0913 - whose lease, and times that tests make short
    folder: str,
    table: TableName,
    stage: str,
    *,
    beat: float = BEAT,
    dead_after: float = DEAD_AFTER,
    patience: float = PATIENCE,
) -> Iterator[ObjectLease]:
    """Hold the lease of one stage of a table while the block runs; wait for the run that has it.

    The holder writes the object anew every ``beat`` seconds, and sooner after a beat that was not answered.
    A waiting run takes the lease over once it has seen the same object for ``dead_after`` seconds of its own
    monotonic clock: no clocks of two machines are compared. Like the lease on a local file it is advisory.

    Units:
        beat, dead_after, patience: seconds.

    Raises:
        AwsRefusedError: The object may not be read or written, or S3 did not answer for ``patience`` seconds.
    """
    held = ObjectLease(folder, table, stage, dead_after)
    held.acquire(patience)
    released = threading.Event()
    beating = threading.Thread(target=held.keep, args=(released, beat), daemon=True)
    beating.start()
    try:
        yield held
    finally:
        released.set()
        beating.join()
        held.release()


def held_objects(folder: str) -> set[str]:
    """The leases below a folder that were written in the last ``DEAD_AFTER`` seconds, by S3's own clock."""
    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    held: set[str] = set()
    for page in client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
        now = parsedate_to_datetime(page["ResponseMetadata"]["HTTPHeaders"]["date"])
        for found in page.get("Contents", ()):
            if found["Key"].endswith(_LEASE) and (now - found["LastModified"]).total_seconds() < DEAD_AFTER:
                held.add(found["Key"].rpartition("/")[2].removesuffix(_LEASE))
    return held


class _UnansweredError(Exception):
    """S3 did not answer, or was at its limit; what was asked for may have been done."""


@dataclass
class _Seen:
    """An object as it was read, and when it was first read so."""

    tag: str
    is_ours: bool
    since: float


class ObjectLease:
    """One holder's view of the object.

    ``_tag`` is its version as this holder last knew it, ``_confirmed`` the time before the request that
    wrote it: no other run takes it over within ``dead_after`` seconds from then.
    """

    def __init__(self, folder: str, table: TableName, stage: str, dead_after: float) -> None:
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        self._table, self._stage, self._name = table, stage, f"{table}.{stage}"
        self._client = client("s3", timeout=max(_SHORTEST_TIMEOUT, dead_after / _TIMEOUTS))
        self._place = {"Bucket": bucket, "Key": f"{prefix}/{self._name}{_LEASE}"}
        self._holder, self._beats, self._tag = uuid.uuid4().hex, 0, ""
        self._dead_after, self._confirmed, self._lost = dead_after, 0.0, False
        self._writing = threading.Lock()  # the heartbeat and the run that confirms write one at a time

    def acquire(self, patience: float) -> None:
        """Wait until the lease is ours."""
        seen: _Seen | None = None
        answered, unanswered = time.monotonic(), 0
        while True:
            try:
                if self._write(IfNoneMatch="*"):
                    return
                found = self._read()
                if found is not None and self._takes(found, seen):
                    return
            except _UnansweredError as error:
                unanswered += 1
                if time.monotonic() - answered >= patience:
                    reason = f"no answer for {patience:g} seconds ({error})"
                    raise AwsRefusedError(what=f"the lease of {self._name}", reason=reason) from error
            else:
                seen = self._watched(seen, found)
                answered, unanswered = time.monotonic(), 0
            self._pause(unanswered)

    def _watched(self, seen: _Seen | None, found: _Seen | None) -> _Seen | None:
        """The object that is waited for: as it was first seen, if it is still the same."""
        if seen is None and found is not None:
            logger.info("%s: waiting for another run that works on it", self._name)
        return seen if seen and found and seen.tag == found.tag else found

    def _takes(self, found: _Seen, seen: _Seen | None) -> bool:
        """Take the object over if it is ours already (an answer was lost), or if its holder is dead."""
        if found.is_ours:
            return self._write(IfMatch=found.tag)
        is_dead = seen is not None and seen.tag == found.tag and found.since - seen.since >= self._dead_after
        if not is_dead or not self._write(IfMatch=found.tag):
            return False
        logger.warning("%s: the run that worked on it is gone; its lease is taken over", self._name)
        return True

    def keep(self, released: threading.Event, beat: float) -> None:
        """Write the object anew until the lease is released or lost; nothing is raised.

        If this thread ends all the same, `check` fails a while later, because no beat is confirmed any more.
        """
        pause = beat
        while not released.wait(pause):
            try:
                if not self._renew():
                    logger.warning("%s: another run has taken the lease over", self._name)
                    return
                pause = beat
            except (_UnansweredError, AwsRefusedError) as error:
                # Credentials may be refused for a while, too. `check` decides when that has lasted too long.
                logger.info("%s: a beat of its lease was not answered (%s)", self._name, error)
                pause = beat / 4 * random.uniform(0.5, 1.5)  # noqa: S311 - jitter

    def check(self) -> None:
        """Return while no other run can have the lease, by this process's own clock.

        The clock goes on while the process is stopped, so after too long a stop this fails at once.
        """
        if self._lost or time.monotonic() - self._confirmed > _SURE * self._dead_after:
            raise LeaseLostError(table=self._table, stage=self._stage)

    def confirm(self) -> None:
        """Write the object anew, and return if S3 confirms that it was still ours."""
        if not self._asked(self._renew, "confirmed"):
            raise LeaseLostError(table=self._table, stage=self._stage)
        self.check()  # the answer may have come late

    def release(self) -> None:
        """Delete the object, unless another run has taken it over; nothing is raised."""
        if self._asked(self._delete, "given back") is None:
            logger.warning("%s: the next run waits %g seconds for its lease", self._name, self._dead_after)

    def _asked(self, request: Callable[[], bool], purpose: str) -> bool | None:
        """What a request returns, which is made again while no answer comes; None if none came at all."""
        for asked in range(_ASKED):
            try:
                return request()
            except (_UnansweredError, AwsRefusedError) as error:
                logger.info("%s: its lease could not be %s (%s)", self._name, purpose, error)
                if asked + 1 < _ASKED:
                    self._pause(asked)
        return None

    def _delete(self) -> bool:
        """Delete the object if it is ours; return whether it was."""
        found = self._read()
        if found is None or not found.is_ours:
            return False
        self._call("delete_object", IfMatch=found.tag)
        return True

    def _renew(self) -> bool:
        """Write the object anew; return whether it was ours. Once lost, a lease stays lost."""
        with self._writing:
            if self._lost:
                return False
            if self._write(IfMatch=self._tag):
                return True
            # The condition failed: a write of ours took effect without an answer, or the object is not ours.
            found = self._read()
            if found is None or not found.is_ours:
                self._lost = True
            elif not self._write(IfMatch=found.tag):
                raise _UnansweredError("it changes while it is read")
            return not self._lost

    def _write(self, **condition: str) -> bool:
        """Write the object under a condition; return whether the condition held."""
        self._beats += 1  # the tag must change with every beat, and it is made of the content
        asked = time.monotonic()
        answer = self._call("put_object", Body=f"{self._holder} {self._beats}", **condition)
        if answer is None:
            return False
        self._tag, self._confirmed = str(answer["ETag"]), asked
        return True

    def _read(self) -> _Seen | None:
        answer = self._call("get_object")
        if answer is None:
            return None
        is_ours = answer["Body"].partition(b" ")[0] == self._holder.encode()
        return _Seen(str(answer["ETag"]), is_ours, time.monotonic())

    def _call(self, operation: str, **arguments: str) -> dict[str, Any] | None:
        """What the call returns; None where its condition does not hold, or there is no such object."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**self._place, **arguments)
            if operation == "get_object":
                answer["Body"] = answer["Body"].read()
        except (BotoCoreError, ClientError) as error:
            facts = error.response.get("Error", {}) if isinstance(error, ClientError) else {}
            reason = str(facts.get("Code", type(error).__name__))
            if reason in _NOT_SO:
                return None
            if is_unanswered(error):
                raise _UnansweredError(reason) from error
            raise AwsRefusedError(what=f"the lease of {self._name}", reason=reason) from error
        return answer

    def _pause(self, unanswered: int) -> None:
        """Wait about a second, longer with each request that was not answered; never long against a beat."""
        longest = min(1.0 * 2 ** min(unanswered, 4), _LONGEST_PAUSE, self._dead_after)
        time.sleep(random.uniform(0.5, 1.5) * longest)  # noqa: S311 - jitter
