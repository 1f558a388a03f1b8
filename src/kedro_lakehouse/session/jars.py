"""The jars of an environment: fetched by Ivy, compared with their pinned checksums, then given to Java."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import JarRefusedError, JarsNotFetchedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PACKAGES, _EXCLUDES, _IVY = "spark.jars.packages", "spark.jars.excludes", "spark.jars.ivy"
_JARS: Final = "spark.jars"
_CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"
_NOT_PINNED: Final = "-"
_LOG: Final = "fetch.log"

logger = logging.getLogger(__name__)


@cache
def pinned_sums() -> Mapping[str, str]:
    """The sha256 of each jar of this package's own environments, by file name; see ``make lock-jars``."""
    lines = files(__package__).joinpath("jars.sha256").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def resolved_jars(conf: Mapping[str, str]) -> Path | None:
    """The path of the list of this configuration's resolved jars; None without packages or Ivy folder."""
    if not conf.get(_PACKAGES) or _IVY not in conf:
        return None
    wanted = f"{conf[_PACKAGES]}\n{conf.get(_EXCLUDES, '')}"
    return Path(conf[_IVY]) / "resolved" / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.txt"


def artifacts(conf: Mapping[str, str]) -> list[str]:
    """The names of the packages, without their groups and versions."""
    return [word.split(":")[1] for word in conf.get(_PACKAGES, "").split(",") if ":" in word]


def known_jars(conf: Mapping[str, str]) -> list[str]:
    """The jars that an earlier start resolved for these packages; empty if one no longer exists."""
    listed = resolved_jars(conf)
    if listed is None or not listed.is_file():
        return []
    jars = listed.read_text(encoding="utf-8").splitlines()
    return jars if all(Path(jar).is_file() for jar in jars) else []


def checked_jars(conf: Mapping[str, str]) -> list[str]:
    """The jars of these packages, fetched if missing and checked before any Java has loaded one of them.

    The sha256 of each jar must be the pinned one. A jar is read whole when it is new or has changed;
    afterwards only its size and time are compared. A jar that is not pinned passes only if spark.yml names
    a package that is not pinned.

    Raises:
        JarRefusedError: A jar is not the pinned one, or is not pinned.
        JarsNotFetchedError: Ivy did not find all of them.
    """
    listed = resolved_jars(conf)
    if listed is None:
        return []
    known = known_jars(conf)
    jars = known or _fetched(conf)
    _check(jars, stamp=listed.with_suffix(".checked"), strict=_names_only_pinned(conf), ivy=conf[_IVY])
    if not known:
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(jars), encoding="utf-8")
    return jars


def with_checked_jars(conf: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Fetch and check the jars of the packages; return the other settings, and jars for the class path.

    Without packages in its settings Spark does not start Ivy, which saves a second. A session that is not
    local may have executors elsewhere: it gets the jars in ``spark.jars`` too, for Spark to send.
    """
    if resolved_jars(conf) and not known_jars(conf):
        logger.info("Fetching jars, once: %s.", ", ".join(artifacts(conf)))
    jars = checked_jars(conf)
    if not jars:
        return dict(conf), []
    settings = {k: v for k, v in conf.items() if k not in (_PACKAGES, _EXCLUDES, _IVY)}
    if conf.get("spark.master", "").startswith("local"):
        return settings, jars
    return settings | {_JARS: ",".join(filter(None, [conf.get(_JARS), *jars]))}, jars


@contextlib.contextmanager
def class_path(jars: list[str]) -> Iterator[None]:
    """Put these jars on the class path, behind Spark's own, of a Java that starts within the block.

    If they were in ``spark.jars``, Spark would copy them at each start (50 MB for Iceberg, 130 MB with
    Hudi), and would load their classes in a way that no archive of classes can speed up.
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


def sums(jars: Sequence[str]) -> list[str]:
    """One line for each jar, as sha256sum writes it: the lines of ``jars.sha256``."""
    return [f"{_sha256(Path(jar))}  {Path(jar).name}" for jar in jars]


def _names_only_pinned(conf: Mapping[str, str]) -> bool:
    """Whether every package that spark.yml names is one of this package's own."""
    named = (word.strip().replace("/", ":") for word in conf[_PACKAGES].split(",") if word.strip())
    return all(_file_name(coordinates) in pinned_sums() for coordinates in named)


def _file_name(coordinates: str) -> str:
    """The file name that Ivy gives the jar of ``group:artifact:version``."""
    group, _, rest = coordinates.partition(":")
    return f"{group}_{rest.replace(':', '-')}.jar"


def _check(jars: Sequence[str], *, stamp: Path, strict: bool, ivy: str) -> None:
    facts = "\n".join(map(_facts, jars))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == facts:
        return
    for jar in map(Path, jars):
        expected = pinned_sums().get(jar.name)
        if expected is None and not strict:
            continue
        found = _sha256(jar)
        if found != expected:
            raise JarRefusedError(jar=jar.name, expected=expected, found=found, folder=ivy)
    with contextlib.suppress(OSError):  # a cache that cannot be written is checked at each start
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(facts, encoding="utf-8")


def _facts(jar: str) -> str:
    facts = Path(jar).stat()
    expected = pinned_sums().get(Path(jar).name, _NOT_PINNED)
    return f"{expected} {facts.st_size} {facts.st_mtime_ns} {jar}"


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _fetched(conf: Mapping[str, str]) -> list[str]:
    """The jars as Ivy resolves and fetches them, in a Java process that ends before any is loaded.

    What Ivy says, a line for each file and each place it looks in, is kept beside the jars.
    """
    from py4j.protocol import Py4JJavaError

    log = Path(conf[_IVY], _LOG)
    log.parent.mkdir(parents=True, exist_ok=True)
    with _java_of_its_own(log) as jvm:
        defaults = jvm.org.apache.spark.SparkConf()  # from the installation's own files

        def setting(name: str) -> str:
            return conf.get(name) or defaults.get(name, "")

        try:
            found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
                True,  # noqa: FBT003 - with what they depend on
                conf.get(_EXCLUDES, ""),
                conf[_PACKAGES],
                setting("spark.jars.repositories"),
                conf[_IVY],
                jvm.scala.Option.apply(setting("spark.jars.ivySettings") or None),
            )
        except Py4JJavaError as error:
            raise JarsNotFetchedError(packages=conf[_PACKAGES].split(","), log=str(log)) from error
        return str(found.mkString("\n")).splitlines()


@contextlib.contextmanager
def _java_of_its_own(log: Path) -> Iterator[Any]:
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway  # PySpark types neither it nor what it returns
    with log.open("wb") as said:
        gateway = launch(popen_kwargs={"stdout": said, "stderr": subprocess.STDOUT})
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
