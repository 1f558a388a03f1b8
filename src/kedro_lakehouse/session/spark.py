"""One Spark for each process, started at first use, and its sessions."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kedro_lakehouse.errors import SparkNotStartedError
from kedro_lakehouse.session.catalog import close_to_others
from kedro_lakehouse.session.jars import class_path, with_checked_jars
from kedro_lakehouse.session.java import require_java
from kedro_lakehouse.session.jvm import know_names_of_pyspark
from kedro_lakehouse.session.line import require_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

STARTING = "starts_spark"
"""Attribute of the log record that tells that Spark starts."""
_USUAL = {
    # Spark infers conditions from each join and each alias of a column. Their number grows with the power of
    # the number of keys: at six keys a merge of a few rows did not end within 16 minutes.
    "spark.sql.constraintPropagation.enabled": "false",
    # Spark refuses parquet's times in nanoseconds, which pandas writes, unless it may read their counts.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
"""Settings that every session gets unless the environment sets them itself."""
_BARE_FILES = "hadoop-bare-naked-local-fs"
_BARE_FILE_SYSTEM = "spark.hadoop.fs.file.impl", "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""Hadoop's own starts a process, ``chmod``, for each local file and folder that it makes. This one starts
none: the mode of a file is that of the process's umask, and the lakehouse's folder is closed to others.
"""
_OPTIONS, _QUICK_START = "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"
"""Java then compiles each method once, and fast: right where a run is mostly Spark's start and its plans."""
_FOR_FEW_ROWS = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark then evaluates the expressions outside of its pipelined stages without compiling Java for them: right
for few rows, for which compiling takes longer than evaluating. An environment's own setting goes before it.
"""
FOR_ROWS_OF_THE_DRIVER = _FOR_FEW_ROWS | {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""For a query over rows that the driver has: nothing is compiled, and each step is one task."""
_FEW = 2 * 2**20
"""Below so many landed bytes a run is faster with it. For the bundled data, 3.5 MB, it is no difference."""
_MUCH = 8 * 2**20
"""From so many waiting bytes on a run takes longer for it: by ``bench/sources.py``, 10 MB of parquet."""
_WORKER_DAEMON = "spark.python.daemon.module", "kedro_lakehouse.session.worker_daemon"
"""Starts Python workers without Spark's archives on their path: a task of a UDF takes a third of the time."""
_STATIC = ("spark.sql.extensions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation")
_starting = threading.Lock()
# A process has only one Spark; these are its sessions, each with the settings that it was created for.
_sessions: list[tuple[dict[str, str], SparkSession]] = []


class Load(NamedTuple):
    """What Spark is started for: the bytes of landed files that wait, and of all that ever landed.

    What landed before is what the tables hold: a few changes of a large table are a join with many rows.
    """

    waiting: int
    landed: int


def get_session(conf: Mapping[str, str], load: Callable[[], Load] | None = None) -> SparkSession:
    """Return the Spark session of these settings, and start Spark if it does not run yet.

    Spark that somebody else started (a notebook, Glue, EMR) is used as it is. If its SQL settings differ,
    as for another lakehouse, these settings get a session of their own on the same Spark.

    Args:
        conf: The settings.
        load: Finds out the load of the run; asked only if Spark must be started. Where many bytes wait,
            Java compiles as well as it can, for fewer as fast as it can, if the settings ask for that; where
            few ever landed, Spark compiles as little as it can.

    Raises:
        JavaNotFoundError: There is no Java that Spark can run on.
        SparkNotStartedError: Java ended at once.
        SparkLineError: These settings are for another line of Spark.
        JarRefusedError: One of their jars is not the pinned one.
        JarsNotFetchedError: One of their jars cannot be fetched.
    """
    conf = _USUAL | dict(conf)
    require_line(conf)
    close_to_others(conf)
    with _starting:
        wanted = {key: value for key, value in conf.items() if key.startswith("spark.sql.")}
        _hush_query_contexts()
        running = _running()
        if running is None:
            _sessions.clear()
            running = _start(_for_load(conf, load))
            _sessions.append((wanted, running))
        for settings, session in _sessions:
            if settings == wanted:
                return session
        session = running.newSession()
        for key, value in wanted.items():
            if key not in _STATIC:
                session.conf.set(key, value)
        _sessions.append((wanted, session))
        return session


def _hush_query_contexts() -> None:
    """Stop PySpark from logging the error of each failed query by its own handlers: it quotes values.

    The error itself is still raised, and is reported without the values.
    """
    if importlib.util.find_spec("pyspark.logger") is None:  # Spark 3 logs no such thing
        return
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def spark_runs() -> bool:
    """Whether Spark was started in this process, by anybody."""
    return _running() is not None


def _running() -> SparkSession | None:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession  # noqa: SLF001 - the only look that starts nothing
    context = getattr(session, "_sc", None)
    return None if session is None or (context is not None and context._jsc is None) else session


def _for_load(conf: Mapping[str, str], load: Callable[[], Load] | None) -> dict[str, str]:
    """The settings, with those for few rows where little landed, without a quick start where much waits."""
    options = conf.get(_OPTIONS, "")
    depends = _QUICK_START in options or not _FOR_FEW_ROWS.keys() <= conf.keys()
    if load is None or not depends:
        return dict(conf)
    found, settings = load(), dict(conf)
    if found.landed < _FEW:
        settings = _FOR_FEW_ROWS | settings
    elif found.waiting >= _MUCH and options:
        settings[_OPTIONS] = options.replace(_QUICK_START, "")
    return settings


def _start(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    require_java()
    worker_python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = conf.get("spark.master", "local").startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else executors elsewhere could not reach it
    logger.info("Starting Spark, which takes some ten seconds.", extra={STARTING: True})
    builder = SparkSession.builder
    settings, jars = with_checked_jars(conf)
    if any(_BARE_FILES in Path(jar).name for jar in jars):
        settings.setdefault(*_BARE_FILE_SYSTEM)
    # Elsewhere, and beside a Spark of its own, a Python may have PySpark in those archives only.
    if is_local and worker_python == sys.executable and "SPARK_HOME" not in os.environ:
        settings.setdefault(*_WORKER_DAEMON)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with class_path(jars):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkNotStartedError from error
    know_names_of_pyspark(session)
    return session
