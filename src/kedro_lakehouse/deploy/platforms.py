"""What AWS has for each line of Spark: the versions of Glue and EMR Serverless, and their table formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.session.line import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE: Final = "spark.kedro_lakehouse.line"
_PACKAGES: Final = "spark.jars.packages"
_FORMATS: Final = {"org.apache.iceberg": "iceberg", "io.delta": "delta", "org.apache.hudi": "hudi"}
# Our Hudi tables are made and read by its class HoodieSchema, which is there since this version.
_HUDI: Final = "1.2.0"
_DELTA_JARS: Final = "/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar"
_HUDI_JAR: Final = "/usr/lib/hudi/hudi-spark-bundle.jar"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The newest versions with one line of Spark; ``hudi`` is that of both, ``jars`` are EMR's own by format.

    Source: AWS, "Migrating jobs to Glue 5.1" and "6.0"; EMR, "EMR Serverless release versions" and
    "Using Apache Iceberg", "Delta Lake OSS" and "Apache Hudi with EMR Serverless".
    """

    line: str
    spark: str
    glue: str
    emr: str
    hudi: str
    jars: Mapping[str, str]


PLATFORMS: Final = {
    platform.line: platform
    for platform in (
        Platform(
            line="spark41",
            spark="4.1",
            glue="6.0",
            emr="emr-spark-8.1.0",
            hudi="1.1.1",
            # Told by a user of 8.0, not by AWS: Iceberg is on the class path, its jar for Spark 3 is gone.
            jars={"iceberg": "", "delta": _DELTA_JARS, "hudi": _HUDI_JAR},
        ),
        Platform(
            line="spark35",
            spark="3.5",
            glue="5.1",
            emr="emr-7.14.0",
            hudi="1.0.2",
            jars={
                "iceberg": "/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar",
                "delta": _DELTA_JARS,
                "hudi": _HUDI_JAR,
            },
        ),
    )
}


def line_of(spark_conf: Mapping[str, str]) -> str:
    """The line of Spark that an environment's settings are for."""
    return spark_conf.get(_LINE, DEFAULT)


def platform_of(spark_conf: Mapping[str, str]) -> Platform:
    """What AWS has for the line of an environment's settings.

    Raises:
        UnsupportedError: No version of Glue and EMR is known for it.
    """
    line = line_of(spark_conf)
    if line not in PLATFORMS:
        raise UnsupportedError(
            what=f"No version of Glue and EMR is known for `{_LINE}: {line}`; known: {', '.join(PLATFORMS)}.",
            remedy="Name one of these in spark.yml.",
        )
    return PLATFORMS[line]


def formats_of(spark_conf: Mapping[str, str]) -> tuple[str, ...]:
    """The table formats among an environment's packages, in one order."""
    groups = {package.partition(":")[0].strip() for package in spark_conf.get(_PACKAGES, "").split(",")}
    return tuple(name for group, name in _FORMATS.items() if group in groups)


def require_formats(platform: Platform, formats: tuple[str, ...]) -> None:
    """Raise unless the platform's own jars read and write these formats as ours do.

    Raises:
        UnsupportedError: Its Hudi is older than ours must be, or no format is named.
    """
    if not formats:
        raise UnsupportedError(
            what=f"`{_PACKAGES}` names no table format, so it is not known which the platform has to bring.",
            remedy=f"Name at least Iceberg's package in spark.yml: {', '.join(_FORMATS)} are looked for.",
        )
    if "hudi" in formats and Version(platform.hudi) < Version(_HUDI):
        raise UnsupportedError(
            what=f"Glue {platform.glue} and {platform.emr} bring Hudi {platform.hudi}; tables of this project"
            f" need {_HUDI} or later.",
            remedy="Ship the jars of spark.yml: `kedro lakehouse deploy --jars ours`.",
        )
