"""Maintain what is stored of a table: compact files, expire snapshots, archive landed files."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.commits.runner import leases
from kedro_lakehouse.config.maintenance import CompactConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.maintenance import Action, MaintainsTables, MaintenanceReport
from kedro_lakehouse.names import OWN_FORMAT, ROLES, TableName
from kedro_lakehouse.operations.archive import archive_landed
from kedro_lakehouse.operations.lifetimes import move_old_rows
from kedro_lakehouse.operations.published import keep_published
from kedro_lakehouse.ops.retention import TIMES, kept
from kedro_lakehouse.ops.store import MAINTENANCE, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
    from kedro_lakehouse.formats.base import TableFormat
    from kedro_lakehouse.formats.maintenance import Maintenance
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_OWN_FILES: Final = CompactConfig(small_files=100)
_AT_REST: Final = 2
"""So many small files of one partition become one where a table is at rest."""
_LITTLE: Final = 1 / 64
"""Fraction of the target file size (8 MB of 512 MB) below which a file is small then: it is little work."""
_OLD_ENOUGH: Final = 0.1
"""Fraction of a table's rows that must be old before it is written anew without them."""


def maintain_table(
    project: Project,
    table: LakeTable,
    settings: TableMaintenanceConfig | None = None,
    *,
    dry_run: bool = False,
) -> list[MaintenanceReport]:
    """Do what is due for each stored table of a declaration, archive its landed files, and report on each.

    Old rows leave the current table first (``retention`` in tables.yml).

    What is due is decided by ``settings``, or else by maintenance.yml.

    Guarantees:
        Bookmarks and stages stay as they are, and so do rows, but for old ones. Where nothing is due, nothing
        is written, and no JVM starts except for Hudi, whose metadata it reads; a dry run writes nothing.

    Raises:
        CommitConflictError: Other writers were faster until the deadline; what was done by then stays done.
    """
    settings = settings or project.maintenance.of(table.name)
    if not settings.enabled:
        return []
    moved = move_old_rows(table, dry_run=dry_run)
    if moved is not None and not dry_run:
        project.ops.append(MAINTENANCE, [_row(project, moved)])
    with leases(table, *(() if dry_run else ("ingestion", "current", "history", "convert"))):
        stored = [table.name] if table.conversion is not None else [table.stored(role) for role in ROLES]
        if table.declared is not None and not dry_run:
            keep_published(project, table)
        reports = _maintain_all(project, table.format, stored, settings, dry_run=dry_run)
        if table.declared is not None:
            archived = archive_landed(project, table, settings.landing, dry_run=dry_run)
            reports += [archived] if archived else []
    return [*([moved] if moved else []), *reports]


def maintain_at_rest(project: Project, table: LakeTable) -> list[MaintenanceReport]:
    """Maintain a table to which nothing has come for a while: its small files become one a partition.

    Guarantees, errors and reports are those of ``maintain_table``.
    """
    settings = project.maintenance.of(table.name)
    small_below = min(settings.compact.small_below, _LITTLE)
    compact = settings.compact.model_copy(update={"small_files": _AT_REST, "small_below": small_below})
    return maintain_table(project, table, settings.model_copy(update={"compact": compact}))


def maintain_ops(
    project: Project, settings: TableMaintenanceConfig | None = None, *, dry_run: bool = False
) -> list[MaintenanceReport]:
    """Do what is due for the project's own tables, which are Iceberg in every environment.

    Rows that are older than ``ops.keep`` go, once a tenth of a table's rows are. Appends to these tables keep
    the number of files small themselves; the files that they replace are left to maintenance. If Spark lacks
    Iceberg's extensions (beside Hudi's there is no room for them), nothing is done.
    """
    try:
        lake = project.format(OWN_FORMAT)
    except UnsupportedError as reason:
        logger.info("lake.ops is left as it is: %s", reason)
        return []
    reports = _delete_old_rows(project, lake, dry_run=dry_run)
    settings = (settings or project.maintenance).model_copy(update={"compact": _OWN_FILES})
    stored = [TableName.ops(table) for table in SCHEMAS]
    return reports + _maintain_all(project, lake, stored, settings, dry_run=dry_run)


