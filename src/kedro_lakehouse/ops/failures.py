"""A run in which tables failed while the others were finished."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from kedro_lakehouse.errors import (
    LakehouseError,
    OutOfMemoryError,
    PlaceUnusableError,
    SqlValueError,
    TerminalError,
    UnsupportedError,
    counted,
)
from kedro_lakehouse.ops.from_workers import brought_back
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_SHOWN: Final = 400
_MAX_TABLES: Final = 10
_MINE: Final = "Give yourself the right to read and write it (`ls -ld` shows whose it is)."
_ROOM: Final = "Free some, or set another place in globals.yml."
_FILE_AWAY: Final = "Move the file away, or set another place."
_COPY: Final = "Restore it from a copy, or move the lakehouse away."
_PLACES: Final = {
    errno.EACCES: ("permission denied", _MINE),
    errno.EPERM: ("this is not permitted", _MINE),
    errno.EROFS: ("its disk can only be read", "Set another place in globals.yml, or mount it for writing."),
    errno.ENOSPC: ("no space is left on its disk", _ROOM),
    errno.EDQUOT: ("the quota of its disk is used up", _ROOM),
    errno.ENOTDIR: ("a file stands where a folder is needed", _FILE_AWAY),
    errno.EEXIST: ("a file stands where a folder is needed", _FILE_AWAY),
    errno.EISDIR: ("a folder stands where a file is needed", "Move the folder away, or set another place."),
    errno.ELOOP: ("links lead in a circle", "Remove the link."),
    errno.ENAMETOOLONG: ("the name is too long", "Use a shorter one."),
}
_SQLITE: Final = {
    "unable to open": ("the catalog's file cannot be opened", _MINE),
    "readonly": ("the catalog's file, or its folder, can only be read", _MINE),
    "read-only": ("the catalog's file, or its folder, can only be read", _MINE),
    "not a database": ("the file is no SQLite catalog", _COPY),
    "malformed": ("the catalog's file is damaged", _COPY),
    "locked": ("another program holds the catalog", "End that program."),
    "disk I/O": ("the catalog's file cannot be read or written", _MINE),
    "full": ("no space is left on its disk", _ROOM),
}
_WENT: Final = re.compile(
    r"FILE_NOT_EXIST|FileNotFoundException|exceptions\.NotFoundException"
    r"|DELTA_(?:FILE_NOT_FOUND|TRUNCATED_TRANSACTION_LOG)"
)
"""What Spark, Iceberg, Delta and Hudi call a file that is not there any more."""
_OF_VALUES: Final = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CANNOT_PARSE_TIMESTAMP",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DATETIME_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "REMAINDER_BY_ZERO",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
)
"""Conditions of Spark's errors about a value; the project's own conversions raise none of them."""
_OF_NAMES_ONLY: Final = ("AnalysisException", "ParseException")


class TablesFailedError(TerminalError):
    """Some tables failed, every other one was finished; ``retry`` tries again what may end otherwise then."""

    code: ClassVar[str] = "TABLES_FAILED"

    tables: Mapping[str, BaseException]
    retry: str

    def sentences(self) -> tuple[str, str]:
        """What failed, and the command that tries only that again."""
        return " ".join([self._what(), *self._reasons()]), self._again()

    def __post_init__(self) -> None:
        """Make the message: a line for each of the first tables, and the command that tries them again."""
        super().__post_init__()
        lines = [f"[{self.code}] {self._what()}", *self._reasons(), self._again()]
        self.args = ("\n".join(filter(None, lines)),)

    def _what(self) -> str:
        return f"{counted(len(self.tables), 'table')} failed; the rest are done."

    def _reasons(self) -> list[str]:
        shown = [f"{table}: {message_of(error)}" for table, error in sorted(self.tables.items())]
        more = len(shown) - _MAX_TABLES
        return shown[:_MAX_TABLES] + ([f"... and {more} more."] if more > 0 else [])

    def _again(self) -> str:
        return f"Retry only what failed: {self.retry}" if self.retry else ""


def innermost(error: BaseException) -> BaseException:
    """The innermost cause of an error, or the first ``LakehouseError`` on the way to it."""
    seen = {id(error)}
    while not isinstance(error, LakehouseError) and error.__cause__ is not None:
        error = error.__cause__
        if id(error) in seen:  # a chain may come back to itself: `raise error from error`
            break
        seen.add(id(error))
    return error


def known(error: BaseException, catalog: str = "") -> LakehouseError | None:
    """The error that says what to do, out of one of ours, the system's, SQLite's or the JVM's; else None.

    Args:
        error: What was raised.
        catalog: The place of the SQLite catalog, which its errors do not name.
    """
    inner = innermost(error)
    if isinstance(inner, LakehouseError):
        return inner
    chain = [error, inner]
    if error.__context__ is not None:
        chain.append(error.__context__)
    for one in chain:
        if isinstance(one, OSError) and one.errno in _PLACES and (place := one.filename or quoted_path(one)):
            return _unusable(str(place), one.errno)
        if type(one).__module__.startswith(("sqlite3", "sqlalchemy")):
            for part, (problem, remedy) in _SQLITE.items():
                if part in str(one):
                    return PlaceUnusableError(path=catalog or "the catalog", problem=problem, remedy=remedy)
        if _of_spark(one) and (found := brought_back(said := _text_of(one)) or _told_by_java(said)):
            return found
    return None


def _told_by_java(said: str) -> LakehouseError | None:
    """What an error of the JVM is about: a place, its memory, or a value that somebody's SQL does not fit."""
    if place := _place_of_java(said):
        return place
    if lack := re.search(r"\w*OutOfMemoryError(?:: [\w ]{1,60})?", said):
        return OutOfMemoryError(said=lack[0])
    if wrong := re.search(r"PatternSyntaxException: ([^\n]{1,100})", said):
        return UnsupportedError(
            what=f"A regular expression is none of Java's: {wrong[1]}.",
            remedy="Correct it in the expectation, the check or the query.",
        )
    if failed := re.search(rf"\[({'|'.join(_OF_VALUES)})\b", said):
        return SqlValueError(condition=failed[1])
    return None


