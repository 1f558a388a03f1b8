"""A run in which tables failed while the others were finished."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from kedro_lakehouse.errors import LakehouseError, TerminalError, counted, listed
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_TOLD: Final = 400
_OF_NAMES_ONLY: Final = ("AnalysisException", "ParseException")


class TablesFailedError(TerminalError):
    """Some tables failed, every other one was finished; ``retry`` tries again what may end otherwise then."""

    code: ClassVar[str] = "TABLES_FAILED"

    tables: Mapping[str, BaseException]
    retry: str

    def sentences(self) -> tuple[str, str]:
        """What failed, and the command that tries only that again."""
        return (
            f"{counted(len(self.tables), 'table')} failed: {listed(sorted(self.tables))}; the rest are done.",
            f"Retry: {self.retry}" if self.retry else "",
        )


def innermost(error: BaseException) -> BaseException:
    """The innermost cause of an error, or the first ``LakehouseError`` on the way to it."""
    seen = {id(error)}
    while not isinstance(error, LakehouseError) and error.__cause__ is not None:
        error = error.__cause__
        if id(error) in seen:  # a chain may come back to itself: `raise error from error`
            break
        seen.add(id(error))
    return error


def message_of(error: BaseException) -> str:
    """An error as one bounded line that holds no row value and no secret.

    Kedro wraps what a dataset raised, so the innermost cause is used. Spark's messages carry whole query
    plans and, once rows are read, values of them: then only the name of its error condition is used.
    """
    inner = innermost(error)
    if isinstance(inner, LakehouseError):
        return redacted(str(inner))  # the error may have been made before the secret was fetched
    kind = type(inner).__name__
    if kind in _OF_NAMES_ONLY or not type(inner).__module__.startswith(("pyspark", "py4j")):
        first = next((line for line in redacted(str(inner)).splitlines() if line.strip()), "")
        return f"{kind}: {first[:_MAX_TOLD]}"
    condition = re.search(r"\[([A-Z0-9_.]{3,})\]", str(inner))
    return f"{kind}: {condition[1] if condition else 'see the log at level DEBUG'}"
