"""Which line of Spark is installed; no other module looks at its version."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import SparkLineError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT: Final = "spark41"
_NEEDED: Final = "spark.kedro_lakehouse.line"
"""The setting by which an environment names the only line of Spark that can run it."""


@cache
def spark_version() -> str | None:
    """The installed PySpark's version; None if there is none. Imports nothing from PySpark."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return version_beside("pyspark")


def version_beside(package: str) -> str | None:
    """The version in a package's ``version.py``, if no installer put it there, as PySpark on EMR and Glue."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return None
    text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    version = re.search(r"""^__version__[^=]*=\s*["'](.+)["']""", text, re.MULTILINE)
    return version[1] if version else None


def spark_line() -> str:
    """The line of the installed Spark, such as ``spark41``; the default one if there is no Spark."""
    found = spark_version()
    return "spark" + "".join(found.split(".")[:2]) if found else DEFAULT


def is_spark3() -> bool:
    """Whether the installed Spark is older than version 4."""
    return spark_line().startswith("spark3")


def by_spark(choices: Mapping[str, str]) -> str:
    """The choice for the installed line of Spark: the resolver ``${by_spark:{spark41: ..., spark35: ...}}``.

    Raises:
        SparkLineError: There is no choice for this line.
    """
    if spark_line() in choices:
        return choices[spark_line()]
    needed = next(iter(choices), DEFAULT)
    raise SparkLineError(needed=needed, found=spark_line(), folder=environment(needed))


def require_line(conf: Mapping[str, str]) -> None:
    """Raise unless these settings are for the installed line of Spark, or for any line.

    Raises:
        SparkLineError: They need another line.
    """
    needed = conf.get(_NEEDED)
    if needed and needed != spark_line():
        raise SparkLineError(needed=needed, found=spark_line(), folder=environment(needed))


def require_one_of(versions: Sequence[str], table_format: str) -> None:
    """Raise unless a table format runs on the installed line of Spark.

    Args:
        versions: The lines that the format declares, such as ``4.1``.
        table_format: The format's name.

    Raises:
        UnsupportedError: It declares other lines only.
    """
    lines = [f"spark{version.replace('.', '')}" for version in versions]
    if spark_line() not in lines:
        raise UnsupportedError(
            what=f"The table format {table_format} does not run on {spark_line()}.",
            remedy=f"Choose another format, or {' or '.join(lines)}: `kedro` of {environment(lines[0])}.",
        )


def environment(line: str) -> str:
    """The folder that ``make setup-<line>`` creates."""
    return ".venv" if line == DEFAULT else f".venv-{line}"
