"""The commits of an erasure or rectification: to a table's targets, its change log, its quarantine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    BATCH,
    OP,
    ORDER,
    POSITION,
    RAW,
    TRUNCATE,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.plan import first_rows, identity_columns
from kedro_lakehouse.changes.subjects import SUBJECT, keys_of_subjects, rectified, without_subjects
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.commits.excluded import accepted_events
from kedro_lakehouse.commits.fold_frames import declares
from kedro_lakehouse.commits.marks import last_move
from kedro_lakehouse.errors import (
    CommitConflictError,
    IncompatibleTypeError,
    MissingColumnError,
    UnsupportedError,
)
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.file_search.wanted import Wanted
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport

_STEPS: Final = ("ingestion", "current", "history")


@dataclass(frozen=True, kw_only=True)
class Erased:
    """How many rows an erasure takes from a stored table."""

    table: str
    removed: int


def subjects_frame(table: LakeTable, stored: TableName, name: str, values: Sequence[str]) -> DataFrame:
    """Subjects in the type of the column that names them. The values are in no plan's text.

    Raises:
        MissingColumnError: The stored table has no such column.
        IncompatibleTypeError: A value is none of the column's type.
    """
    state = table.format.state(stored)
    kinds = state.columns if state else {}
    if name not in kinds:
        raise MissingColumnError(table=stored, missing=[name], found=list(kinds), place="`subject`")
    text = table.session.createDataFrame([(value,) for value in values], f"{SUBJECT} string")
    kind = kinds[name].simpleString()
    typed = text.select(F.expr(f"try_cast({SUBJECT} AS {kind})").alias(SUBJECT))
    if any(row[SUBJECT] is None for row in typed.collect()):
        raise IncompatibleTypeError(
            table=stored, column=name, existing=kind, incoming="another text", place="the subjects"
        )
    return typed


def erase_rows(table: LakeTable, name: str, values: Sequence[str], *, dry_run: bool = False) -> list[Erased]:
    """Remove the events about subjects from a table's change log, and what targets have by them.

    The targets first: if this is killed in between, the change log still tells which keys are concerned, and
    the same call finishes it. An archive comes after its current table, which takes over what is left of
    these keys. Rows, and the bookmark as it is, are committed together, in each table.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
        MissingColumnError: The change log has no column of that name.
    """
    return _changed_rows(table, name, values, None, dry_run=dry_run)


def rectify_rows(
    table: LakeTable, name: str, values: Sequence[str], right: Mapping[str, str], *, dry_run: bool = False
) -> list[Erased]:
    """Give columns of subjects' rows their right values, in the change log and in all versions.

    ``removed`` of the result says how many rows are other ones than before. What is said of ``erase_rows``
    holds for this too.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
        MissingColumnError: The change log lacks a column.
        IncompatibleTypeError: A value is none of its column's type.
        UnsupportedError: A column is a part of the key, or the subject's own.
    """
    if wrong := [c for c in right if c in (*table.contract.keys, name)]:
        raise UnsupportedError(
            what=f"{table}: the column {wrong[0]} says which row it is, or whose.",
            remedy="Erase the subject, and let the source send it anew.",
        )
    for column_, text in right.items():
        subjects_frame(table, table.changes, column_, [text])
    return _changed_rows(table, name, values, right, dry_run=dry_run)


def _changed_rows(
    table: LakeTable, name: str, values: Sequence[str], right: Mapping[str, str] | None, *, dry_run: bool
) -> list[Erased]:
    def once(held: Lease) -> list[Erased]:
        state = table.state("changes")
        if state is None or not state.rows:
            return []
        with ExitStack() as cached, runner.lost_races(table.format, {table.changes: state}):
            about = _about(table, name, values, right, cached)
            roles: tuple[Role, ...] = (*table.targets, "archive", "changes")
            planned = [plan for role in roles if (plan := about.plan(role, cached)) is not None]
            if not dry_run:
                for plan in planned:
                    runner.attempt([_Erasure(table, plan, state)], held)
        return [Erased(table=str(table.stored(plan.role)), removed=plan.changed) for plan in planned]

    return runner.planned_again(table, _STEPS, once)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is removed from one stored table, and what comes in its place.

    - ``doomed`` has the columns ``on``. The commit removes each row that is equal to one of it in these
      columns: ``removed`` rows.
    - The commit adds ``rows``: ``added`` rows. Of the removed rows, ``changed`` do not come back as they
      were.
    - ``has_twins``: several rows are equal in ``on``. Only Iceberg counts them all, so for other formats the
      commit writes the whole table.
    """

    role: Role
    planned_on: TableState
    on: tuple[str, ...]
    doomed: DataFrame
    has_twins: bool
    removed: int
    rows: DataFrame | None
    added: int
    changed: int


