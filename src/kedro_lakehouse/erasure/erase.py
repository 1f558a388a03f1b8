"""Erase subjects: their rows from every table, these rows from every file; then look whether all is gone."""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.changes.subjects import hash_of
from kedro_lakehouse.erasure.archived import erase_archived
from kedro_lakehouse.erasure.evidence import Evidence, findings, removals
from kedro_lakehouse.erasure.find_value import places_of
from kedro_lakehouse.erasure.in_place import keeps_earlier_versions
from kedro_lakehouse.erasure.landed import erase_landed, files_of_others
from kedro_lakehouse.erasure.raw_copies import erase_copied
from kedro_lakehouse.erasure.requests import BEGUN, DONE, PENDING, Request, earliest, unfinished_of
from kedro_lakehouse.erasure.rows import Erased, erase_quarantined, erase_rows, rectify_rows
from kedro_lakehouse.erasure.subjects import Concerned, concerned
from kedro_lakehouse.errors import UnknownNameError, counted
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.formats.base import PurgesRows
from kedro_lakehouse.lake_table import erasure_key
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import ERASURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kedro_lakehouse.file_search.search import Searched
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4
_ROLES: Final[tuple[Role, ...]] = ("current", "history", "archive", "changes", "quarantine")


@dataclass(frozen=True, kw_only=True)
class ErasurePlan:
    """What an erasure would remove, and what it cannot reach."""

    removed: tuple[Erased, ...]
    out_of_reach: tuple[str, ...]


def plan_erasure(project: Project, values: Sequence[str], names: Sequence[str] = ()) -> ErasurePlan:
    """Find the rows that an erasure would remove; nothing is written. Starts Spark."""
    tables = concerned(project, values, names)
    removed = [one for table in tables for one in _rows_of(table, dry_run=True)]
    return ErasurePlan(removed=tuple(removed), out_of_reach=tuple(_out_of_reach(project, tables)))


def erase(
    project: Project, values: Sequence[str], names: Sequence[str] = (), *, due: datetime | None = None
) -> Evidence:
    """Erase subjects from all tables with a ``subject``, or from those of ``names``; return the evidence.

    First their keyed hashes are recorded, so that no later event brings them back. Then their events leave
    the change logs, and the targets follow; then the files that held them go, and every file is searched.

    Guarantees:
        Each table changes in one commit, which keeps its bookmark. If this is killed at any point, the same
        call finishes it.

    Raises:
        ConfigurationError: No table has a ``subject``, or there is no key in the credentials.
        CommitConflictError: Other writers won every race until the deadline.
    """
    key = erasure_key(project)
    tables = concerned(project, values, names)
    record = _Record(project, due)
    record.begin(tables, key)
    wanted = Wanted.of(values, [one.column for one in tables if one.direct])
    done = [
        of_one
        for _, group in groupby(tables, key=lambda one: one.turn)
        for of_one in _side_by_side(partial(_erase_one, project, wanted), group)
    ]
    report = search_files(places_of(project), wanted)
    rewritten = sorted({file for one in done for file in one.rewritten})
    arrived, held = _by_time(project, report.found, record.begun_at, rewritten)
    unread = (f"{one.path} cannot be read ({one.problem}): make it readable." for one in report.unread)
    evidence = Evidence(
        erasure=record.erasure,
        erased_at=datetime.now(UTC).isoformat(),
        subjects=tuple(hash_of(key, value) for value in values),
        tables=tuple(str(one.table) for one in tables),
        removed=removals([erased for one in done for erased in one.removed]),
        rewritten=tuple(rewritten),
        places=tuple(report.roots),
        files=report.files,
        read=report.bytes,
        kinds=dict(sorted(report.kinds.items())),
        found=findings(held),
        arrived=findings(arrived),
        unsure=tuple(one.path for one in report.unsure),
        common_values=len(wanted.common),
        pending=(*(line for one in done for line in one.pending), *unread),
        out_of_reach=tuple(_out_of_reach(project, tables)),
    )
    record.end(evidence, key)
    return evidence


@dataclass(frozen=True, kw_only=True)
class _Done:
    """What was done to one table."""

    rewritten: Sequence[str]
    removed: Sequence[Erased]
    pending: Sequence[str]


