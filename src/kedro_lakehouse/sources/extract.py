"""Full extracts in files: each file is the whole table at one time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kedro_lakehouse.config.sources import ExtractSourceConfig
from kedro_lakehouse.errors import ConfigurationError, UnreadableFileError
from kedro_lakehouse.sources.base import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.files import LandedFile, Load

ExtractOrder = tuple[datetime, str]

_DIRECTIVES: Final = {
    "Y": r"\d{4}", "m": r"\d{2}", "d": r"\d{2}", "H": r"\d{2}", "M": r"\d{2}", "S": r"\d{2}", "f": r"\d{1,6}",
    "y": r"\d{2}", "j": r"\d{3}", "z": r"[+-]\d{2}:?\d{2}", "b": r"[A-Za-z]{3}",
}  # fmt: skip


def time_of_name(name: str, pattern: str) -> datetime | None:
    """Read the time in a file's name, at the first place where the pattern fits; UTC if it has no zone.

    Example:
        >>> time_of_name("2012-12-27T201758Z_x.csv.gz", "%Y-%m-%dT%H%M%SZ").isoformat()
        '2012-12-27T20:17:58+00:00'
    """
    parts = re.split(r"%(.)", pattern)
    expression = "".join(
        re.escape(part) if i % 2 == 0 else ("%" if part == "%" else _DIRECTIVES.get(part, r".+?"))
        for i, part in enumerate(parts)
    )
    for found in re.finditer(expression, name):
        try:
            time = datetime.strptime(found[0], pattern)  # noqa: DTZ007 - the zone is set below
        except ValueError:
            continue
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return None


def refuse_unfit(name: TableName, table: TableConfig) -> None:
    """Refuse a declaration that does not fit a table of full extracts, from files or derived.

    Raises:
        ConfigurationError: A key of the declaration does not apply to extracts.
    """
    for key, problem, remedy in _unfit(table):
        raise ConfigurationError(file="tables.yml", key=f"{name}.{key}", problem=problem, remedy=remedy)


def _unfit(table: TableConfig) -> Iterator[tuple[str, str, str]]:
    """The parts of a declaration that do not fit full extracts: key, problem and remedy of each."""
    if table.effective_time:
        yield "effective_time", "does not apply to extracts.", "Name the column under `valid_from`."
    if table.unset_marker is not None:
        remedy = "Remove the key; where null means unchanged, use `ignore_null`."
        yield "unset_marker", "does not apply to extracts, whose rows are whole.", remedy
    stored = {"valid_from.updated_at": (table.valid_from.updated_at,), "delete_scope": table.delete_scope}
    chosen = table.columns
    for key, names in stored.items():
        for column in filter(None, names):
            if chosen is not None and (
                column in (chosen.exclude or ())
                or (chosen.include is not None and column not in (*chosen.include, *table.keys))
            ):
                problem = f"the column '{column}' is not kept, and the next extract is compared with it."
                yield key, problem, "Keep it in `columns`."


class ExtractSource(FolderSource[ExtractSourceConfig]):
    """The extracts of one table."""

    config_model: ClassVar[type[ExtractSourceConfig]] = ExtractSourceConfig
    gives: ClassVar[Literal["changes", "extracts", "ranges"]] = "extracts"
    load: ClassVar[Load] = "full_load"

    def __init__(self, config: ExtractSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""
        super().__init__(config, name, table)
        refuse_unfit(name, table)

    def files(self) -> list[LandedFile]:
        """The landed files, the earliest extract first."""
        return sorted(self._listed(self._config.pattern), key=self.order_of)

    def order_of(self, file: LandedFile) -> ExtractOrder:
        """The time and name by which an extract is ordered among the others; never the clock.

        Raises:
            UnreadableFileError: The name holds no time of the declared pattern.
        """
        if self._config.extract_time.from_ == "modified":
            return datetime.fromtimestamp(file.modified / 1000, UTC), file.name
        pattern = self._config.extract_time.pattern or ""
        time = time_of_name(file.name, pattern)
        if time is None:
            raise UnreadableFileError(
                table=self._name,
                file=file.name,
                detail=f"its name holds no time like '{pattern}'",
                remedy="Correct extract_time or pattern in sources.yml, or the file's name",
            )
        return time, file.name