def _about(
    table: LakeTable,
    name: str,
    values: Sequence[str],
    right: Mapping[str, str] | None,
    cached: ExitStack,
) -> _About:
    subjects = subjects_frame(table, table.changes, name, values)
    if table.config.write != "merge":
        return _OfRows(table, name, subjects, right, subjects.withColumnRenamed(SUBJECT, name))
    keys = keys_of_subjects(table.read("changes"), table.contract, name, subjects)
    return _OfKeys(table, name, subjects, right, cache(keys, cached))


class _About:
    """What is removed from each stored table of a table because of subjects, and what comes in its place.

    ``right``: the right values of columns; None: the rows are erased. ``concerned``: rows that are equal to
    one of it, in its columns, are removed.
    """

    def __init__(
        self,
        table: LakeTable,
        name: str,
        subjects: DataFrame,
        right: Mapping[str, str] | None,
        concerned: DataFrame,
    ) -> None:
        self.table, self.name, self.subjects, self.right = table, name, subjects, right
        self.concerned = concerned

    def of_concerned(self, rows: DataFrame) -> DataFrame:
        """The rows that are concerned."""
        return rows.join(F.broadcast(self.concerned), self.concerned.columns, "left_semi").select(
            *columns(rows.columns)
        )

    def rows_to_remove(self, role: Role) -> DataFrame:
        """The stored rows that are removed."""
        return self.of_concerned(self.table.read(role))

    def rows_instead(self, role: Role, upto: int) -> DataFrame | None:
        """The rows that come in their place; None if there are none."""
        raise NotImplementedError

    def identity(self, role: Role) -> tuple[str, ...]:
        """The columns by which rows are removed: some formats remove rows by nothing but their identity."""
        raise NotImplementedError

    def may_lack_rows(self, role: Role, state: TableState) -> bool:
        """Whether rows come to the table of which it has none now: those that are in its archive."""
        del role, state
        return False

    def plan(self, role: Role, cached: ExitStack) -> _Plan | None:
        """What is to be done to a stored table; None if nothing is."""
        state = self.table.state(role)
        if state is None or state.bookmark is None:
            return None
        before = self.rows_to_remove(role)
        removed = before.count()
        if not removed and not self.may_lack_rows(role, state):
            return None
        instead = self.rows_instead(role, state.batch)
        rows = cache(instead, cached) if instead is not None else None
        added = rows.count() if rows is not None else 0
        if rows is None or not removed:
            changed = removed or added
        else:
            changed = _others(before, rows.select(*before.columns)).count()
        if not changed:  # what is left of these keys is what is there
            return None
        on = self.identity(role)
        doomed = cache(before.select(*columns(on)).distinct(), cached)
        return _Plan(
            role=role,
            planned_on=state,
            on=on,
            doomed=doomed,
            has_twins=not self.table.in_catalog and doomed.count() < removed,
            removed=removed,
            rows=rows,
            added=added,
            changed=changed,
        )


def _others(before: DataFrame, after: DataFrame) -> DataFrame:
    """The rows of a frame that another one has not; Spark compares no maps, so their texts are."""
    maps = [f.name for f in before.schema.fields if "map<" in f.dataType.simpleString()]
    as_text = {name: F.to_json(F.struct(column(name))) for name in maps}
    return (
        before.withColumns(as_text).exceptAll(after.withColumns(as_text)) if maps else before.exceptAll(after)
    )


class _OfRows(_About):
    """Of a table without keys: the rows that name the subject."""

    def identity(self, role: Role) -> tuple[str, ...]:
        del role
        return (self.name,)

    def rows_instead(self, role: Role, upto: int) -> DataFrame | None:
        del upto
        if self.right is None:
            return None
        rows = self.rows_to_remove(role)
        kinds = {f.name: f.dataType for f in rows.schema.fields}
        return rows.withColumns(
            {n: F.lit(text).cast(kinds[n]) for n, text in self.right.items() if n in kinds}
        )


