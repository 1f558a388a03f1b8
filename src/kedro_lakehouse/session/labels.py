"""Tell the JVM what a thread is at work on: its log lines, on driver and executors, and its jobs say so."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# Spark hands local properties with this prefix to the threads of its tasks, as log4j's thread context.
_MDC: Final = "mdc."
_PROPERTY: Final = "kedro_lakehouse."
_LOG: Final = "log"
_SYSTEM: Final = "java.lang.System"
_THREAD: Final = "org.apache.logging.log4j.ThreadContext"


def name_run(run: Mapping[str, str]) -> None:
    """Name the run in the environment, from which a JVM that is started now takes it for its first lines."""
    for name, value in run.items():
        os.environ[f"KEDRO_LAKEHOUSE_{name.upper()}"] = value


class JvmLabels:
    """What the JVM was told: of the run once, of each thread where it changed.

    Facts of the run are system properties, for the JVM's own threads write lines too. Facts of a thread are
    its thread context, and local properties, which reach the tasks of its jobs: on whatever machine they run.
    """

    def __init__(self) -> None:
        """Start with nothing told."""
        self._run: dict[str, str] = {}
        self._of_thread = threading.local()
        self._telling = threading.Lock()

    def put(
        self, session: SparkSession, run: Mapping[str, str], facts: Mapping[str, object], log: str = ""
    ) -> None:
        """Tell what differs from what was told before.

        Args:
            session: Any session of the process's Spark.
            run: The fields that all lines of the run share.
            facts: What this thread is at work on; None for what it is not.
            log: The file for the JVM's lines of the run; none where it is empty.
        """
        with self._telling:
            wanted = {**run, **({_LOG: log} if log else {})}
            if wanted != self._run:
                system = java_class(session, _SYSTEM)
                for name, value in wanted.items():
                    system.setProperty(_PROPERTY + name, value)
                self._run = wanted
        # An empty text where there is no fact: a thread of the executor keeps what it is not told to change.
        fields = {name: "" if value is None else str(value) for name, value in {**run, **facts}.items()}
        told: dict[str, str] = getattr(self._of_thread, "told", {})
        if fields == told:
            return
        context, thread = session.sparkContext, java_class(session, _THREAD)
        for name, value in fields.items():
            if told.get(name) != value:
                context.setLocalProperty(_MDC + name, value)
                thread.put(_MDC + name, value)
        context.setJobDescription(_description(fields))
        self._of_thread.told = fields

    def clear(self, session: SparkSession) -> None:
        """Take back what was told of the run and of this thread."""
        system, thread = java_class(session, _SYSTEM), java_class(session, _THREAD)
        with self._telling:
            for name in self._run:
                # Unset, all but the file would be those of the run that started the JVM again.
                if name == _LOG:
                    system.clearProperty(_PROPERTY + name)
                else:
                    system.setProperty(_PROPERTY + name, "")
            self._run = {}
        told: dict[str, str] = getattr(self._of_thread, "told", {})
        for name in told:
            session.sparkContext._jsc.setLocalProperty(_MDC + name, None)
            thread.remove(_MDC + name)
        if told:
            session.sparkContext._jsc.setJobDescription(None)
        self._of_thread.told = {}


def _description(fields: Mapping[str, str]) -> str:
    """A job's description: the id by which logs are found, and what the job is for."""
    batch = f" batch {fields['batch']}" if fields.get("batch") else ""
    return f"{fields.get('correlation_id', '')}: {fields.get('node') or fields.get('pipeline', '')}{batch}"
