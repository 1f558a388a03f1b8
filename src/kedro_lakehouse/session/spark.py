"""One Spark session a process, started at first use."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.session.java import require_java
from kedro_lakehouse.session.jvm import know_names_of_pyspark
from kedro_lakehouse.session.line import require_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_PACKAGES, _JARS, _IVY = "spark.jars.packages", "spark.jars", "spark.jars.ivy"
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
_STATIC = ("spark.sql.extensions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation")
_starting = threading.Lock()
# Spark itself is one to a process; these are its sessions, each with the settings that it was made for.
_sessions: list[tuple[dict[str, str], SparkSession]] = []


def resolved_jars(conf: Mapping[str, str]) -> Path | None:
    """The file that lists the jars of this configuration's packages, once they were resolved."""
    if _PACKAGES not in conf or _IVY not in conf:
        return None
    wanted = f"{conf[_PACKAGES]}\n{conf.get('spark.jars.excludes', '')}"
    return Path(conf[_IVY]) / "resolved" / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.txt"


def _known_jars(conf: Mapping[str, str]) -> list[str]:
    """The jars of these packages, if an earlier start resolved them and all are still there."""
    listed = resolved_jars(conf)
    if listed is None or not listed.is_file():
        return []
    jars = listed.read_text(encoding="utf-8").splitlines()
    return jars if all(Path(jar).is_file() for jar in jars) else []


def with_known_jars(conf: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings without packages whose jars are known, and the jars that Java's class path is to have.

    Saves Ivy's second. Whoever may have executors elsewhere has ``spark.jars`` instead: Spark sends them.
    """
    jars = _known_jars(conf)
    if not jars:
        return dict(conf), []
    settings = {k: v for k, v in conf.items() if k not in (_PACKAGES, "spark.jars.excludes", _IVY)}
    if conf.get("spark.master", "").startswith("local"):
        return settings, jars
    return settings | {_JARS: ",".join(filter(None, [conf.get(_JARS), *jars]))}, []


@contextlib.contextmanager
def class_path(jars: list[str]) -> Iterator[None]:
    """Have a Java that starts meanwhile find these jars behind Spark's own.

    Spark would copy its ``spark.jars`` at each start, 50 MB for Iceberg and 130 with Hudi, and load
    them where no archive of classes serves.
    """
    given = os.environ.get(_CLASS_PATH)
    os.environ[_CLASS_PATH] = os.pathsep.join(filter(None, [*jars, given]))
    try:
        yield
    finally:
        if given is None:
            del os.environ[_CLASS_PATH]
        else:
            os.environ[_CLASS_PATH] = given


def _remember_jars(session: SparkSession, conf: Mapping[str, str]) -> None:
    listed = resolved_jars(conf)
    if listed is None or listed.is_file():
        return
    given = session.conf.get(_JARS, "") or ""
    jars = [
        jar.removeprefix("file://").removeprefix("file:")
        for jar in given.split(",")
        if jar.startswith(("file:", "/"))
    ]
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text("\n".join(jars), encoding="utf-8")


def get_session(conf: Mapping[str, str]) -> SparkSession:
    """Return the Spark session of these settings, starting Spark where it does not run yet.

    Spark that somebody else started (a notebook, Glue, EMR) is used as it is; settings of its SQL that
    differ, such as another lakehouse, get a session of their own on the same Spark.

    Raises:
        JavaNotFoundError: There is no Java that Spark can run on.
        SparkLineError: These settings are for another line of Spark.
    """
    require_line(conf)
    with _starting:
        wanted = {key: value for key, value in conf.items() if key.startswith("spark.sql.")}
        _hush_query_contexts()
        running = _running()
        if running is None:
            _sessions.clear()
            running = _start(conf)
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
    """Keep PySpark from logging each failed query's error by handlers of its own: the text quotes values.

    The error itself is raised, and is told without them.
    """
    if importlib.util.find_spec("pyspark.logger") is None:  # Spark 3 logs no such thing
        return
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def spark_runs() -> bool:
    """Tell whether Spark was started in this process, by whomever."""
    return _running() is not None


def _running() -> SparkSession | None:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession  # noqa: SLF001 - the only look that starts nothing
    context = getattr(session, "_sc", None)
    return None if session is None or (context is not None and context._jsc is None) else session


def _start(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    settings, jars = with_known_jars(conf)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with class_path(jars):
        session = builder.getOrCreate()
    know_names_of_pyspark(session)
    _remember_jars(session, conf)
    return session
