"""Plan a run: what the next `kedro run` does for each table, and what waits for other commands."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.erasure.requests import DONE, earliest, known_erasures
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.monitoring.table_status import LakeFacts
from kedro_lakehouse.names import TableName, is_within
from kedro_lakehouse.preview.upcoming import NextBatch, Upcoming, upcoming
from kedro_lakehouse.pulls.names import time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

_AT_ONCE: Final = 4


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What the next run does for one table.

    ``becomes``: "batches", "pull", "computed" (a derived table), "behind" (targets that lack batches),
    "repaired", "fails", "waits" (a table that it needs holds nothing), or "nothing".
    """

    table: str
    becomes: str
    because: tuple[str, ...]
    """The tables whose changes it follows."""
    upcoming: Upcoming
    dependents: tuple[str, ...]
    """The tables that are made from it, or looked up in it."""
    running: bool = False
    """Whether another run works on it now."""

    def facts(self) -> dict[str, Any]:
        """The same for programs."""
        own = self.upcoming
        pull = own.pull
        return {
            "table": self.table,
            "becomes": self.becomes,
            "batches": [_facts_of(batch) for batch in own.batches],
            "files": sum(len(batch.files) for batch in own.batches),
            "bytes": self.bytes,
            "rows": own.rows,
            "records": own.waiting.records if own.waiting else None,
            "waiting_seconds": own.waiting.seconds if own.waiting else None,
            "pull": pull
            and {
                "due": pull.is_due,
                "due_at": pull.due_at,
                "last": pull.last
                and {"number": pull.last.number, "rows": pull.last.rows, "to": pull.last.to},
            },
            "new_columns": dict(own.new_columns),
            "wider_columns": dict(own.wider_columns),
            "refused": [vars(one) for one in own.refused],
            "without_rows": list(own.silent),
            "behind": list(own.behind),
            "repaired": own.repairs,
            "waits_for": list(own.waits_for),
            "because": list(self.because),
            "dependents": list(self.dependents),
            "replay_begun": own.replay,
            "running": self.running,
            "error": own.error and {"code": own.error.code, "message": str(own.error)},
        }

    @property
    def bytes(self) -> int:
        """The bytes of the files, or about those of a stream's records."""
        waiting = self.upcoming.waiting
        return waiting.bytes if waiting else sum(f.size for b in self.upcoming.batches for f in b.files)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What the next run does, and what other commands have to do."""

    environment: str
    tables: Sequence[TablePlan]
    erasures: Sequence[Mapping[str, Any]] = ()
    """Open requests by table, and erasures that were begun and not ended."""
    grants: Mapping[str, Any] | None = None
    """What `kedro lakehouse grants apply` would change; None without roles, or where nobody asked."""
    notes: Sequence[str] = field(default=())


def plan_run(project: Project, namespaces: Collection[str] = (), *, grants: bool = True) -> RunPlan:
    """What the next run does, of all tables or of those in some namespaces; nothing is written.

    Args:
        project: The project.
        namespaces: Names of tables, or of namespaces; none: all.
        grants: Whether AWS is asked for rights, where tables are in Glue and grants.yml has roles.
    """
    names = [name for name in project.declarations.tables if _is_in(str(name), namespaces)]
    with project.catalog.listed(), ThreadPoolExecutor(_AT_ONCE) as pool:
        found = {one.table: one for one in pool.map(upcoming, [project.bind(name) for name in names])}
        running = LakeFacts(project).running
        becomes = _Effects(project, found)
        tables = [
            TablePlan(
                table=table,
                becomes=becomes.of(table),
                because=becomes.causes(table),
                upcoming=becomes.completed(table),
                dependents=tuple(project.declarations.made_from(TableName.parse(table))),
                running=table in running,
            )
            for table in sorted(found)
        ]
        return RunPlan(
            environment=project.env,
            tables=tables,
            erasures=_erasures(project, names),
            grants=_grants(project) if grants else None,
        )


def _is_in(table: str, spaces: Collection[str]) -> bool:
    return not spaces or any(is_within(table, space) for space in spaces)


class _Effects:
    """What a run does for a table because of what it does for others before it."""

    def __init__(self, project: Project, found: Mapping[str, Upcoming]) -> None:
        self._project, self._found = project, found
        self._becomes: dict[str, str] = {}

    def of(self, table: str) -> str:
        """What becomes of a table: see ``TablePlan``."""
        if table not in self._becomes:
            self._becomes[table] = self._of(table)
        return self._becomes[table]

    def _of(self, table: str) -> str:  # noqa: PLR0911 - a table of cases
        own, config = self._found[table], self._project.table(TableName.parse(table))
        if own.waits_for and self._lacking(table):
            return "waits"
        if own.error is not None and not own.batches:
            return "fails"
        if config.derive is not None and (own.batches or self.causes(table)):
            return "waits" if self._lacking(table) else "computed"
        if own.batches:
            return "batches"
        if own.pull is not None and own.pull.is_due:
            return "pull"
        if own.published and self._is_repaired(table, own):
            return "repaired"
        return "behind" if own.behind else "nothing"

    def causes(self, table: str) -> tuple[str, ...]:
        """The tables that change in the same run, and that this one is made from."""
        config = self._project.table(TableName.parse(table))
        if config.derive is None and not config.repairs_rows:
            return ()
        return tuple(one for one in config.tables_read if self._changes(one))

    def completed(self, table: str) -> Upcoming:
        """What comes for a table, with the batch of a derived one that follows from its inputs."""
        own, becomes = self._found[table], self.of(table)
        if becomes == "waits":
            return replace(own, batches=[], rows=None, error=None, waits_for=tuple(self._lacking(table)))
        if becomes == "computed" and self.causes(table) and all(one.is_unfinished for one in own.batches):
            # An unfinished batch is finished from the inputs as they were; what they become is another one.
            next_one = NextBatch(number=own.published + len(own.batches) + 1)
            return replace(own, batches=[*own.batches, next_one])
        if own.published and self._is_repaired(table, own):
            repair = NextBatch(number=own.published + 1, is_repair=True)
            later = [replace(one, number=one.number + 1, is_unfinished=False) for one in own.batches]
            return replace(own, batches=[repair, *later], repairs=True, waits_for=())
        return replace(own, waits_for=())

    def _is_repaired(self, table: str, own: Upcoming) -> bool:
        """Whether rows follow a reference that has changed, or changes in the same run."""
        follows = self._project.table(TableName.parse(table)).repairs_rows
        return own.repairs or (follows and bool(self.causes(table)))

    def _changes(self, table: str) -> bool:
        if table not in self._found or self.of(table) in ("nothing", "fails", "waits"):
            return False
        state = self._project.bind(TableName.parse(table)).state("current")
        return state is None or not state.is_held  # what a rollback holds does not change

    def _lacking(self, table: str) -> list[str]:
        """The tables that this one needs, that hold nothing, and into which nothing comes."""
        return [one for one in self._project.table(TableName.parse(table)).tables_read if self._is_empty(one)]

    def _is_empty(self, table: str) -> bool:
        return (
            not self._changes(table) and self._project.bind(TableName.parse(table)).state("current") is None
        )


def _facts_of(batch: NextBatch) -> dict[str, Any]:
    return {
        "number": batch.number,
        "files": [file.name for file in batch.files],
        "bytes": sum(file.size for file in batch.files),
        "unfinished": batch.is_unfinished,
        "repair": batch.is_repair,
    }


def _erasures(project: Project, names: Sequence[TableName]) -> list[dict[str, Any]]:
    """The requests in tables with ``erasure_requests``, and the erasures that are not done."""
    asked = [_requests(project.bind(n)) for n in names if project.table(n).erasure_requests]
    now = datetime.now(UTC)
    return [
        *(one for one in asked if one["requests"]),
        *(
            {"erasure": one.erasure, "status": one.status, "late": one.is_late(now), "due": one.due}
            for one in known_erasures(project.ops)
            if one.status != DONE
        ),
    ]


def _requests(table: LakeTable) -> dict[str, Any]:
    """How many rows of a table of requests name a person, and when the first is due.

    Of tables that only a JVM reads these are all rows, and no time is known.
    """
    found: dict[str, Any] = {"table": str(table), "requests": 0, "due": None}
    try:
        state, subject = table.state("current"), table.config.subject
    except LakehouseError:
        return found  # the plan of the table says what is wrong with it
    asks = table.config.erasure_requests
    if state is None or not state.rows or subject is None or asks is None:
        return found
    if not table.in_catalog or (stored := table.environment.catalog.find(table.name)) is None:
        return found | {"requests": state.rows}
    from pyiceberg.expressions import NotNull

    named: Any = NotNull
    columns = (subject.column, asks.due) if asks.due else (subject.column,)
    rows = stored.scan(row_filter=named(subject.column), selected_fields=columns).to_arrow()
    times = rows[asks.due].to_pylist() if asks.due else []
    return found | {"requests": rows.num_rows, "due": earliest(map(_moment, times))}


def _moment(value: object) -> datetime | None:
    """A time until which a request is to be met; None where only Spark could read it."""
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str):
        return None
    try:
        return time_of(text)
    except ValueError:
        return None


def _grants(project: Project) -> dict[str, Any] | None:
    if not project.grants.roles or not project.catalog.is_glue:
        return None
    from kedro_lakehouse.grants.lake_formation import LakeFormation

    try:
        plan = LakeFormation(project).plan()
    except LakehouseError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return {"steps": [step.words for step in plan.steps], "absent": list(plan.absent)}
