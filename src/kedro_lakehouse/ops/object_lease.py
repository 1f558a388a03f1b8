"""The lease on a table where the lakehouse is in S3: an object that its holder keeps writing anew."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import uuid
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.aws import client
from kedro_lakehouse.errors import AwsRefusedError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease

logger = logging.getLogger(__name__)

BEAT: Final = 20.0
DEAD_AFTER: Final = 90.0
_LOST: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404"})


@contextlib.contextmanager
def object_lease(
    folder: str, table: TableName, stage: str, *, beat: float = BEAT, dead_after: float = DEAD_AFTER
) -> Iterator[Lease]:
    """Hold the lease of one stage of a table while the block runs; wait for the run that has it.

    A waiting run takes a lease over whose object did not change while ``dead_after`` seconds went by on its
    own clock: no clocks of two machines are compared. Like the lease on a local file it is advisory.

    Units:
        beat, dead_after: seconds.

    Raises:
        AwsRefusedError: The object may not be read or written.
    """
    held = _Lease(folder, f"{table}.{stage}")
    held.acquire(dead_after)
    released = threading.Event()
    beating = threading.Thread(target=held.keep, args=(released, beat), daemon=True)
    beating.start()
    try:
        yield held
    finally:
        released.set()
        beating.join()
        held.release()


class _Lease:
    """One holder's view of the object; ``_tag`` is its version as this holder wrote it."""

    def __init__(self, folder: str, name: str) -> None:
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        self._name, self._client = name, client("s3")
        self._place = {"Bucket": bucket, "Key": f"{prefix}/{name}.lease"}
        self._holder, self._beats, self._tag = uuid.uuid4().hex, 0, ""
        self._lost = False

    def acquire(self, dead_after: float) -> None:
        seen, since, told = "", time.monotonic(), False
        while not self._write(IfNoneMatch="*"):
            found = self._found()
            if found != seen:
                seen, since = found, time.monotonic()
            elif found and time.monotonic() - since >= dead_after and self._write(IfMatch=found):
                logger.warning("%s: the run that worked on it is gone; its lease is taken over", self._name)
                return
            if not told:
                logger.info("%s: waiting for another run that works on it", self._name)
                told = True
            time.sleep(random.uniform(0.5, 1.5) * min(1.0, dead_after))  # noqa: S311 - jitter

    def keep(self, released: threading.Event, beat: float) -> None:
        """Write the object anew until the lease is released or lost."""
        while not released.wait(beat):
            if not self._write(IfMatch=self._tag):
                logger.warning("%s: another run has taken the lease over", self._name)
                self._lost = True
                return

    def check(self) -> None:
        """Return if the lease is still held as far as this process can know."""
        if self._lost:
            raise LeaseLostError(table=self._name, stage=self._name)

    def confirm(self) -> None:
        """Write the object anew under the condition that it is still ours."""
        if not self._write(IfMatch=self._tag):
            raise LeaseLostError(table=self._name, stage=self._name)

    def release(self) -> None:
        """Delete the object, unless another run has taken it over."""
        if self._found() == self._tag:
            self._call("delete_object", **self._place)

    def _write(self, **condition: str) -> bool:
        """Write the object under a condition; whether the condition held."""
        self._beats += 1  # the tag must change with every beat, and it is made of the content
        answer = self._call("put_object", Body=f"{self._holder} {self._beats}", **self._place, **condition)
        if answer is None:
            return False
        self._tag = str(answer["ETag"])
        return True

    def _found(self) -> str:
        answer = self._call("head_object", **self._place)
        return "" if answer is None else str(answer["ETag"])

    def _call(self, operation: str, **arguments: str) -> dict[str, object] | None:
        """What the call returns; None where its condition does not hold, or there is no such object."""
        from botocore.exceptions import ClientError

        try:
            answer: dict[str, object] = getattr(self._client, operation)(**arguments)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", "unknown"))
            if code in _LOST:
                return None
            raise AwsRefusedError(what=f"the lease of {self._name}", reason=code) from error
        return answer
