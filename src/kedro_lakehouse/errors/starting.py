"""Declarations, names and the machine: nothing can start."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors.base import (
    MAX_FACT,
    MAX_MESSAGE,
    MAX_MISTAKES,
    TerminalError,
    TransientError,
    cut,
    did_you_mean,
    listed,
    shown,
    then,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConfigurationError(TerminalError):
    """A declaration cannot be used; ``others`` are the mistakes that were found beside it."""

    code = "CONFIGURATION"
    file: str
    key: str
    problem: str
    remedy: str
    place: str = ""
    others: Sequence[ConfigurationError] = ()

    def __post_init__(self) -> None:
        """Make the message."""
        self.describe()

    def describe(self) -> None:
        """Make the message again: of one mistake one line, of several a line for each of the first ten."""
        super().__post_init__()
        if self.others:
            shown = [f"[{one.code}] {one.problem_at()} {one.remedy}" for one in (self, *self.others)]
            more = len(shown) - MAX_MISTAKES
            end = [f"... and {more} more."] if more > 0 else []
            lines = [cut(line, MAX_MESSAGE) for line in shown[:MAX_MISTAKES]]
            self.args = ("\n".join([*lines, *end, "Correct them, then `kedro run`."]),)

    def problem_at(self) -> str:
        """The problem, after the place and the key that it is about."""
        return f"{cut(self.place or self.file, MAX_FACT)}: '{cut(self.key, MAX_FACT)}': {self.problem}"

    def sentences(self) -> tuple[str, str]:
        """Return the problem at its key; it may be as long as the message lets it."""
        return self.problem_at(), then(self.remedy, "kedro run")


class InvalidNameError(TerminalError):
    """A name cannot be used as a table's, or as an identifier."""

    code = "INVALID_NAME"
    name: str
    problem: str
    remedy: str = "Use lower-case letters, digits and single underscores, a letter first."
    summary = "The name '{name}' {problem}."

    def sentences(self) -> tuple[str, str]:
        """Return the name, and the command that lists those in use."""
        what, _ = super().sentences()
        lists = "`kedro lakehouse tables` lists those in use."
        return what, self.remedy if "`kedro " in self.remedy else f"{self.remedy} {lists}"


class UnknownPluginError(TerminalError):
    """No installed distribution registers such a plug-in."""

    code = "UNKNOWN_PLUGIN"
    group: str
    name: str
    known: Sequence[str]
    summary = "There is no plug-in '{name}' in the group {group}; known: {known}."

    def sentences(self) -> tuple[str, str]:
        """Return the known plug-ins, the nearest last."""
        what, _ = super().sentences()
        advice = "Correct the name, or install what registers it; `kedro lakehouse plugins` lists all."
        return what + did_you_mean(self.name, self.known), advice


class UnknownNameError(TerminalError):
    """A name on the command line is not that of anything there is."""

    code = "UNKNOWN_NAME"
    option: str
    kind: str
    name: str
    known: Sequence[str]
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return the option and the name, and the nearest one that there is."""
        there = f"; there are: {listed(self.known)}" if self.known else ""
        what = f"{self.option}: there is no {self.kind} '{shown(self.name)}'{there}."
        return what + did_you_mean(self.name, self.known), self.remedy


class PlaceUnusableError(TerminalError):
    """A folder or file that is needed cannot be read or written."""

    code = "PLACE_UNUSABLE"
    path: str
    problem: str
    remedy: str
    summary = "{path}: {problem}."

    def sentences(self) -> tuple[str, str]:
        """Return the place and what hinders, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy, "kedro run")


class SparkNotStartedError(TerminalError):
    """Java ended before Spark answered: a setting that it refuses, or too little memory."""

    code = "SPARK_NOT_STARTED"
    summary = "Java ended before Spark had started; what Java says is above."
    advice = (
        "Correct what it names: driver_memory in globals.yml (for example 4g), or a setting in spark.yml; "
        "then `kedro run`."
    )


class JavaNotFoundError(TerminalError):
    """Spark has no Java to run on."""

    code = "JAVA_NOT_FOUND"
    expected: str = "17"
    found: str = "none in JAVA_HOME or on the PATH"
    summary = "Spark needs Java {expected}; found: {found}."
    advice = "Install it, or point JAVA_HOME at it; then `kedro run`."


class SparkLineError(TerminalError):
    """An environment is for another line of Spark than the installed one."""

    code = "SPARK_LINE"
    needed: str
    found: str
    folder: str
    summary = "This environment runs on {needed}, and {found} is installed here:"
    advice = "run `make setup-{needed}`, then `kedro run` of `{folder}/bin` with the same options."


class JarRefusedError(TerminalError):
    """A jar of Spark's is not the one that is pinned; no Java has loaded it."""

    code = "JAR_REFUSED"
    jar: str
    expected: str | None
    found: str
    folder: str

    def sentences(self) -> tuple[str, str]:
        """Return both sums; a jar that nobody pinned may be wanted, another one in its place may not."""
        if self.expected is None:
            return (
                f"The jar {shown(self.jar)} (sha256 {self.found}) is not pinned, and was not loaded.",
                "If it is wanted, name it in spark.jars.packages of spark.yml; then `kedro run`.",
            )
        what = (
            f"The jar {shown(self.jar)} was not loaded: expected sha256 {self.expected}, found {self.found}."
        )
        again = f"Delete the folder {shown(self.folder)} and `kedro run`, which fetches it again;"
        return what, f"{again} if it still differs, do not trust where it comes from."


class JarsNotFetchedError(TransientError):
    """Ivy did not find every jar of an environment."""

    code = "JARS_NOT_FETCHED"
    packages: Sequence[str]
    log: str
    summary = "Spark's jars cannot be fetched: {packages}. {log} says why."
    advice = "Look at the network and at spark.jars.packages, then `kedro run`."


class OutOfMemoryError(TerminalError):
    """Spark's JVM had no memory left for what it was to do."""

    code = "OUT_OF_MEMORY"
    said: str
    summary = "Spark ran out of memory ({said})."
    advice = (
        "Give the driver more memory: driver_memory in globals.yml, or fewer bytes a batch: max_bytes in "
        "sources.yml; then `kedro run`."
    )


class SqlValueError(TerminalError):
    """SQL that somebody wrote (a derived table, a check, a node) cannot be computed for a value."""

    code = "SQL_VALUE"
    condition: str
    summary = "Its SQL cannot be computed for some value ({condition})."
    advice = "Use try_cast, try_divide, nullif or coalesce there, or correct the source; then `kedro run`."


class UnsupportedError(TerminalError):
    """This version, format or environment does not do what was asked."""

    code = "UNSUPPORTED"
    what: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return both facts, and the command that comes after the remedy."""
        return self.what, then(self.remedy, "kedro run")


def require(module: str, *, what: str, install: str) -> Any:
    """Import a module that the default installation does not bring.

    Raises:
        UnsupportedError: It is not there; the remedy says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            what=f"{what}, which is not installed.", remedy=f"Install it: pip install {install}."
        ) from error
