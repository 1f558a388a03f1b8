"""Quality as datasets: tables to validate, the results, and how old a table's last commit is."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro.io import AbstractDataset

from kedro_lakehouse.commits.published import (
    NothingToValidate,
    Published,
    ValidationPlan,
    published,
    snapshots_as_text,
    titles_of,
    validate,
)
from kedro_lakehouse.datasets.base import DeclaredDataset, ReadOnlyDataset
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import ALERTS, QUALITY_RESULTS
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.quality.results import Result

logger = logging.getLogger(__name__)

_KIND: Final = "freshness"
FRESH, STALE = "fresh", "stale"


class UnvalidatedDataset(DeclaredDataset, ReadOnlyDataset):
    """The published table, if it or its expectations changed since the last validation; read-only.

    Example:
        In YAML::

            "{namespace}.{table}.unjudged":
              type: kedro_lakehouse.datasets.UnvalidatedDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "unjudged"
    _itself: ClassVar[str] = "the table {}, to be validated"

    def load(self) -> Published | NothingToValidate:
        """The table as a lazy frame with its facts; starts no Spark job."""
        found, titles = published(self.table), titles_of(self.table.config.expectations)
        if found is None or found.snapshot is None:
            return NothingToValidate.HERE
        done = self.project.validations.is_validated(found.name, str(found.snapshot), titles)
        return NothingToValidate.HERE if done else found


class QualityDataset(DeclaredDataset):
    """The validations of a table in ``lake.ops.quality_results``: figures, no row values.

    Example:
        In YAML::

            "{namespace}.{table}.quality":
              type: kedro_lakehouse.datasets.QualityDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "quality"

    def load(self) -> list[dict[str, Any]]:
        """All results of the table, the newest last."""
        rows = self.project.ops.read(QUALITY_RESULTS, of_table=str(self._name))
        return sorted((r for r in rows if r["suite"] == str(self._name)), key=lambda r: r["judged_at"])

    def save(self, data: ValidationPlan | NothingToValidate) -> None:
        """Validate a table that changed since the last time, and report what failed."""
        _save(str(self._name), data)


class LastCommitAgeDataset(DeclaredDataset, ReadOnlyDataset):
    """The age of a table's last commit, in seconds, from metadata alone; read-only.

    Example:
        In YAML::

            "{namespace}.{table}.age":
              type: kedro_lakehouse.datasets.LastCommitAgeDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "age"
    _itself: ClassVar[str] = "the age of {}"

    def load(self) -> float | None:
        """Seconds since the last commit; None where nothing was ever committed."""
        found = published(self.table)
        return found.age if found else None


class FreshnessDataset(DeclaredDataset):
    """The freshness of a table in ``lake.ops.alerts``: one row for each change between fresh and stale.

    Example:
        In YAML::

            "{namespace}.{table}.freshness":
              type: kedro_lakehouse.datasets.FreshnessDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "freshness"

    def load(self) -> dict[str, str]:
        """The last state of each expectation, of this table and of others: fresh | stale."""
        rows = self.project.ops.read(ALERTS)
        alerts = sorted((r for r in rows if r["kind"] == _KIND), key=lambda r: r["told_at"])
        return {r["subject"]: r["state"] for r in alerts}

    def save(self, data: Sequence[Result]) -> None:
        """Record each change of state; a table without rows in ``lake.ops.alerts`` counts as fresh."""
        known, changed = self.load(), list[dict[str, Any]]()
        for result in data:
            subject, state = f"{self._name}: {result.expectation.title}", FRESH if result.success else STALE
            if known.get(subject, FRESH) == state:
                continue
            detail = f"the last commit is {result.observed or 0:.0f} s old"
            logger.warning("%s is %s: %s", self._name, state, detail)
            changed.append(
                {
                    "kind": _KIND,
                    "subject": subject,
                    "state": state,
                    "message": detail,
                    "run_id": self.project.run_id,
                    "told_at": datetime.now(UTC),
                }
            )
        if changed:
            self.project.ops.append(ALERTS, changed)


class _SuiteDataset(AbstractDataset[Any, Any]):
    """A dataset that knows its suite's name, and looks the declaration up when it is used."""

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders

    def __init__(self, *, suite: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the name: no declaration is read."""
        self._name, self.metadata = suite, metadata

    def _describe(self) -> dict[str, Any]:
        return {"filepath": f"ops.{QUALITY_RESULTS}", "suite": self._name}


class SuiteTablesDataset(_SuiteDataset, ReadOnlyDataset):
    """The tables of a suite, if one of them or the suite changed since the last validation; read-only.

    Example:
        In YAML::

            "ops.{suite}.suite_tables":
              type: kedro_lakehouse.datasets.SuiteTablesDataset
              suite: "{suite}"
    """

    _itself: ClassVar[str] = "the tables of the suite {}"

    def load(self) -> Mapping[str, Published] | NothingToValidate:
        """Each table by its name, as lazy frames with their facts; starts no Spark job."""
        project = active_project()
        suite = project.declarations.suites[self._name]
        tables = [published(project.bind(TableName.parse(text))) for text in suite.tables]
        found = {table.name: table for table in tables if table and table.snapshot is not None}
        done = project.validations.is_validated(
            self._name, snapshots_as_text(found.values()), titles_of(suite.expectations)
        )
        return NothingToValidate.HERE if done or len(found) < len(tables) else found


class SuiteQualityDataset(_SuiteDataset):
    """The validations of a suite in ``lake.ops.quality_results``: figures, no row values.

    Example:
        In YAML::

            "ops.{suite}.suite_quality":
              type: kedro_lakehouse.datasets.SuiteQualityDataset
              suite: "{suite}"
    """

    def load(self) -> list[dict[str, Any]]:
        """All results of the suite, the newest last."""
        rows = active_project().ops.read(QUALITY_RESULTS)
        return sorted((r for r in rows if r["suite"] == self._name), key=lambda r: r["judged_at"])

    def save(self, data: ValidationPlan | NothingToValidate) -> None:
        """Validate tables of which one changed since the last time, and report what failed."""
        _save(self._name, data)


def _save(suite: str, data: ValidationPlan | NothingToValidate) -> None:
    if isinstance(data, ValidationPlan):
        validate(active_project(), suite, data)