def _erase_one(project: Project, wanted: Wanted, one: Concerned) -> _Done:
    """Erase from one table's landed files, then its rows, then the files that held them."""
    rewritten = _landed(project, one)
    removed = _rows_of(one, dry_run=False)
    changed = {erased.table for erased in removed}
    stored = [one.table.stored(role) for role in _ROLES]
    stale = [n for n in stored if str(n) in changed or _is_held_by_files(one.table, n, wanted)]
    return _Done(rewritten=rewritten, removed=removed, pending=list(_purge(one.table, stale)))


def _side_by_side(work: Callable[[Concerned], _Done], tables: Iterable[Concerned]) -> list[_Done]:
    """Do work for several tables at once: each waits for Spark's driver most of the time."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="erase") as pool:
        begun = [pool.submit(copy_context().run, work, one) for one in tables]
        return [one.result() for one in begun]


def erase_requested(project: Project, table: LakeTable, requests: Sequence[Request]) -> Evidence | None:
    """Erase the subjects of requests, which are rows of a table; None if there is nothing to do.

    The requests go with the subjects, last of all. Where an earlier call was killed after they were gone and
    before every file was searched, nobody knows any more what to look for: then the deleted rows go from the
    files, and the record says that no search proves it.

    Raises:
        ConfigurationError: There is no key in the credentials.
        CommitConflictError: Other writers won every race until the deadline.
    """
    if requests:
        due = earliest(request.due for request in requests)
        return erase(project, sorted({request.subject for request in requests}), due=due)
    unproved = unfinished_of(project.ops, str(table))
    if not unproved:
        return None
    key, record = erasure_key(project), _Record(project, None)
    tables = [project.bind(name) for name, one in project.declarations.tables.items() if one.subject]
    left = [line for one in tables for line in _purge(one, map(one.stored, _ROLES))]
    evidence = Evidence.unproved(record.erasure, unproved, map(str, tables), left)
    record.end(evidence, key)
    return evidence


def rectify(
    project: Project,
    values: Sequence[str],
    right: Mapping[str, str],
    names: Sequence[str] = (),
    *,
    dry_run: bool = False,
) -> list[Erased]:
    """Give columns of subjects' rows their right values in all versions; remove the former ones from files.

    A table without a column is not changed by its value. Landed files and quarantine are not changed: a
    rebuild from landed files brings the former values back.

    Returns:
        For each stored table how many rows are other ones than before.

    Raises:
        UnknownNameError: No table concerned has a column of that name.
        CommitConflictError: Other writers won every race until the deadline.
    """
    tables = concerned(project, values, names)
    held = {name for one in tables if (state := one.table.state("changes")) for name in state.columns}
    if tables and (unknown := sorted(set(right) - held)):
        raise UnknownNameError(
            option="--set",
            kind="column of these tables",
            name=unknown[0],
            known=sorted(held),
            remedy="Name a column of a table with a `subject`.",
        )
    changed: list[Erased] = []
    for one in tables:
        state = one.table.state("changes")
        own = {name: text for name, text in right.items() if state is not None and name in state.columns}
        found = rectify_rows(one.table, one.column, one.values, own, dry_run=dry_run) if own else []
        changed += found
        if found and not dry_run:
            changed_names = [TableName(*of.table.split(".")) for of in found]
            for line in _purge(one.table, changed_names):
                logger.warning("%s", line)
    return changed


def _rows_of(one: Concerned, *, dry_run: bool) -> list[Erased]:
    """Remove the rows of one table, and the records in its quarantine."""
    found = erase_rows(one.table, one.column, one.values, dry_run=dry_run)
    wanted = Wanted.of(one.values, [one.column])
    found += erase_quarantined(one.table, wanted, dry_run=dry_run)
    for erased in found if not dry_run else ():
        logger.info("%s: %s erased", erased.table, counted(erased.removed, "row"))
    return found


def _landed(project: Project, one: Concerned) -> list[str]:
    """Remove the records of landed, archived and copied files that name subjects; the changed files."""
    if one.table.config.source is None:
        return []
    declared = project.declarations.tables.items()
    every = [(project.bind(n), t.subject.column if t.subject else None) for n, t in declared]
    leave = files_of_others(one.table, one.column, every)
    wanted = Wanted.of(one.values, [one.column])
    changed = erase_landed(one.table, one.column, wanted, leave=leave)
    changed += erase_copied(one.table, one.column, wanted)
    archive = project.maintenance.of(one.table).landing.archive
    return changed + erase_archived(one.table, archive, one.column, wanted, leave=leave)


def _is_held_by_files(table: LakeTable, name: TableName, wanted: Wanted) -> bool:
    """Whether files of a stored table hold a subject, although no row does: an erasure was interrupted."""
    folder = f"{table.environment.lakehouse}/warehouse/{name.namespace}/{name.table}"
    return bool(search_files([folder], wanted).found)


def _by_time(
    project: Project, found: Iterable[Searched], begun_at: datetime, rewritten: Iterable[str]
) -> tuple[list[Searched], list[Searched]]:
    """The files that landed after an erasure had begun, whose events are refused or are new; the others.

    Args:
        rewritten: The files that the erasure changed: an object store gives each the time of that.
    """
    sources = project.declarations.sources.values()
    paths = [path for source in sources if (path := getattr(source, "path", ""))]  # a stream has none
    landing = tuple(f"{path.removeprefix('file://').rstrip('/')}/" for path in paths)
    own = {path.removeprefix("file://") for path in rewritten}
    arrived: list[Searched] = []
    held: list[Searched] = []
    for one in found:
        is_later = one.written_at is not None and one.written_at > begun_at and one.path not in own
        (arrived if is_later and one.path.startswith(landing) else held).append(one)
    return arrived, held


def _purge(table: LakeTable, names: Iterable[TableName]) -> Iterable[str]:
    """Make the deleted rows of stored tables go from their files; what stays, a sentence each."""
    before = datetime.now(UTC)
    for name in names:
        if table.format.state(name) is None:
            continue
        if not isinstance(table.format, PurgesRows):
            yield f"{name}: the format {table.format.name} cannot remove deleted rows from its files."
            continue
        yield from table.patience().keep_trying(partial(table.format.purge, name, before=before))


def _out_of_reach(project: Project, tables: Sequence[Concerned]) -> Iterable[str]:
    """Copies that no erasure here can reach, and what to do about them."""
    for one in tables:
        if (source := one.table.config.source) is not None:
            yield (
                f"{one.table}: source {source}. Erase the subject there too, or its next extract or message "
                "brings the person back; with `after_erasure: refuse` it is refused."
            )
    made = {
        str(name)
        for one in tables
        for name in project.declarations.made_from(one.table.name)
        if project.table(TableName.parse(name)).subject is None
    }
    for name in sorted(made):
        yield f"{name}: made from these tables, and declares no `subject`: its change log keeps what it held."
    yield from _in_earlier_versions(project)
    yield "Backups and exports outside the lakehouse: erase them by their own rules."


def _in_earlier_versions(project: Project) -> Iterable[str]:
    """The buckets that keep what was replaced or deleted in them."""
    places = (place.removeprefix("s3://") for place in places_of(project) if place.startswith("s3://"))
    for bucket in sorted({place.partition("/")[0] for place in places}):
        keeps = keeps_earlier_versions(bucket)
        if keeps is None:
            yield f"Bucket {bucket}: this role may not ask whether it keeps earlier versions of objects."
        elif keeps:
            yield f"Bucket {bucket}: keeps earlier versions of objects: delete them, or let them expire."


class _Record:
    """The rows of ``lake.ops.erasures`` about one erasure."""

    def __init__(self, project: Project, due: datetime | None) -> None:
        self.erasure = uuid.uuid4().hex[:12]
        self._project, self._due = project, due
        self.begun_at = datetime.now(UTC)

    def begin(self, tables: Sequence[Concerned], key: bytes) -> None:
        """Record which subjects the tables refuse from now on, in one commit."""
        rows = [
            self._row(BEGUN) | {"table": str(one.table), "subject": hash_of(key, value)}
            for one in tables
            for value in one.values
        ]
        self._project.ops.append(ERASURES, rows, unless=("table", "subject"))

    def end(self, evidence: Evidence, key: bytes) -> None:
        """Record what was done."""
        facts = {
            "rows": sum(one["removed"] for one in evidence.removed),
            "files": evidence.files,
            "bytes": evidence.read,
            "found": len(evidence.found),
            "pending": list(evidence.pending),
            "evidence": evidence.text(),
            "signature": evidence.signed(key)["signature"],
        }
        self._project.ops.append(ERASURES, [self._row(DONE if evidence.is_done else PENDING) | facts])

    def _row(self, status: str) -> dict[str, Any]:
        return {
            "erasure": self.erasure,
            "status": status,
            "due": self._due,
            "run_id": self._project.run_id,
            "recorded_at": datetime.now(UTC),
        }
