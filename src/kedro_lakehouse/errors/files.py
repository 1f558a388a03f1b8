"""Landed files that cannot be found or read."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import TerminalError, then


class UnreadableFileError(TerminalError):
    """A file cannot be read as what it is declared to be."""

    code = "UNREADABLE_FILE"
    table: object
    file: str
    detail: str
    summary = "Table {table}: the file {file} cannot be read ({detail})."
    advice = (
        "Nothing of its batch was written. Deliver it again, or correct file_format in sources.yml; "
        "then `kedro run`."
    )


class SourceNotFoundError(TerminalError):
    """The place that a table is read from does not exist."""

    code = "SOURCE_NOT_FOUND"
    table: object
    path: str
    remedy: str
    summary = "Table {table}: there is nothing at {path}."

    def sentences(self) -> tuple[str, str]:
        """Return the place, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy, "kedro run")


class LogNotFoundError(TerminalError):
    """No log that is kept is of this run."""

    code = "LOG_NOT_FOUND"
    id: str
    kept: Sequence[str]
    summary = "No log of {id} is kept; the newest are of: {kept}."
    advice = (
        "`kedro lakehouse runs` lists the runs; a scheduler's ids are `dag.task run_id`, either part will do."
    )


class LandedFilesGoneError(TerminalError):
    """Files that were ingested, and are needed again, are gone or replaced."""

    code = "LANDED_FILES_GONE"
    table: object
    missing: Sequence[str]
    purpose: str = "read them again"
    summary = "Table {table}: to {purpose}, files are missing or were replaced since: {missing}."
    advice = (
        "Nothing was changed. Put them back as they were, with their times (`cp -p`), then `kedro run` "
        "or the command again."
    )
