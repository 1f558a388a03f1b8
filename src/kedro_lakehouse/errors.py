"""What can go wrong, as types: each leaf keeps its facts, and says what to do.

A leaf is a keyword-only dataclass: its facts are its constructor's arguments and its attributes, and fill the
two sentences ``summary`` and ``advice``. No fact is ever a value of a row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, dataclass_transform

from kedro.io import DatasetError

MAX_MESSAGE: Final = 700  # five examples, or every allowed key of a table
MAX_EXAMPLES: Final = 5
_MAX_ADVICE: Final = 500  # room for the allowed keys of a table
_MAX_FACT: Final = 160
_MAX_ITEM: Final = 60


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return a sentence that names the allowed word nearest to ``word``, or nothing if none is near.

    Example:
        >>> did_you_mean("key", ["keys", "source"])
        " Did you mean 'keys'?"
    """
    near = difflib.get_close_matches(word.lower(), sorted(allowed), n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def listed(names: Iterable[object]) -> str:
    """Return at most five of ``names`` as text, and how many are left out.

    Example:
        >>> listed("abcdefg")
        'a, b, c, d, e and 2 more'
    """
    shown = [_cut(str(name), _MAX_ITEM) for name in names]
    more = len(shown) - MAX_EXAMPLES
    return ", ".join(shown[:MAX_EXAMPLES]) + (f" and {more} more" if more > 0 else "") or "none"


def _cut(text: str, limit: int) -> str:
    # Names of files and columns come from outside: a control character could forge a line of the log.
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _shown(fact: object) -> str:
    if isinstance(fact, Sequence) and not isinstance(fact, str | bytes):
        return listed(fact)
    if isinstance(fact, float):
        return f"{fact:g}"
    return _cut(str(fact), _MAX_FACT)


def _rebuild(cls: type[LakehouseError], args: tuple[Any, ...], facts: dict[str, Any]) -> LakehouseError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(facts)
    return error


@dataclass_transform(kw_only_default=True, eq_default=False)
class LakehouseError(DatasetError):
    """Everything that this package raises on purpose; a leaf has a stable ``code`` and two sentences."""

    code: ClassVar[str] = "LAKEHOUSE"
    summary: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Make the annotated facts of a leaf its keyword-only arguments."""
        super().__init_subclass__(**kwargs)
        if "__init__" not in cls.__dict__:
            dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Make the message from the facts; where it is too long, the advice stays whole."""
        what, advice = self.sentences()
        end = " " + _cut(advice, _MAX_ADVICE) if advice else ""
        start = f"[{self.code}] "
        self.args = (start + _cut(what, MAX_MESSAGE - len(start) - len(end)) + end,)

    def sentences(self) -> tuple[str, str]:
        """Return what is wrong (where, expected, found), and what to do."""
        facts = {name: _shown(fact) for name, fact in vars(self).items()}
        return self.summary.format_map(facts), self.advice.format_map(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error cross a process border with its facts."""
        return (_rebuild, (type(self), self.args, self.__dict__))


class TransientError(LakehouseError):
    """Nothing was written: call again."""


class TerminalError(LakehouseError):
    """Nothing changes by calling again: the input or the declaration must."""


class UnknownOutcomeError(LakehouseError):
    """The commit may have happened: look for its token, and clean nothing up before the answer is known."""


class ConfigurationError(TerminalError):
    """A declaration cannot be used."""

    code = "CONFIGURATION"
    file: str
    key: str
    problem: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return the problem at its key; it may be as long as the message lets it."""
        return f"{_cut(self.file, _MAX_FACT)}: '{_cut(self.key, _MAX_FACT)}': {self.problem}", self.remedy


class InvalidNameError(TerminalError):
    """A name cannot be used as a table's, or as an identifier."""

    code = "INVALID_NAME"
    name: str
    problem: str
    remedy: str = "Use lower-case letters, digits and single underscores, a letter first."
    summary = "The name '{name}' {problem}."
    advice = "{remedy}"


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
        return what + did_you_mean(self.name, self.known), "Correct the name, or install what registers it."


class JavaNotFoundError(TerminalError):
    """Spark has no Java to run on."""

    code = "JAVA_NOT_FOUND"
    expected: str = "17"
    found: str = "none in JAVA_HOME or on the PATH"
    summary = "Spark needs Java {expected}; found: {found}."
    advice = "Install it, or point JAVA_HOME at it."


class UnsupportedError(TerminalError):
    """This version, format or environment does not do what was asked."""

    code = "UNSUPPORTED"
    what: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return both facts as they are."""
        return self.what, self.remedy


class MissingColumnError(TerminalError):
    """A column that is needed is not in the source or the frame."""

    code = "MISSING_COLUMN"
    table: object
    missing: Sequence[str]
    found: Sequence[str]
    place: str | None = None
    advice = "Correct keys, order_by, effective_time, columns or rename in tables.yml, or the source."

    def sentences(self) -> tuple[str, str]:
        """Return the columns and the place, and the nearest column found."""
        where = f" in {_shown(self.place)}" if self.place else ""
        near = did_you_mean(self.missing[0], self.found) if self.missing else ""
        what = f"Table {self.table}: no {listed(self.missing)}{where}; found: {listed(self.found)}.{near}"
        return what, self.advice


class ReservedColumnError(TerminalError):
    """A source column has a name of the framework."""

    code = "RESERVED_COLUMN"
    table: object
    columns: Sequence[str]
    summary = "Table {table} has source columns with reserved names: {columns}."
    advice = "Give them other names by 'rename' in tables.yml, or leave them out by 'columns'."


class IncompatibleTypeError(TerminalError):
    """A column arrives with a type that the table's type cannot be widened to."""

    code = "INCOMPATIBLE_TYPE"
    table: object
    column: str
    existing: str
    incoming: str
    place: str = "the incoming data"
    reason: str = ""
    summary = "Table {table}, column {column}: the table has {existing}, {place} has {incoming}."
    advice = "Nothing was written. Declare its type under 'types' in tables.yml, or correct the source."

    def sentences(self) -> tuple[str, str]:
        """Return the two types, and what the format cannot do where that is the reason."""
        what, advice = super().sentences()
        return what + (f" {_shown(self.reason)}." if self.reason else ""), advice


class SchemaFixedError(TerminalError):
    """A batch would change the columns of a table whose declaration keeps them as they are."""

    code = "SCHEMA_FIXED"
    table: object
    columns: Sequence[str]
    place: str
    summary = "Table {table} has 'schema_policy: fixed', and {place} would add or widen: {columns}."
    advice = (
        "Nothing was written. Declare them under 'types' in tables.yml, leave them out by 'columns', "
        "or use 'schema_policy: evolve'."
    )


class KeySchemaDriftError(TerminalError):
    """The declared keys are not those that the table was built with."""

    code = "KEY_SCHEMA_DRIFT"
    table: object
    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"
    summary = "Table {table} was built with the keys {existing}; now declared: {declared}."
    advice = "Restore 'keys' in tables.yml, or run `kedro lakehouse rebuild {name} --from-landing`."


class SequenceTypeDriftError(TerminalError):
    """The order's fields or types are not those that the table was built with."""

    code = "SEQUENCE_TYPE_DRIFT"
    table: object
    existing: str
    declared: str
    name: object = "TABLE"
    summary = "Table {table} was built with the order {existing}; now: {declared}."
    advice = "Restore the source's order columns, or run `kedro lakehouse rebuild {name} --from-landing`."


class TrackHistoryDriftError(TerminalError):
    """The tracked columns are not those that the history was built with."""

    code = "TRACK_HISTORY_DRIFT"
    table: object
    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"
    summary = "Table {table} has a history that was built to track {existing}; now declared: {declared}."
    advice = "Restore 'history.track' in tables.yml, or run `kedro lakehouse rebuild {name}`."


class SequenceTieError(TerminalError):
    """Different events of one key have the same order, and the table refuses that."""

    code = "SEQUENCE_TIE"
    table: object
    batch: int
    ties: int
    summary = "Table {table}, batch {batch}: {ties} event(s) share key and order with another one."
    advice = "Nothing was written. Declare an 'order_by' that is total within a key, or another 'on_tie'."


class TooManyInvalidError(TerminalError):
    """More of a batch is invalid than the table allows."""

    code = "TOO_MANY_INVALID"
    table: object
    batch: int
    invalid: int
    total: int
    limit: float
    summary = (
        "Table {table}, batch {batch}: {invalid} of {total} events are invalid; the limit is {limit} of them."
    )
    advice = (
        "Nothing was written. Correct the source, its types or its checks, or raise 'max_invalid_fraction'."
    )


class SnapshotEmptyError(TerminalError):
    """An extract holds no row."""

    code = "SNAPSHOT_EMPTY"
    table: object
    extract: str
    summary = "Table {table}: the extract {extract} is empty."
    advice = (
        "It was not applied. Deliver it again, or set 'allow_empty_extract: true' if the source is empty."
    )


class SnapshotDeletesTooManyError(TerminalError):
    """An extract would delete more of the table than it may."""

    code = "SNAPSHOT_DELETES_TOO_MANY"
    table: object
    extract: str
    deletes: int
    rows: int
    limit: float
    summary = (
        "Table {table}: the extract {extract} lacks {deletes} of {rows} rows; the limit is {limit} of them."
    )
    advice = "It was not applied. Check that it is complete, or raise 'max_delete_fraction'."


class SnapshotOutOfOrderError(TerminalError):
    """An extract is older than the last accepted one."""

    code = "SNAPSHOT_OUT_OF_ORDER"
    table: object
    extract: str
    last: str
    summary = "Table {table}: the extract {extract} is older than the last accepted one, {last}."
    advice = "It was not applied. Remove it from the landing folder, or declare a new table on all extracts."


class RefusedExtractsError(TerminalError):
    """Some extracts of a table were refused; ``published`` tells that everything else of it went on."""

    code = "EXTRACTS_REFUSED"
    table: object
    errors: Sequence[LakehouseError]
    published: bool = True

    def sentences(self) -> tuple[str, str]:
        """Return each extract with the code that refused it."""
        named = [f"{_cut(str(getattr(e, 'extract', '?')), 32)} ({e.code})" for e in self.errors]
        rest = (
            "All else of the table was published."
            if self.published
            else "Nothing of the table was published."
        )
        what = f"Table {self.table} refused {len(named)} extract(s): {listed(named)}."
        return what, f"{rest} Deliver them again, or change the guard that refused them."


class BatchContentChangedError(TerminalError):
    """A batch number comes again with other content."""

    code = "BATCH_CONTENT_CHANGED"
    table: object
    batch: int
    detail: str
    summary = "Table {table}, batch {batch} is not what it was ({detail})."
    advice = "Nothing was written. Restore the batch's files as they were; deliver changed data as new files."


class AuditFailedError(TerminalError):
    """A staged batch does not pass the audit; no reader has seen a row of it."""

    code = "AUDIT_FAILED"
    table: object
    batch: int
    check: str
    expected: object
    found: object
    summary = "Table {table}, batch {batch}: the check '{check}' expected {expected}, found {found}."
    advice = "Nothing was published. Run again; if it fails again, report it with the batch's files."


class CommitConflictError(TransientError):
    """Another writer won each time; nothing was written."""

    code = "COMMIT_CONFLICT"
    table: object
    attempts: int
    summary = "Table {table}: another writer committed first, in each of {attempts} attempt(s)."
    advice = "Nothing was written. Run again when the other writer is done."


class CommitUnknownError(UnknownOutcomeError):
    """The reply to a commit was lost."""

    code = "COMMIT_UNKNOWN"
    table: object
    batch: int
    summary = "Table {table}, batch {batch}: the catalog did not say whether the commit happened."
    advice = "Nothing was cleaned up. Run again: the run looks for the batch first."


class UnreadableFileError(TerminalError):
    """A file cannot be read as what it is declared to be."""

    code = "UNREADABLE_FILE"
    table: object
    file: str
    detail: str
    summary = "Table {table}: the file {file} cannot be read ({detail})."
    advice = "Nothing of its batch was written. Deliver it again, or correct file_format in sources.yml."


class SourceNotFoundError(TerminalError):
    """The place that a table is read from does not exist."""

    code = "SOURCE_NOT_FOUND"
    table: object
    path: str
    remedy: str
    summary = "Table {table}: there is nothing at {path}."
    advice = "{remedy}"


class BatchNotFoundError(TerminalError):
    """A table has no batch of this number."""

    code = "BATCH_NOT_FOUND"
    table: object
    batch: int
    last: int

    def sentences(self) -> tuple[str, str]:
        """Return the batch, and those that there are."""
        there = f"it has the batches 1 to {self.last}" if self.last else "it has none yet"
        advice = "`kedro lakehouse tables` shows where each table stands."
        return f"Table {self.table} has no batch {self.batch}; {there}.", advice


class LandedFilesGoneError(TerminalError):
    """Files that were ingested, and are needed again, are gone or replaced."""

    code = "LANDED_FILES_GONE"
    table: object
    missing: Sequence[str]
    purpose: str = "read them again"
    summary = "Table {table}: to {purpose}, files are missing or were replaced since: {missing}."
    advice = "Nothing was changed. Put them back as they were, with their times (`cp -p`), and try again."
