"""What every table format offers, and the phases that a commit goes through."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import types as T

    from kedro_lakehouse.ops.report import CommitReport

Phase = Literal["planned", "staged", "published", "acknowledged"]

_phases: Final = logging.getLogger("kedro_lakehouse.phase")


def enter_phase(phase: Phase, table: object, stage: str, batch: int) -> None:
    """Record that a commit of a table's stage has reached a phase: what follows has not happened yet.

    planned: the batch is in the ledger; staged: its rows are on a branch that no reader sees;
    published: data and bookmark are visible; acknowledged: its row is in ``lake.ops.batches``.
    """
    facts = {"phase": phase, "table": str(table), "stage": stage, "batch": batch}
    _phases.debug("%s %s: batch %s %s", table, stage, batch, phase, extra=facts)


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table as its newest metadata tells, read without a JVM."""

    columns: Mapping[str, T.DataType]
    bookmark: CommitReport | None
    snapshot_id: int | None
    rows: int
    branches: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """The last batch that the table holds; 0 where it holds none."""
        return self.bookmark.batch if self.bookmark else 0


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What metadata tells of some files: at most so many rows, and between which values columns lie."""

    rows: int
    ranges: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a table lies on disk."""

    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def sorts_writes(self) -> bool:
        """Whether a write sorts the whole of what it writes, for which rows are read twice."""
        return bool(self.sort_by) or self.properties.get("write.distribution-mode") == "range"


def stage_branch(run_id: str) -> str:
    """The branch on which a run stages its commits."""
    return f"stage_{run_id}"


def is_stage_branch(name: str) -> bool:
    """Tell whether a branch is a stage of some run."""
    return name.startswith("stage_")
