"""Whether Delta's log lies where an entry is written only if there is none of its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.hadoop_files import has_capability

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_CREATE: Final = "io.delta.storage.GCSLogStore"
"""Delta's store that writes an entry by create(overwrite=false), whatever the file system."""
_CONDITIONAL: Final = ("fs.s3a.create.conditional.enabled", "fs.s3a.create.performance.enabled")
"""With both, that call of S3A is a conditional write; with less it looks first, and writes then."""
_ONE_DRIVER: Final = "io.delta.storage.S3SingleDriverLogStore"
"""What Delta takes for S3 where nothing is said: it keeps the writers of one JVM apart."""


def refuse_unsafe_log(session: SparkSession, place: str) -> None:
    """Refuse to write logs in an object store in which two writers could both write one entry.

    Raises:
        UnsupportedError: The environment's settings do not make it safe, or its S3A is too old.
    """
    scheme, _, path = place.partition("://")
    if not path:
        return
    store = session.sparkContext.getConf().get(f"spark.delta.logStore.{scheme}.impl", _ONE_DRIVER)
    if store == _BY_CREATE:
        is_safe = all(has_capability(session, place, name) for name in _CONDITIONAL)
    else:
        is_safe = store != _ONE_DRIVER
    if not is_safe:
        raise UnsupportedError(
            what=f"Delta's log in {scheme}:// would not be safe: two runs could both write one entry of it.",
            remedy=f"Set spark.delta.logStore.{scheme}.impl to {_BY_CREATE} and "
            "spark.hadoop.fs.s3a.performance.flags to create, as conf/aws/spark.yml does, with hadoop-aws "
            "3.4.2 or later.",
        )
