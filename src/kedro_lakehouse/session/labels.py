"""Label the JVM's log lines, on driver and executors, and its jobs with what a thread is working on."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# Spark copies local properties with this prefix into the log4j thread context of its tasks' threads.
_MDC: Final = "mdc."
_PROPERTY: Final = "kedro_lakehouse."
_LOG: Final = "log"
_SYSTEM: Final = "java.lang.System"
_THREAD: Final = "org.apache.logging.log4j.ThreadContext"


def name_run(run: Mapping[str, str]) -> None:
    """Write the run's fields into environment variables, from which a JVM labels its first log lines."""
    for name, value in run.items():
        os.environ[f"KEDRO_LAKEHOUSE_{name.upper()}"] = value


class JvmLabels:
    """The labels that the JVM has: set once for the run, and for each thread when they change.

    Labels of the run are system properties, because the JVM's own threads write log lines too. Labels of a
    thread are its log4j thread context, and Spark's local properties: these reach the tasks of its jobs, on
    whatever machine they run.
    """

    def __init__(self) -> None:
        """Start without labels."""
        self._run: dict[str, str] = {}
        self._of_thread = threading.local()
        self._telling = threading.Lock()

    def put(
        self, session: SparkSession, run: Mapping[str, str], facts: Mapping[str, object], log: str = ""
    ) -> None:
        """Set the labels that differ from those that were set before.

        Args:
            session: Any session of the process's Spark.
            run: The fields that all lines of the run share.
            facts: What this thread is working on; the value None for a field that does not apply.
            log: The file for the JVM's lines of the run; empty for no file.
        """
        with self._telling:
            wanted = {**run, **({_LOG: log} if log else {})}
            if wanted != self._run:
                system = java_class(session, _SYSTEM)
                for name, value in wanted.items():
                    system.setProperty(_PROPERTY + name, value)
                self._run = wanted
        # Empty text if there is no value: an executor's thread has its old label until that is overwritten.
        fields = {name: "" if value is None else str(value) for name, value in {**run, **facts}.items()}
        put: dict[str, str] = getattr(self._of_thread, "put", {})
        if fields == put:
            return
        context, thread = session.sparkContext, java_class(session, _THREAD)
        for name, value in fields.items():
            if put.get(name) != value:
                context.setLocalProperty(_MDC + name, value)
                thread.put(_MDC + name, value)
        context.setJobDescription(_description(fields))
        self._of_thread.put = fields

    def clear(self, session: SparkSession) -> None:
        """Remove the labels of the run and of this thread."""
        system, thread = java_class(session, _SYSTEM), java_class(session, _THREAD)
        with self._telling:
            for name in self._run:
                # Emptied, because if unset, all but the file would again name the run that started the JVM.
                if name == _LOG:
                    system.clearProperty(_PROPERTY + name)
                else:
                    system.setProperty(_PROPERTY + name, "")
            self._run = {}
        put: dict[str, str] = getattr(self._of_thread, "put", {})
        for name in put:
            session.sparkContext._jsc.setLocalProperty(_MDC + name, None)
            thread.remove(_MDC + name)
        if put:
            session.sparkContext._jsc.setJobDescription(None)
        self._of_thread.put = {}


def _description(fields: Mapping[str, str]) -> str:
    """A Spark job's description: the correlation id, by which logs are found, and what the job is for."""
    batch = f" batch {fields['batch']}" if fields.get("batch") else ""
    return f"{fields.get('correlation_id', '')}: {fields.get('node') or fields.get('pipeline', '')}{batch}"
