"""What can go wrong, as types: each leaf keeps its facts, and says what to do.

A leaf is a keyword-only dataclass: its facts are its constructor's arguments and its attributes, and fill the
two sentences ``summary`` and ``advice``. No fact is ever a value of a row; no message holds a fetched secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final, dataclass_transform

from kedro.io import DatasetError

from kedro_lakehouse.redaction import redacted

MAX_MESSAGE: Final = 700  # five examples
MAX_EXAMPLES: Final = 5
MAX_MISTAKES: Final = 10
_MAX_ADVICE: Final = 500
MAX_FACT: Final = 160
_MAX_ITEM: Final = 60
_NAMED_EXTRACTS: Final = 3


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
    shown = [cut(str(name), _MAX_ITEM) for name in names]
    more = len(shown) - MAX_EXAMPLES
    return ", ".join(shown[:MAX_EXAMPLES]) + (f" and {more} more" if more > 0 else "") or "none"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "table"), counted(2, "table")
        ('1 table', '2 tables')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def cut(text: str, limit: int) -> str:
    """Return text of at most so many characters, each of them printable."""
    # Names of files and columns come from outside: a control character could forge a line of the log.
    # Secrets go first: half of one would not be known.
    clean = "".join(char if char.isprintable() else "?" for char in redacted(text))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def shown(fact: object) -> str:
    """Return a fact as a message shows it."""
    if fact is None:
        return "not known"
    if isinstance(fact, Sequence) and not isinstance(fact, str | bytes):
        return listed(fact)
    if isinstance(fact, float):
        return f"{fact:g}"
    return cut(str(fact), MAX_FACT)


def then(remedy: str, command: str) -> str:
    """Return a remedy with the command that comes after it, unless it names one itself.

    Example:
        >>> then("Declare it.", "kedro run")
        'Declare it. Then `kedro run`.'
    """
    return remedy if "`kedro " in remedy else f"{remedy} Then `{command}`."


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
        end = " " + cut(advice, _MAX_ADVICE) if advice else ""
        start = f"[{self.code}] "
        self.args = (start + cut(what, MAX_MESSAGE - len(start) - len(end)) + end,)

    def sentences(self) -> tuple[str, str]:
        """Return what is wrong (where, expected, found), and what to do."""
        facts = {name: shown(fact) for name, fact in vars(self).items()}
        return self.summary.format_map(facts), self.advice.format_map(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error cross a process border with its facts."""
        return (type(self).__new__, (type(self), *self.args), self.__dict__)


class TransientError(LakehouseError):
    """Nothing was written: call again."""


class TerminalError(LakehouseError):
    """Nothing changes by calling again: the input or the declaration must."""


class TableError(TerminalError):
    """The same, about one table."""

    table: object


class UnknownOutcomeError(LakehouseError):
    """The commit may have happened: look for its token, and clean nothing up before the answer is known."""


# Declarations, names and the machine: nothing can start.


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


# Landed files that cannot be found or read.


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


# Columns, types, keys and orders that do not fit the table.


_DECLARED_IN: Final = dict.fromkeys(("expectations", "partition_by", "sort_by"), "tables.yml") | {
    "op_column": "sources.yml"
}
"""The file of each key that names columns and is no key of all tables."""


