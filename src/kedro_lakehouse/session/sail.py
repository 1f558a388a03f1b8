"""Frames without a JVM: processes beside this one, each with a server of Spark Connect (Sail) of its own.

A client of Spark Connect and a classic one do not fit into one Python process.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_T = TypeVar("_T")

_PROCESSES: Final = min(os.cpu_count() or 1, 4)
_IDLE_SECONDS: Final = 600
"""After so long without work, a process ends."""
_LOOKS_EVERY_SECONDS: Final = 1
_ENVIRONMENT: Final = {
    "SPARK_CONNECT_MODE_ENABLED": "1",  # else PySpark's functions look for a JVM
    "RUST_LOG": "off",
    "MALLOC_ARENA_MAX": "2",  # else each of its many threads keeps free memory of its own
}
_lock: Final = threading.Lock()
_pool: Any = None
_session: Any = None


def is_there() -> bool:
    """Whether Sail is installed, and speaks to this line of Spark's client."""
    return not is_spark3() and all(map(importlib.util.find_spec, ("pysail", "loky", "grpc")))


def on_sail(work: Callable[..., _T], *arguments: Any) -> _T:
    """Call ``work`` with a session of Sail and the arguments in another process; return its result.

    The first call starts the process, which takes some seconds.

    Raises:
        BrokenProcessPool: The process died; the next call starts another one.
    """
    with _lock:
        done = _processes().submit(_worked, work, arguments)
    result: _T = done.result()
    return result


def _processes() -> Any:
    """The pool of processes; another one if a process of it died."""
    global _pool  # noqa: PLW0603 - this process has one pool
    if _pool is None or _pool._flags.broken:  # noqa: SLF001 - its public way to ask is to fail
        from loky import ProcessPoolExecutor

        _pool = ProcessPoolExecutor(
            max_workers=_PROCESSES,
            timeout=_IDLE_SECONDS,
            env=_ENVIRONMENT,
            initializer=_end_with,
            initargs=(os.getpid(),),
        )
    return _pool


def _end_with(parent: int) -> None:
    """Let this process end when the one that started it is gone: a killed one cannot end it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKS_EVERY_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="ends-with-parent", daemon=True).start()


def _worked(work: Callable[..., _T], arguments: tuple[Any, ...]) -> _T:
    return work(_started(), *arguments)


def _started() -> SparkSession:
    """The session of this process, whose server is started at first use."""
    global _session  # noqa: PLW0603 - a process has one server
    if _session is None:
        from pysail.spark import SparkConnectServer
        from pyspark.sql import SparkSession

        server = SparkConnectServer(port=0)
        server.start(background=True)
        address = f"sc://127.0.0.1:{server.listening_address[1]}"
        session = SparkSession.builder.remote(address).getOrCreate()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        _session = session, server
    found: SparkSession = _session[0]
    return found