def _delete_old_rows(project: Project, lake: TableFormat, *, dry_run: bool) -> list[MaintenanceReport]:
    """Delete rows of the project's own tables that only tell what happened long ago."""
    keep = project.maintenance.ops.keep
    if keep is None or not isinstance(lake, MaintainsTables):
        return []
    reports, before = [], dt.datetime.now(dt.UTC) - keep
    for table, time in TIMES.items():
        name = TableName.ops(table)
        times = project.ops.arrow(table, time)
        storage = lake.maintenance.storage(name)
        if times is None or storage is None:
            continue
        old = pc.sum(pc.less(times[time], pa.scalar(before, times[time].type))).as_py() or 0
        if not old or old < _OLD_ENOUGH * times.num_rows:
            continue
        action = Action(
            work="delete_old_rows", files=old, bytes=0, reason=f"{old:,} rows from before {before:%Y-%m-%d}"
        )
        report = MaintenanceReport(table=str(name), actions=[action], before=storage, after=storage)
        if not dry_run:
            gone = project.ops.keep(table, partial(kept, table, before=before), since=before)
            if not gone:  # what is old decides something
                continue
            report = dataclasses.replace(report, after=lake.maintenance.storage(name) or storage)
            project.ops.append(MAINTENANCE, [_row(project, report)])
            logger.info("%s: %s rows from before %s are deleted", name, f"{gone:,}", f"{before:%Y-%m-%d}")
        reports.append(report)
    return reports


def _maintain_all(
    project: Project,
    lake: TableFormat,
    stored: Sequence[TableName],
    settings: TableMaintenanceConfig,
    *,
    dry_run: bool,
) -> list[MaintenanceReport]:
    """A report of each stored table that exists; none if the format has no maintenance."""
    if not isinstance(lake, MaintainsTables):
        return []
    found = (_maintain(project, lake.maintenance, table, settings, dry_run=dry_run) for table in stored)
    return [report for report in found if report is not None]


def _maintain(
    project: Project, work: Maintenance, table: TableName, settings: TableMaintenanceConfig, *, dry_run: bool
) -> MaintenanceReport | None:
    before = work.storage(table)
    if before is None:
        return None
    actions = work.plan(table, settings)
    if dry_run or not actions:
        return MaintenanceReport(table=str(table), actions=actions, before=before, after=before)
    for action in actions:
        _perform(project, work, table, action, settings)
    report = MaintenanceReport(
        table=str(table), actions=actions, before=before, after=work.storage(table) or before
    )
    project.ops.append(MAINTENANCE, [_row(project, report)])
    logger.info("%s", summary_line(report))
    return report


def _perform(
    project: Project, work: Maintenance, table: TableName, action: Action, settings: TableMaintenanceConfig
) -> None:
    """Do one due action, again after every lost race: tables without a lease may be written meanwhile."""
    project.patience(table).keep_trying(
        lambda: work.perform(table, action, settings),
        lost=lambda: logger.info("%s: a writer was faster, %s again", table, action.work.replace("_", " ")),
    )


def _row(project: Project, report: MaintenanceReport) -> dict[str, object]:
    figures = {f"{k}_before": v for k, v in asdict(report.before).items()}
    figures |= {f"{k}_after": v for k, v in asdict(report.after).items()}
    return {
        "table": report.table,
        "actions": [action.work for action in report.actions],
        "run_id": project.run_id,
        "maintained_at": dt.datetime.now(dt.UTC),
        **figures,
    }


def summary_line(report: MaintenanceReport) -> str:
    """Format a report as one line: what was done, and the storage before and after."""
    done = ", ".join(action.work.replace("_", " ") for action in report.actions) or "nothing due"
    before, after = report.before, report.after
    return (
        f"{report.table}: {done}; files {before.files + before.delete_files:,} -> "
        f"{after.files + after.delete_files:,}, bytes {before.bytes:,} -> {after.bytes:,}, "
        f"manifests {before.manifests} -> {after.manifests}, "
        f"snapshots {before.snapshots} -> {after.snapshots}"
    )
