"""Declarations of sources that are asked for their records: what all types of them share."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from kedro_lakehouse.config.base import Declaration, Name, RelativePath, Size, parse_bytes
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.lifetimes import LandingLifetime
from kedro_lakehouse.config.pulls import Mode, PullConfig
from kedro_lakehouse.config.sources import SourceConfig, TableProblem
from kedro_lakehouse.names import SNAPSHOT_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.tables import TableConfig


class PullRetry(Declaration):
    """How long a source that does not answer is asked again."""

    budget: Duration = dt.timedelta(minutes=10)
    """Time from the first failure until the pull is given up."""


class PullLimits(Declaration):
    """What one pull may hold at most; a greater one is given up, and nothing of it is ingested."""

    rows: int | None = Field(None, ge=1)
    """Most rows; default: any number."""
    bytes: Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=Size)] = Field(
        64 * 1024**3, ge=1
    )
    """Most bytes of the landed file; `512 MiB` works too."""
    time: Duration = dt.timedelta(hours=4)
    """Longest time that one pull takes."""


def _layout(text: str) -> str:
    return text.strip("/")


class PulledSourceConfig(SourceConfig):
    """A source that is asked for its records, which land as files; the base of its types' models."""

    lands: ClassVar[Literal["parquet", "json"]] = "parquet"
    """The format of landed files."""
    pull_model: ClassVar[type[PullConfig]] = PullConfig
    """What a table's key `pull` may hold."""

    layout: Annotated[RelativePath, AfterValidator(_layout)] = "{entity}"
    """Folders below `path` for the files of a table: `{entity}`, `{table}`, and %Y, %m, %d, %H of the end of
    the pull's window.
    """
    credentials: Name | None = None
    """Entry of credentials.yml with what the source asks for."""
    mode: Mode = "full"
    """What a pull holds, unless the table's `pull` says otherwise: `full`, `incremental` or `snapshot`."""
    every: Duration | None = None
    """How long after a pull the next one is due; default: each run pulls, and a loop every five minutes."""
    retry: PullRetry = PullRetry()
    """How long a source that does not answer is asked again: {budget: 10 min}."""
    limits: PullLimits = PullLimits()
    """What one pull may hold at most: {rows: 1000000, bytes: 10 GiB, time: 1 h}."""
    max_pulls: int = Field(1, ge=1)
    """How many tables of the source are pulled at the same time."""
    lifetime: LandingLifetime = LandingLifetime()
    """What becomes of landed files in S3 as they grow old: see `lifetime` below."""

    @property
    def file_format(self) -> Literal["parquet", "json"]:
        """The format of landed files."""
        return self.lands

    @property
    def reads_one_state(self) -> bool:
        """Whether all tables of the source are read as they were at one moment."""
        return False

    def pull_of(self, table: TableConfig) -> PullConfig:
        """How a table is pulled."""
        return table.pull or self.pull_model()

    def mode_of(self, table: TableConfig) -> Mode:
        """What a pull of a table holds."""
        return self.pull_of(table).mode or self.mode

    def completed(self, table: TableConfig) -> TableConfig:
        """The order of an incremental table is its cursor, the partition of a snapshot its id."""
        pull, mode = self.pull_of(table), self.mode_of(table)
        more: Mapping[str, object] = {}
        if mode == "incremental" and pull.cursor is not None and not table.order_by:
            more = {"order_by": (table.rename.get(pull.cursor, pull.cursor),)}
        if mode == "snapshot" and not table.partition_by:
            more = {"partition_by": (SNAPSHOT_ID,)}
        return table.model_copy(update={**more, "pull": pull})

    def table_problem(self, table: TableConfig) -> TableProblem | None:
        """A window needs a cursor and keys; a snapshot is added, a full pull is not."""
        pull, mode = self.pull_of(table), self.mode_of(table)
        if mode == "incremental" and table.write != "merge":
            return TableProblem(
                key="keys",
                problem="windows may overlap, and without keys a row would be there twice.",
                remedy="List the key columns and remove `write`, or use another `pull.mode`.",
            )
        if mode == "incremental" and pull.cursor is None:
            return TableProblem(
                key="pull.cursor",
                problem="'incremental' needs the column that tells when a row was last changed.",
                remedy="Write for example {mode: incremental, cursor: updated_at}.",
            )
        if mode != "incremental" and (pull.cursor or pull.late):
            return TableProblem(
                key="pull.cursor" if pull.cursor else "pull.late",
                problem=f"a pull of mode '{mode}' has no window.",
                remedy="Remove it, or add `mode: incremental`.",
            )
        if mode == "snapshot" and table.write != "append":
            return TableProblem(
                key="write",
                problem="snapshots are kept beside each other.",
                remedy="Write `write: append`, without `keys`.",
            )
        if mode == "full" and table.write == "append":
            return TableProblem(
                key="write",
                problem="each full pull would be added to the ones before.",
                remedy="List `keys`; or write `write: replace`, or `pull: {mode: snapshot}`.",
            )
        return None
