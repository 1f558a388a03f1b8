"""Suites across tables: loaded where one of their tables changed, saved as results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro.io import AbstractDataset

from kedro_lakehouse.datasets.judged import (
    Judgement,
    NothingToJudge,
    Published,
    published,
    read_only,
    record_judgement,
    snapshot_of,
    titles_of,
)
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import QUALITY_RESULTS
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from collections.abc import Mapping


class _SuiteDataset(AbstractDataset[Any, Any]):
    """A dataset that knows its suite's name, and looks the declaration up when it is used."""

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders

    def __init__(self, *, suite: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the name: no declaration is read."""
        self._suite, self.metadata = suite, metadata

    def _describe(self) -> dict[str, Any]:
        return {"filepath": f"ops.{QUALITY_RESULTS}", "suite": self._suite}


class SuiteTablesDataset(_SuiteDataset):
    """The tables of a suite, where one of them changed since the suite was judged last; read-only.

    Example:
        In YAML::

            "ops.{suite}.suite_tables":
              type: kedro_lakehouse.datasets.SuiteTablesDataset
              suite: "{suite}"
    """

    def load(self) -> Mapping[str, Published] | NothingToJudge:
        """Each table by its name, as lazy frames with their facts; starts no Spark job."""
        project = active_project()
        suite = project.declarations.suites[self._suite]
        names = {name: TableName.parse(name) for name in suite.tables}
        snapshots = {text: snapshot_of(project, name) for text, name in names.items()}
        titles = titles_of(suite.expectations)
        if None in snapshots.values() or project.judgements.is_judged(
            self._suite, snapshots_as_text(snapshots), titles
        ):
            return NothingToJudge.HERE
        found = {text: published(project, name) for text, name in names.items()}
        return {text: table for text, table in found.items() if table is not None}

    def save(self, data: object) -> None:
        """Refuse: tables are saved by their events."""
        del data
        raise read_only(f"the tables of the suite {self._suite}")


class SuiteQualityDataset(_SuiteDataset):
    """The judgements of a suite in ``lake.ops.quality_results``: figures, no row values.

    Example:
        In YAML::

            "ops.{suite}.suite_quality":
              type: kedro_lakehouse.datasets.SuiteQualityDataset
              suite: "{suite}"
    """

    def load(self) -> list[dict[str, Any]]:
        """All results of the suite, the newest last."""
        rows = active_project().ops.read(QUALITY_RESULTS)
        return sorted((r for r in rows if r["suite"] == self._suite), key=lambda r: r["judged_at"])

    def save(self, data: Judgement | NothingToJudge) -> None:
        """Write a judgement down, and tell what failed."""
        if isinstance(data, Judgement):
            record_judgement(active_project(), self._suite, data)


def snapshots_as_text(snapshots: Mapping[str, int | None]) -> str:
    """The snapshots of a suite's tables as one text."""
    return ", ".join(f"{name}={snapshots[name]}" for name in sorted(snapshots))
