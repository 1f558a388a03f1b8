"""Sources whose records cannot be found, read or pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.errors.base import TableError, TerminalError, TransientError, shown, then

if TYPE_CHECKING:
    from collections.abc import Sequence


class UnreadableFileError(TableError):
    """A file cannot be read as what it is declared to be, or, if it was not ``landed``, as a table at all."""

    code = "UNREADABLE_FILE"
    file: str
    detail: str
    landed: bool = True
    remedy: str = "Deliver it again, or correct file_format in sources.yml"
    summary = "Table {table}: the file {file} cannot be read ({detail})."

    def sentences(self) -> tuple[str, str]:
        """Return the file with the reason; one that did not land is of no table, and of no batch."""
        if self.landed:
            what, _ = super().sentences()
            return what, f"Nothing of its batch was written. {self.remedy}; then `kedro run`."
        what = f"{shown(self.file)} cannot be read ({shown(self.detail)})."
        return what, "Nothing was changed. Correct the path or the file, then run the command again."


class SourceNotFoundError(TableError):
    """The place that a table is read from does not exist."""

    code = "SOURCE_NOT_FOUND"
    path: str
    remedy: str
    summary = "Table {table}: there is nothing at {path}."

    def sentences(self) -> tuple[str, str]:
        """Return the place, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy, "kedro run")


class SourceUnreachableError(TransientError):
    """What a table is read from does not answer."""

    code = "SOURCE_UNREACHABLE"
    table: object
    place: str
    detail: str
    summary = "Table {table}: {place} cannot be read: {detail}."
    advice = (
        "Nothing is lost: the next `kedro run` goes on there. Look at its address in sources.yml (a schema "
        "registry's: registries.yml), and at it."
    )


class PullError(TableError):
    """A source refuses to be pulled as it is declared; nothing of the pull is ingested."""

    place: str
    reason: str
    remedy: str = ""
    summary = "Table {table}: {place} was not pulled: {reason}."
    usual: ClassVar[str] = ""

    def sentences(self) -> tuple[str, str]:
        """Return what the source says, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy or self.usual.format(table=self.table), "kedro run")


class SourceRefusedError(PullError):
    """A source does not let this table be read; it was asked once."""

    code = "SOURCE_REFUSED"
    usual = (
        "It was asked once, and is not asked again by itself: correct its declaration in sources.yml, its "
        "credentials, or the rights that it gives."
    )


class SourceChangedError(PullError):
    """A source is another one than at the last pull, or its clock has gone back."""

    code = "SOURCE_CHANGED"
    usual = (
        "If that is meant, pull all of its rows anew: `kedro lakehouse pull {table} --accept`. Else correct "
        "`connection` in sources.yml."
    )


class PullUnstableError(PullError):
    """What was read is no state of the source."""

    code = "PULL_UNSTABLE"
    usual = "Pull when the source is at rest."


class TypeNotExactError(PullError):
    """Values of a column would change on their way."""

    code = "TYPE_NOT_EXACT"
    usual = "Read the column as text: list it in `pull.as_text` in tables.yml, and give its type in `types`."


class PullTooLargeError(TableError):
    """A pull is over the declared limits."""

    code = "PULL_TOO_LARGE"
    number: int
    limit: str
    summary = "Table {table}: pull {number} holds or takes more than its limit of {limit}; it was given up."
    advice = "Raise `limits` of the source in sources.yml, or let a pull hold less. Then `kedro run`."


class OffsetsGoneError(TableError):
    """A stream does not hold records any more that no batch has read, or may not; 0: none was read yet."""

    code = "OFFSETS_GONE"
    partition: str
    wanted: int
    earliest: int | None
    summary = (
        "Table {table}: {partition} does not hold position {wanted} any more (earliest: {earliest}). The "
        "records between are lost to this table."
    )
    advice = (
        "Let the stream keep records longer. Then bring it a new full load, and begin again: "
        "`kedro lakehouse drop {table}`, `kedro run`."
    )


class TopicReplacedError(TableError):
    """A stream was deleted and made again under its name: its positions mean other records."""

    code = "TOPIC_REPLACED"
    topic: str
    summary = "Table {table}: {topic} is another topic than the one that was read so far; it bears its name."
    advice = (
        "If the new one holds everything: `kedro lakehouse drop {table}`, then `kedro run`. Otherwise name "
        "the old one in sources.yml."
    )


class LogNotFoundError(TerminalError):
    """No log that is kept is of this run."""

    code = "LOG_NOT_FOUND"
    id: str
    kept: Sequence[str]
    summary = "No log of {id} is kept; the newest are of: {kept}."
    advice = (
        "`kedro lakehouse runs` lists the runs; a scheduler's ids are `dag.task run_id`, either part will do."
    )


class RunNotFoundError(TerminalError):
    """No recorded run, or more than one, has a name that begins so."""

    code = "RUN_NOT_FOUND"
    wanted: str
    known: Sequence[str]
    summary = "Not exactly one run's name begins with {wanted}; there are: {known}."
    advice = (
        "Give one that `kedro lakehouse runs` lists: one that changed nothing and did not fail is not there."
    )


class LandedFilesGoneError(TableError):
    """Files that were ingested, and are needed again, are gone or replaced."""

    code = "LANDED_FILES_GONE"
    missing: Sequence[str]
    purpose: str = "read them again"
    summary = "Table {table}: to {purpose}, files are missing or were replaced since: {missing}."
    advice = (
        "Nothing was changed. Put them back as they were, with their times (`cp -p`), then `kedro run` "
        "or the command again."
    )