class _OfKeys(_About):
    """Of a table with keys: all rows of the keys concerned, then those that the other events make."""

    def identity(self, role: Role) -> tuple[str, ...]:
        if role == "changes":
            return (*self.table.contract.keys, ORDER, OP, BATCH)
        return identity_columns("history" if role == "history" else "current", self.table.contract)

    def may_lack_rows(self, role: Role, state: TableState) -> bool:
        return role == "current" and last_move(state) > 0

    def rows_instead(self, role: Role, upto: int) -> DataFrame | None:
        if role == "archive":
            return None  # the current table has these keys by now, and decides about them
        table, contract = self.table, self.table.contract
        past = table.read("changes") if role == "changes" else accepted_events(table)
        past = past.where(column(BATCH) <= upto)
        truncates = past.where(column(OP) == TRUNCATE)
        events = self.of_concerned(past).unionByName(truncates)
        left = (
            without_subjects(events, contract, self.name, self.subjects)
            if self.right is None
            else rectified(events, contract, self.name, self.subjects, self.right)
        )
        if role == "changes":
            return left
        kind: Kind = "history" if role == "history" else "current"
        gone = [c for c in value_columns(past) if not declares(table.config, c)]
        folded = first_rows(kind, left.unionByName(truncates), contract, truncates=True)
        return folded.drop(*columns(gone))


class _Erasure(runner.Change):
    """Replaces what is about subjects in one stored table, and keeps its bookmark."""

    def __init__(self, table: LakeTable, plan: _Plan, change_log: TableState) -> None:
        inputs = {} if plan.role == "changes" else {table.changes: change_log}
        super().__init__(
            table, table.stored(plan.role), step="erasure", batch=plan.planned_on.batch, inputs=inputs
        )
        self._plan = plan

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.version != self._plan.planned_on.version:
            raise CommitConflictError(table=self.target, attempts=1)
        return False

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        assert state.bookmark is not None, self.target  # noqa: S101 - its plan was made on one
        plan = self._plan
        rows = plan.rows if plan.added else None
        if plan.has_twins:
            held = self.table.read(plan.role)
            kept = held.join(F.broadcast(plan.doomed), list(plan.on), "left_anti").select(*held.columns)
            stage.replace(kept if rows is None else kept.unionByName(rows, allowMissingColumns=True))
        else:
            stage.merge(plan.doomed, rows, plan.on)
        stage.expect(state.rows - plan.removed + plan.added)
        return state.bookmark


def erase_quarantined(table: LakeTable, wanted: Wanted, *, dry_run: bool = False) -> list[Erased]:
    """Remove the quarantined records whose text holds a subject's value.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
    """

    def once(held: Lease) -> list[Erased]:
        state = table.state("quarantine")
        if state is None or not state.rows:
            return []
        rows = table.read("quarantine")
        forms = [(form.decode(),) for form in wanted.forms if _is_text(form)]
        likely = table.session.createDataFrame(forms, f"{SUBJECT} string")
        holds = F.expr(f"instr({quote(RAW)}, {quote(SUBJECT)}) > 0")
        found = rows.join(F.broadcast(likely), holds, "left_semi").select(RAW).distinct().collect()
        texts = [(row[RAW],) for row in found if wanted.holds(row[RAW])]
        if not texts:
            return []
        named = table.session.createDataFrame(texts, f"{RAW} string")
        doomed = rows.join(F.broadcast(named), [RAW], "left_semi").select(BATCH, POSITION)
        going = doomed.count()
        if not dry_run:
            runner.attempt([_QuarantineErasure(table, doomed.distinct(), state)], held)
        return [Erased(table=str(table.quarantine), removed=going)]

    return runner.planned_again(table, _STEPS, once)


def _is_text(form: bytes) -> bool:
    try:
        return "\0" not in form.decode()
    except UnicodeDecodeError:
        return False


class _QuarantineErasure(runner.Change):
    """Removes quarantined records by their positions; both halves of a key change have the same one."""

    def __init__(self, table: LakeTable, doomed: DataFrame, planned_on: TableState) -> None:
        super().__init__(table, table.quarantine, step="erasure", batch=planned_on.batch)
        self._doomed, self._planned_on = doomed, planned_on

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.version != self._planned_on.version:
            raise CommitConflictError(table=self.target, attempts=1)
        return False

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        assert state.bookmark is not None, self.target  # noqa: S101 - a quarantine with rows has one
        stage.merge(self._doomed, None, (BATCH, POSITION))
        return state.bookmark