class MissingColumnError(TableError):
    """A column that is needed is not in the source or the frame."""

    code = "MISSING_COLUMN"
    missing: Sequence[str]
    found: Sequence[str]
    place: str | None = None
    advice = (
        "Correct keys, order_by, effective_time, columns or rename in tables.yml, or the source; then "
        "`kedro run`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return the columns and the place, and the nearest column found."""
        where = f" in {shown(self.place)}" if self.place else ""
        near = did_you_mean(self.missing[0], self.found) if self.missing else ""
        what = f"Table {self.table}: no {listed(self.missing)}{where}; found: {listed(self.found)}.{near}"
        _, _, wanted = (self.place or "").partition(", for ")
        if file := _DECLARED_IN.get(wanted):
            return what, f"Correct {wanted} in {file}, or the source; then `kedro run`."
        if len(self.found) == 1 and (other := next((c for c in ",;|\t" if c in self.found[0]), "")):
            return (
                what,
                f"If {other!r} separates columns, say so by csv.delimiter in sources.yml; then `kedro run`.",
            )
        return what, self.advice


class ReservedColumnError(TableError):
    """A source column has a name of the framework."""

    code = "RESERVED_COLUMN"
    columns: Sequence[str]
    summary = "Table {table} has source columns with reserved names: {columns}."
    advice = (
        "Give them other names by 'rename' in tables.yml, or leave them out by 'columns'; then `kedro run`."
    )


DECLARED_THERE: Final = "tables.yml"
"""The place of a type that was declared, and not found in data."""


class IncompatibleTypeError(TableError):
    """A column arrives with a type that the table's type cannot be widened to."""

    code = "INCOMPATIBLE_TYPE"
    column: str
    existing: str
    incoming: str
    place: str = "the incoming data"
    reason: str = ""
    summary = "Table {table}, column {column}: the table has {existing}, {place} has {incoming}."
    advice = (
        "Nothing was written. Correct the source, then `kedro run`; or declare a type that holds both under "
        "'types' in tables.yml, then `kedro lakehouse rebuild {table} --from-landing`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return the two types, and what the format cannot do where that is the reason."""
        what, advice = super().sentences()
        if self.place == DECLARED_THERE:
            advice = (
                "Nothing was written. Restore the type in tables.yml, or run "
                f"`kedro lakehouse rebuild {shown(str(self.table))} --from-landing`."
            )
        return what + (f" {shown(self.reason)}." if self.reason else ""), advice


class SchemaFixedError(TableError):
    """A batch would change the columns of a table whose declaration keeps them as they are."""

    code = "SCHEMA_FIXED"
    columns: Sequence[str]
    place: str
    summary = "Table {table} has 'schema_policy: fixed', and {place} would add or widen: {columns}."
    advice = (
        "Nothing was written. Declare them under 'types' in tables.yml, leave them out by 'columns', "
        "or use 'schema_policy: evolve'; then `kedro run`."
    )


class DriftError(TableError):
    """What is declared is not what the table was built with."""

    existing: Sequence[str]
    declared: Sequence[str]
    name: object = "TABLE"


class KeySchemaDriftError(DriftError):
    """The declared keys are not those that the table was built with."""

    code = "KEY_SCHEMA_DRIFT"
    summary = "Table {table} was built with the keys {existing}; now declared: {declared}."
    advice = "Restore 'keys' in tables.yml, or run `kedro lakehouse rebuild {name} --from-landing`."


class SequenceTypeDriftError(DriftError):
    """The order's fields or types are not those that the table was built with."""

    code = "SEQUENCE_TYPE_DRIFT"
    summary = "Table {table} was built with the order {existing}; now: {declared}."
    advice = "Restore the source's order columns, or run `kedro lakehouse rebuild {name} --from-landing`."


class TrackHistoryDriftError(DriftError):
    """The tracked columns are not those that the history was built with."""

    code = "TRACK_HISTORY_DRIFT"
    summary = "Table {table} has a history that was built to track {existing}; now declared: {declared}."
    advice = "Restore 'history.track' in tables.yml, or run `kedro lakehouse rebuild {name}`."


class FoldRuleDriftError(DriftError):
    """The rules for ties and for values not sent are not those that the table was folded with."""

    code = "FOLD_RULE_DRIFT"
    summary = "Table {table} was folded with {existing}; now declared: {declared}."
    advice = (
        "Restore 'on_tie', 'ignore_null' and 'unset_marker' in tables.yml, or run "
        "`kedro lakehouse rebuild {name}`."
    )


# Batches and extracts that cannot be applied as they came.


class SequenceTieError(TableError):
    """Different events of one key have the same order, and the table refuses that."""

    code = "SEQUENCE_TIE"
    batch: int
    ties: int
    summary = "Table {table}, batch {batch}: {ties} event(s) share key and order with another one."
    advice = (
        "Nothing was written. Declare an 'order_by' that is total within a key, or another 'on_tie'; "
        "then `kedro run`."
    )


class TooManyInvalidError(TableError):
    """More of a batch is invalid than the table allows."""

    code = "TOO_MANY_INVALID"
    batch: int
    invalid: int
    total: int
    limit: float
    summary = (
        "Table {table}, batch {batch}: {invalid} of {total} events are invalid; the limit is {limit} of them."
    )
    advice = (
        "Nothing was written. Correct the source, its types or its checks, or raise 'max_invalid_fraction'; "
        "then `kedro run`."
    )


class LedgerGapError(TableError):
    """The ledger of planned batches does not hold the plan of a published one."""

    code = "LEDGER_GAP"
    batch: int
    summary = (
        "Table {table}: lake.ops.batch_ledger lacks the plan of the published batch {batch}, or one before."
    )
    advice = (
        "Nothing was written. Restore lake.ops.batch_ledger, or give the table up by "
        "`kedro lakehouse drop {table}` and run again."
    )


_EXTRACT: Final = "Table {table}: the extract {extract} "


class RefusedExtractError(TableError):
    """An extract of a table is not applied; ``because`` says why, in the words that follow its name."""

    because: ClassVar[str]
    extract: str

    @property
    def reason(self) -> str:
        """What is wrong with the extract, as the rest of a sentence that begins with its name."""
        return self.because.format_map({name: shown(fact) for name, fact in vars(self).items()})


class SnapshotEmptyError(RefusedExtractError):
    """An extract holds no row."""

    code = "SNAPSHOT_EMPTY"
    because = "is empty"
    summary = f"{_EXTRACT}{because}."
    advice = (
        "If the source is empty, set 'allow_empty_extract: true', then `kedro run`; else land a later one."
    )


class SnapshotDeletesTooManyError(RefusedExtractError):
    """An extract would delete more of the table than it may."""

    code = "SNAPSHOT_DELETES_TOO_MANY"
    deletes: int
    rows: int
    limit: float
    because = "lacks {deletes} of {rows} rows, the limit is {limit} of them"
    summary = f"{_EXTRACT}{because}."
    advice = (
        "If these rows are gone in the source, raise 'max_delete_fraction' and `kedro run`; else deliver a "
        "later, complete one."
    )


class SnapshotOutOfOrderError(RefusedExtractError):
    """An extract is older than the last accepted one."""

    code = "SNAPSHOT_OUT_OF_ORDER"
    last: str
    because = "is not later than the last accepted one, {last}"
    summary = f"{_EXTRACT}{because}."
    advice = "To apply all extracts in their order: `kedro lakehouse rebuild {table} --from-landing`."


def rest_went_on(error: BaseException) -> bool:
    """Whether an error only says that extracts were refused: everything else of the table went on."""
    return isinstance(error, RefusedExtractsError) and error.published


class RefusedExtractsError(TableError):
    """Some extracts of a table were refused; ``published``: everything else of it went on."""

    code = "EXTRACTS_REFUSED"
    errors: Sequence[RefusedExtractError]
    published: bool = True

    def sentences(self) -> tuple[str, str]:
        """Return each extract with the reason, and what to do about each kind of reason."""
        named = "; ".join(f"{cut(e.extract, _MAX_ITEM)} {e.reason}" for e in self.errors[:_NAMED_EXTRACTS])
        more = len(self.errors) - _NAMED_EXTRACTS
        what = f"Table {self.table} refused {counted(len(self.errors), 'extract')}: {named}"
        what += f"; and {more} more." if more > 0 else "."
        rest = "All else" if self.published else "Nothing"
        kinds = dict.fromkeys(e.sentences()[1] for e in self.errors)
        return what, " ".join([f"{rest} of the table was published.", *kinds])


class BatchContentChangedError(TableError):
    """A batch number comes again with other content."""

    code = "BATCH_CONTENT_CHANGED"
    batch: int
    detail: str
    summary = "Table {table}, batch {batch} is not what it was ({detail})."
    advice = (
        "Nothing was written. Restore the batch's files as they were, deliver changed data as new files; "
        "then `kedro run`."
    )


class BatchNotFoundError(TableError):
    """A table has no batch of this number."""

    code = "BATCH_NOT_FOUND"
    batch: int
    last: int

    def sentences(self) -> tuple[str, str]:
        """Return the batch, and those that there are."""
        there = f"it has the batches 1 to {self.last}" if self.last else "it has none yet"
        advice = "`kedro lakehouse tables` shows where each table stands."
        return f"Table {self.table} has no batch {self.batch}; {there}.", advice


# Commits that failed, or whose outcome is unknown.


class AuditFailedError(TableError):
    """A staged batch does not pass the audit; no reader has seen a row of it."""

    code = "AUDIT_FAILED"
    batch: int
    check: str
    expected: object
    found: object
    summary = "Table {table}, batch {batch}: the check '{check}' expected {expected}, found {found}."
    advice = "Nothing was published. `kedro run` again; if it fails again, report it with the batch's files."


class CommitConflictError(TransientError):
    """Another writer won each time; nothing was written."""

    code = "COMMIT_CONFLICT"
    table: object
    attempts: int
    summary = "Table {table}: another writer committed first, in each of {attempts} attempt(s)."
    advice = "Nothing was written. `kedro run` again when the other writer is done."


class ErasureNotDoneError(TerminalError):
    """An erasure removed the rows of persons, and something is left that it cannot remove."""

    code = "ERASURE_NOT_DONE"
    table: object
    erasure: str
    found: int
    pending: Sequence[str]
    summary = (
        "Requests of {table}: the rows are erased, but files hold an erased person in {found} place(s). Left "
        "to do: {pending}."
    )
    advice = (
        "`kedro lakehouse erasures {erasure}` names the files and what is left. Remove what it names, then "
        "erase the same persons again: `kedro lakehouse erase`."
    )


class LeaseLostError(TransientError):
    """The lease that a run works under may be another run's by now; what it staged is not published."""

    code = "LEASE_LOST"
    table: object
    stage: str
    summary = "Table {table} ({stage}): the lease may have been taken over by another run."
    advice = (
        "Nothing of this attempt was published; a run plans again by itself. If it still fails: `kedro run`."
    )


class ClockBehindError(TransientError):
    """This machine's clock is behind a table's newest commit, whose format orders commits by their times."""

    code = "CLOCK_BEHIND"
    table: object
    newest: str
    now: str
    summary = "Table {table}: its newest commit is of {newest} UTC, and this machine's clock says {now}."
    advice = (
        "Nothing was written: a commit of an earlier time would not count. "
        "Set the clocks of all machines that write, then `kedro run` again."
    )


class CommitUnknownError(UnknownOutcomeError):
    """The reply to a commit was lost."""

    code = "COMMIT_UNKNOWN"
    table: object
    batch: int
    summary = "Table {table}, batch {batch}: the catalog did not say whether the commit happened."
    advice = "Nothing was cleaned up. `kedro run` again: it looks for the batch first."


class BookmarkGoneError(TableError):
    """The entry of a table's log that holds its bookmark was removed."""

    code = "BOOKMARK_GONE"
    number: int
    summary = "Table {table}: its log has lost the entry of commit {number}, and with it the bookmark."
    advice = (
        "Nothing was changed. Leave delta.enableExpiredLogCleanup off; restore the log, "
        "or give the table up by `kedro lakehouse drop` and run again."
    )


class NoSuchSnapshotError(TableError):
    """No state of a table that can still be read is the one asked for."""

    code = "NO_SUCH_SNAPSHOT"
    wanted: str
    known: Sequence[str]
    summary = "Table {table}: no state of {wanted} can be read any more, or ever was; there are: {known}."
    advice = "Choose one that `kedro lakehouse snapshots {table}` lists."


# Expectations that are not met.


class ExpectationFailedError(TableError):
    """Staged rows fail an expectation that blocks; no reader has seen one of them."""

    code = "EXPECTATION_FAILED"
    batch: int
    rows: int
    expectations: Sequence[str]
    summary = "Table {table}, batch {batch}: {rows} row(s) fail the expectation {expectations}."
    advice = (
        "Nothing was published. Deliver correcting events (all pending batches are validated as one), or "
        "exclude the failing ones: `kedro lakehouse quarantine {table} --batch {batch}`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return how many rows fail, unless it is the table as a whole."""
        _, advice = super().sentences()
        fail = "the table as a whole fails"
        if self.rows:
            fail = f"{counted(self.rows, 'row')} {'fails' if self.rows == 1 else 'fail'}"
        return f"Table {self.table}, batch {self.batch}: {fail} the expectation {self._named()}.", advice

    def _named(self) -> str:
        """As many expectations as fit, each whole; a first one that is too long is cut between words."""
        first, *others = (cut(name, MAX_MESSAGE) for name in self.expectations)
        if len(first) > MAX_FACT:
            first = first[:MAX_FACT].rpartition(" ")[0] + " …"
        shown = [first]
        while others and len(", ".join([*shown, others[0]])) <= MAX_FACT:
            shown.append(others.pop(0))
        return ", ".join(shown) + (f" and {len(others)} more" if others else "")


class NothingToWithdrawError(TableError):
    """A batch has no event that fails a blocking expectation."""

    code = "NOTHING_TO_WITHDRAW"
    batch: int
    blocked_by: Sequence[int]
    summary = "Table {table}: no event of batch {batch} fails; the failing batches are: {blocked_by}."
    advice = (
        "Nothing was excluded. Name a failing batch: `kedro lakehouse quarantine {table} --batch NUMBER`; or "
        "deliver correcting events, then `kedro run`."
    )


# Column search: what it needs and does not find.


class DiscoveryChangedError(TerminalError):
    """Datasets changed since the last look, and discovery.yml lets that fail the run."""

    code = "DISCOVERY_CHANGED"
    changes: Sequence[str]
    summary = "Datasets changed since the last look: {changes}."
    advice = (
        "`kedro lakehouse discovered` shows their versions. The changes are recorded: the next run compares "
        "with what lies there now."
    )


class ModelNotFoundError(TerminalError):
    """The files of an embedding model are not there, or are not the published ones."""

    code = "MODEL_NOT_FOUND"
    model: str
    problem: str
    remedy: str
    summary = "The model {model} cannot be used: {problem}."

    def sentences(self) -> tuple[str, str]:
        """Return the problem, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy, "kedro run --pipelines=column_index")


class IndexEmptyError(TerminalError):
    """No column is indexed with the model."""

    code = "INDEX_EMPTY"
    model: str
    indexed: Sequence[str]
    summary = "No column is indexed with the model {model}; indexed with: {indexed}."
    advice = "Run `kedro run --pipelines=column_index`, or add files: `kedro lakehouse search --add PATH`."


class ColumnNotFoundError(TerminalError):
    """The column index has no such column or table."""

    code = "COLUMN_NOT_FOUND"
    column: str
    columns: int
    near: str = ""
    summary = "The index of {columns} columns has no '{column}'.{near}"
    advice = "Write namespace.table.column, as `kedro lakehouse search` prints it."


class SearchBelowThresholdError(TerminalError):
    """The column search, measured on its own evaluation set, is worse than it must be."""

    code = "SEARCH_BELOW_THRESHOLD"
    measures: Sequence[str]
    summary = "Column search misses its thresholds: {measures}."
    advice = (
        "Restore the former model or weights in parameters_column_index.yml, or lower the thresholds there; "
        "then `kedro run --pipelines=column_eval`."
    )


# What AWS does not give.


class AwsRefusedError(TerminalError):
    """A call to AWS failed; its error's code says why."""

    code = "AWS_REFUSED"
    what: str
    reason: str
    summary = "AWS does not give {what}: {reason}."
    advice = (
        "Look at its name, at AWS_REGION and at the role's policy, which `kedro lakehouse deploy` renders; "
        "then run the command again."
    )
