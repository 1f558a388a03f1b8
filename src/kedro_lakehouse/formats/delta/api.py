"""Delta's own Python API (delta-spark), and sessions with settings of their own to use it in."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession


def delta_tables(session: SparkSession) -> type[DeltaTable]:
    """The class that makes handles of tables; the first call imports it.

    Where the package is not installed, as on Glue and EMR, the class is imported from Delta's jar, which
    holds it as well. delta-spark itself would install a second PySpark beside the platform's.

    Raises:
        UnsupportedError: Neither a package nor a jar of the session holds it.
    """
    if find_spec("delta") is None:
        sys.path.append(_jar(session))
    from delta.tables import DeltaTable

    return DeltaTable


def _jar(session: SparkSession) -> str:
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - a session has a JVM
    found = jvm.java.lang.Thread.currentThread().getContextClassLoader().getResource("delta/tables.py")
    if found is None:
        raise UnsupportedError(
            what="Delta's Python API is neither installed nor in a jar of the session.",
            remedy="Install the delta-spark of the same version as Delta's jar.",
        )
    return str(found.openConnection().getJarFileURL().toURI().getPath())


def cloned_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session for one operation: Delta reads settings of commits from the session, and threads share it."""
    from pyspark.sql import SparkSession

    cloned = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
    for key, value in settings.items():
        cloned.conf.set(key, value)
    return cloned