def _place_of_java(said: str) -> PlaceUnusableError | None:
    """What Java says of a local file or folder that it cannot read, write or make."""
    if found := re.search(r"FileNotFoundException: (?:file:)?(/[^\n]*?) \(([A-Z][\w -]+)\)", said):
        code = next((code for code in _PLACES if os.strerror(code) == found[2]), None)
        return _unusable(found[1], code) if code is not None else None
    if found := re.search(r"AccessDeniedException: (?:file:)?(/\S+)", said):
        return _unusable(found[1], errno.EACCES)
    if found := re.search(r"Mkdirs failed to create (?:file:)?(/\S+)", said):
        return PlaceUnusableError(path=found[1], problem="the folder cannot be made", remedy=_MINE)
    return None


def _unusable(path: str, code: int) -> PlaceUnusableError:
    problem, remedy = _PLACES[code]
    return PlaceUnusableError(path=path, problem=problem, remedy=remedy)


def _of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _text_of(error: BaseException) -> str:
    """What an error of the JVM says; nothing if the JVM does not answer any more."""
    with suppress(Exception):
        return str(error)
    return ""


def quoted_path(error: OSError) -> str:
    """Return the path that an error's text names, where it has it nowhere else, as Arrow's errors."""
    found = re.search(r"'([^']*/[^']*)'", str(error))
    return found[1] if found else ""


def files_went(error: BaseException) -> bool:
    """Whether Spark did not find files that the state it reads of a table had: something removed them."""
    return _of_spark(error) and _WENT.search(_text_of(error)) is not None


def message_of(error: BaseException) -> str:
    """An error as one bounded line that holds no row value and no secret.

    Kedro wraps what a dataset raised, so the innermost cause is used. Spark's messages carry whole query
    plans and, once rows are read, values of them: then only the name of its error condition is used.
    """
    inner = innermost(error)
    if ours := known(error):
        return redacted(str(ours))  # the error may have been made before the secret was fetched
    kind = type(inner).__name__
    if kind in _OF_NAMES_ONLY or not _of_spark(inner):
        first = next((line for line in redacted(str(inner)).splitlines() if line.strip()), "")
        return f"{kind}: {first[:_MAX_SHOWN]}"
    condition = re.search(r"\[([A-Z0-9_.]{3,})\]", _text_of(inner))
    return f"{kind}: {condition[1] if condition else 'see the log at level DEBUG'}"
