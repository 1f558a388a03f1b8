"""Discovery as datasets: what lies in the places, what was known of it, and what is done about changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro.io import AbstractDataset

from kedro_lakehouse.datasets.base import ReadOnlyDataset
from kedro_lakehouse.errors import ConfigurationError, DiscoveryChangedError, counted
from kedro_lakehouse.notifiers.base import AlertState
from kedro_lakehouse.ops.store import DISCOVERED
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.discovery.changes import Change, Comparison, FoundVersion
    from kedro_lakehouse.discovery.found import FoundDataset
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_FILE: Final = "discovery.yml"


def _newest(project: Project) -> list[FoundVersion]:
    """The newest version of each dataset ever found in places; `kedro lakehouse crawl` finds others.

    What reads it is imported only where it is wanted.
    """
    from kedro_lakehouse.discovery.found import CRAWLED
    from kedro_lakehouse.discovery.versions import newest_versions

    return [one for one in newest_versions(project.ops) if one.dataset.kind not in CRAWLED]


class FoundDatasetsDataset(ReadOnlyDataset):
    """Every dataset that lies in the places of discovery.yml now; read-only.

    Example:
        In YAML::

            "ops.found_datasets":
              type: kedro_lakehouse.datasets.FoundDatasetsDataset
    """

    _itself: ClassVar[str] = "what lies in the places of discovery"

    def load(self) -> list[FoundDataset]:
        """Look over all places; data of what did not change since the last look is not read. No JVM.

        Raises:
            ConfigurationError: discovery.yml names no place.
            SourceNotFoundError: A place is not there.
            UnsupportedError: A table of Delta was found, and the package deltalake is not installed.
        """
        from kedro_lakehouse.discovery.look import look_over

        project = active_project()
        if not project.discovery.places:
            raise ConfigurationError(
                file=_FILE,
                key="places",
                problem="no place is named.",
                remedy="Write for example `places: [{path: data/01_raw}]` into conf/base/discovery.yml.",
            )
        present = [one.dataset for one in _newest(project) if one.status == "present"]
        known = {(one.location, one.pattern): one for one in present}
        found = look_over(project.discovery.places, known, project.credentials, apart=project.lakehouse)
        logger.info("Found %s.", counted(len(found), "dataset"))
        return found

    def _describe(self) -> dict[str, Any]:
        return {"filepath": _FILE}


class KnownDatasetsDataset(ReadOnlyDataset):
    """The newest version of each dataset in ``lake.ops.discovered``; read-only.

    Example:
        In YAML::

            "ops.known_datasets":
              type: kedro_lakehouse.datasets.KnownDatasetsDataset
    """

    _itself: ClassVar[str] = "what was known of the places of discovery"

    def load(self) -> list[FoundVersion]:
        """The newest versions, by name; also of datasets that are gone."""
        return _newest(active_project())

    def _describe(self) -> dict[str, Any]:
        return {"filepath": f"ops.{DISCOVERED}"}


class DiscoveredDataset(AbstractDataset[Any, Any]):
    """The versions of discovered datasets, ``lake.ops.discovered``.

    Example:
        In YAML::

            "ops.discovered":
              type: kedro_lakehouse.datasets.DiscoveredDataset
    """

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> list[FoundVersion]:
        """The newest versions, by name."""
        return _newest(active_project())

    def save(self, data: Comparison) -> None:
        """Add the versions that are new, in one commit; nothing is written where nothing changed."""
        from kedro_lakehouse.discovery.versions import record_versions

        project = active_project()
        record_versions(project.ops, data.versions, project.run_id)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": f"ops.{DISCOVERED}"}


class RegisteredTablesDataset(AbstractDataset[Any, Any]):
    """The discovered tables of Iceberg that the lake's catalog names; saving registers them.

    Example:
        In YAML::

            "ops.registered_tables":
              type: kedro_lakehouse.datasets.RegisteredTablesDataset
    """

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> list[str]:
        """The names of discovered tables that the lake's catalog names."""
        project = active_project()
        names = {one.dataset.name for one in _newest(project) if one.dataset.kind == "iceberg"}
        return sorted(names & {".".join(identifier) for identifier in project.catalog.all_tables()})

    def save(self, data: Mapping[str, str]) -> None:
        """Register tables by their files of metadata.

        Raises:
            ConfigurationError: A name is that of another table of the lake.
        """
        from kedro_lakehouse.discovery.register import register_tables

        project = active_project()
        register_tables(project.catalog, data, project.all_tables)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": "lake.*.*"}


class DiscoveryReportDataset(AbstractDataset[Any, Any]):
    """What is done about changes, by ``on_change`` of discovery.yml.

    Example:
        In YAML::

            "ops.discovery_report":
              type: kedro_lakehouse.datasets.DiscoveryReportDataset
    """

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> list[str]:
        """What changed when each dataset that is there was last found to have changed."""
        versions = _newest(active_project())
        return [f"{one.dataset.name}: {words}" for one in versions for words in one.changes]

    def save(self, data: Sequence[Change]) -> None:
        """Log each change; notify or fail where that is declared. The changes are recorded already.

        Raises:
            DiscoveryChangedError: Something changed, and ``on_change`` is ``fail``.
        """
        project = active_project()
        for change in data:
            logger.warning("%s: %s", change.table, change.words)
        if not data:
            return
        if project.discovery.on_change == "fail":
            raise DiscoveryChangedError(changes=[f"{change.table}: {change.words}" for change in data])
        if project.discovery.on_change == "notify":
            project.alerts += _alerts(data, project.run_id)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": _FILE}


def _alerts(changes: Sequence[Change], run_id: str) -> list[AlertState]:
    """One state for each table, about this run alone: a later change of the table is another one."""
    by_table: dict[str, list[str]] = {}
    for change in changes:
        by_table.setdefault(change.table, []).append(change.words)
    return [
        AlertState(
            kind="discovery",
            subject=f"{table} in {run_id}",
            raised=True,
            code=DiscoveryChangedError.code,
            message=f"{'; '.join(words)}.",
        )
        for table, words in by_table.items()
    ]
