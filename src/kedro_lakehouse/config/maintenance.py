"""Declarations of maintenance.yml: from which figures on a table's files are put in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.lifetimes import LakehouseLifetimes
from kedro_lakehouse.config.loading import entries, refuse_undeclared
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.errors import ConfigurationError

MAINTENANCE_FILE: Final = "maintenance.yml"
_ORPHAN_FLOOR: Final = dt.timedelta(days=1)
_EXPIRY_FLOOR: Final = dt.timedelta(hours=1)
_KEEP_FLOOR: Final = dt.timedelta(days=1)


def _not_below(floor: dt.timedelta, what: str) -> AfterValidator:
    def check(value: dt.timedelta) -> dt.timedelta:
        if value < floor:
            least = "1 day" if floor.days else "1 hour"
            raise refuse(f"the duration is below {least}: {what}", f"Write '{least}' or more.")
        return value

    return AfterValidator(check)


class CompactConfig(Declaration):
    """When small files, and files of which many rows are deleted, are written anew."""

    small_files: int = Field(5, ge=2)
    """So many small files of one partition become fewer."""
    small_below: float = Field(0.75, gt=0, le=1)
    """Fraction of the table's target file size below which a file is small."""
    deleted_fraction: float = Field(0.1, gt=0, le=1)
    """A file of which such a fraction of rows is deleted is written anew."""
    strategy: Literal["auto", "binpack", "sort"] = "auto"
    """Whether rows are sorted anew: `auto` does so where the table has an order."""


class ManifestsConfig(Declaration):
    """When the lists of a table's files are merged."""

    at_least: int = Field(20, ge=2)
    """So many manifests become fewer, where they are small."""


class ExpireConfig(Declaration):
    """Which snapshots a table loses, and with them the files that no other snapshot has."""

    older_than: Annotated[Duration, _not_below(_EXPIRY_FLOOR, "readers may still be at work on it")] = (
        dt.timedelta(days=7)
    )
    """Snapshots go that are older; tagged ones stay."""
    keep: int = Field(20, ge=1)
    """So many newest snapshots stay, however old."""
    most: int = Field(200, ge=2)
    """A table with more snapshots loses its oldest down to half of these, but none younger than 5 minutes:
    each commit reads and writes a list of all snapshots.
    """


class OrphansConfig(Declaration):
    """Which files are deleted that no snapshot has."""

    older_than: Annotated[
        Duration, _not_below(_ORPHAN_FLOOR, "a writer may still be about to commit its files")
    ] = dt.timedelta(days=3)
    """Files go that are older, and in no snapshot."""


class LandingConfig(Declaration):
    """What becomes of landed files that are in the change log."""

    archive: Name | None = None
    """Folder that they are moved to, outside of every source; default: they stay."""
    older_than: Duration = dt.timedelta(days=1)
    """Files are moved that are older."""
    bundle_below: int = Field(1_048_576, ge=0)
    """Files of fewer bytes become one `.tar.gz` a run, with their names and times; 0: none."""


class OpsConfig(Declaration):
    """How long the project's own tables, `lake.ops`, tell what happened."""

    keep: Annotated[Duration, _not_below(_KEEP_FLOOR, "commands show what happened in it")] | None = None
    """Rows about commits, runs, alerts, results of expectations and maintenance go that are older; default:
    they stay for ever. What decides something stays: plans, decisions, open failures, last states.
    """


class TableMaintenanceConfig(Declaration):
    """The thresholds of one table."""

    enabled: bool = True
    """Whether the table is maintained at all."""
    compact: CompactConfig = CompactConfig()
    """Small files, and deleted rows."""
    manifests: ManifestsConfig = ManifestsConfig()
    """Lists of files."""
    expire: ExpireConfig = ExpireConfig()
    """Old snapshots."""
    orphans: OrphansConfig = OrphansConfig()
    """Files of no snapshot."""
    landing: LandingConfig = LandingConfig()
    """Landed files that were ingested."""


class MaintenanceConfig(TableMaintenanceConfig):
    """All of maintenance.yml: the thresholds of every table, and what differs for some."""

    lifetimes: LakehouseLifetimes = LakehouseLifetimes()
    """How long S3 keeps what lies beside the tables."""

    ops: OpsConfig = OpsConfig()
    """The project's own tables."""
    tables: Mapping[Name, TableMaintenanceConfig] = {}
    """What differs for single tables, as {namespace.table: {the same keys}}."""

    def of(self, table: object) -> TableMaintenanceConfig:
        """The thresholds of one declared table."""
        return self.tables.get(str(table), self)


def load_maintenance(raw: Mapping[str, Any], tables: Collection[str]) -> MaintenanceConfig:
    """Return the checked content of a merged maintenance.yml; an empty one gives the defaults.

    Args:
        raw: What the file says, merged over the environments.
        tables: The names of the declared tables.

    Raises:
        ConfigurationError: Something is wrong in the file; the first such key is named.
    """
    given = entries({"": raw}, MAINTENANCE_FILE)[""]
    differing = entries(given.pop("tables", {}), MAINTENANCE_FILE)
    general = validated(MaintenanceConfig, given, MAINTENANCE_FILE, "")
    refuse_undeclared(differing, tables, file=MAINTENANCE_FILE, key="tables", remedy="Use a declared table.")
    of_tables = {key: value for key, value in given.items() if key not in ("ops", "lifetimes")}
    merged = {
        name: validated(TableMaintenanceConfig, _over(of_tables, own), MAINTENANCE_FILE, f"tables.{name}")
        for name, own in differing.items()
    }
    keep = general.ops.keep
    for name, one in {"": general, **merged}.items():
        if keep is not None and keep < one.expire.older_than:
            where = f"tables.{name}.expire.older_than" if name else "expire.older_than"
            raise ConfigurationError(
                file=MAINTENANCE_FILE,
                key="ops.keep",
                problem=f"it is shorter than {where}: a rollback finds a state by the row of its commit.",
                remedy="Keep rows at least as long as snapshots.",
            )
    return general.model_copy(update={"tables": merged})


def _over(general: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A table's own keys over those of all tables."""
    merged = dict(general)
    for key, value in own.items():
        beneath = merged.get(key)
        both = isinstance(value, dict) and isinstance(beneath, dict)
        merged[key] = {**beneath, **value} if both else value  # type: ignore[dict-item]
    return merged
