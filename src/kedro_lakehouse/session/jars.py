"""The jars of an environment: fetched by Ivy, compared with their pinned sums, then given to Java."""

from __future__ import annotations

import contextlib
import hashlib
import os
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


@cache
def pinned_sums() -> Mapping[str, str]:
    """The sha256 of each jar of this package's own environments, by its file name: ``make lock-jars``."""
    lines = files(__package__).joinpath("jars.sha256").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def resolved_jars(conf: Mapping[str, str]) -> Path | None:
    """The file that lists the jars of this configuration's packages, once they were resolved."""
    if not conf.get(_PACKAGES) or _IVY not in conf:
        return None
    wanted = f"{conf[_PACKAGES]}\n{conf.get(_EXCLUDES, '')}"
    return Path(conf[_IVY]) / "resolved" / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.txt"


def known_jars(conf: Mapping[str, str]) -> list[str]:
    """The jars of these packages as an earlier start resolved them; none where one of them is gone."""
    listed = resolved_jars(conf)
    if listed is None or not listed.is_file():
        return []
    jars = listed.read_text(encoding="utf-8").splitlines()
    return jars if all(Path(jar).is_file() for jar in jars) else []


def checked_jars(conf: Mapping[str, str]) -> list[str]:
    """The jars of these packages, fetched where they are not there; no Java has loaded one of them yet.

    Each is the one that is pinned. They are read whole when they come or change; afterwards their sizes and
    times vouch for them. A jar that is not pinned passes only where spark.yml names a package that is not.

    Raises:
        JarRefusedError: A jar is another one than the pinned one, or is not pinned.
        JarsNotFetchedError: Ivy did not find all of them.
    """
    listed = resolved_jars(conf)
    if listed is None:
        return []
    jars = known_jars(conf)
    fresh = not jars
    if fresh:
        jars = _fetched(conf)
    _check(jars, stamp=listed.with_suffix(".checked"), strict=_names_only_pinned(conf), ivy=conf[_IVY])
    if fresh:
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(jars), encoding="utf-8")
    return jars


def with_checked_jars(conf: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings without packages, whose jars are fetched and checked, and what goes to Java's class path.

    Saves Ivy's second. Whoever may have executors elsewhere has ``spark.jars`` instead: Spark sends them.
    """
    jars = checked_jars(conf)
    if not jars:
        return dict(conf), []
    settings = {k: v for k, v in conf.items() if k not in (_PACKAGES, _EXCLUDES, _IVY)}
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


def sums(jars: Sequence[str]) -> list[str]:
    """A line a jar as sha256sum writes it: what ``jars.sha256`` is made of."""
    return [f"{_sha256(Path(jar))}  {Path(jar).name}" for jar in jars]


def _names_only_pinned(conf: Mapping[str, str]) -> bool:
    """Whether every package that spark.yml names is one of this package's own."""
    named = (word.strip().replace("/", ":") for word in conf[_PACKAGES].split(",") if word.strip())
    return all(_file_name(coordinates) in pinned_sums() for coordinates in named)


def _file_name(coordinates: str) -> str:
    """What Ivy calls the jar of ``group:artifact:version``."""
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
    """The jars as Ivy resolves them, in a Java that ends before any of them is loaded."""
    from py4j.protocol import Py4JJavaError

    with _java_of_its_own() as jvm:
        defaults = jvm.org.apache.spark.SparkConf()  # what the installation's own files say

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
            raise JarsNotFetchedError(packages=conf[_PACKAGES].split(",")) from error
        return str(found.mkString("\n")).splitlines()


@contextlib.contextmanager
def _java_of_its_own() -> Iterator[Any]:
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway  # PySpark types neither it nor what it returns
    gateway = launch()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
