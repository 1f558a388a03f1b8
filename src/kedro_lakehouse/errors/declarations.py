"""Declarations, names and the machine: nothing can start."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import (
    MAX_FACT,
    TerminalError,
    TransientError,
    cut,
    did_you_mean,
    shown,
    then,
)


class ConfigurationError(TerminalError):
    """A declaration cannot be used."""

    code = "CONFIGURATION"
    file: str
    key: str
    problem: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return the problem at its key; it may be as long as the message lets it."""
        return f"{cut(self.file, MAX_FACT)}: '{cut(self.key, MAX_FACT)}': {self.problem}", then(
            self.remedy, "kedro lakehouse tables"
        )


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
        return what, then(self.remedy, "kedro lakehouse tables")


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
        return what + did_you_mean(
            self.name, self.known
        ), "Correct the name, or install what registers it; `kedro lakehouse plugins` lists all."


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
    summary = "Spark's jars cannot be fetched: {packages}."
    advice = "The lines above tell which; look at the network and at spark.jars.packages, then `kedro run`."


class UnsupportedError(TerminalError):
    """This version, format or environment does not do what was asked."""

    code = "UNSUPPORTED"
    what: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return both facts, and the command that comes after the remedy."""
        return self.what, then(self.remedy, "kedro run")
