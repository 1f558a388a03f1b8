"""A run in which tables failed while the others were finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from kedro_lakehouse.errors import LakehouseError, TerminalError, listed

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_TOLD: Final = 400


class TablesFailedError(TerminalError):
    """Some tables failed, every other one was finished; ``retry`` is the command that tries them again."""

    code: ClassVar[str] = "TABLES_FAILED"

    tables: Mapping[str, BaseException]
    retry: str

    def sentences(self) -> tuple[str, str]:
        """What failed, and the command that tries only that again."""
        return (
            f"{len(self.tables)} tables failed: {listed(sorted(self.tables))}; the rest are done.",
            f"Retry: {self.retry}",
        )


def told(error: BaseException) -> str:
    """An error as one bounded line: Spark's own messages carry whole query plans."""
    if isinstance(error, LakehouseError):
        return str(error)
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first[:_MAX_TOLD]}"
