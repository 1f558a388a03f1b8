"""Append to and read from the tables of ``lake.ops``: Iceberg tables, written without a JVM."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from kedro_lakehouse.names import OPS_NAMESPACE, TableName
from kedro_lakehouse.ops.patience import Patience
from kedro_lakehouse.ops.report import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table

    from kedro_lakehouse.ops.commits import Change
    from kedro_lakehouse.session.catalog import MetadataCatalog

_Fields = list[tuple[str, pa.DataType]]
_TIME: Final = pa.timestamp("us", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))


def _texts(*names: str) -> _Fields:
    return [(name, pa.string()) for name in names]


def _numbers(*names: str) -> _Fields:
    return [(name, pa.int64()) for name in names]


def _times(*names: str) -> _Fields:
    return [(name, _TIME) for name in names]


_FILE: Final = pa.struct([*_texts("path"), *_numbers("size", "modified")])
_REFUSAL: Final = pa.struct(_texts("path", "code"))
_WAITING: Final = pa.struct([*_texts("path"), *_numbers("size", "modified"), *_texts("code", "reason")])
_REFERENCE: Final = pa.struct([*_texts("table"), *_numbers("snapshot")])
_COLUMN: Final = pa.struct(
    [*_texts("name", "type"), ("partition", pa.bool_()), *_numbers("id"), *_texts("personal")]
)
_FAILURE: Final = pa.struct(_texts("table", "code", "message"))

BATCH_LEDGER: Final = "batch_ledger"
BATCHES: Final = "batches"
RUNS: Final = "runs"
ALERTS: Final = "alerts"
QUALITY_RESULTS: Final = "quality_results"
DECISIONS: Final = "decisions"
MAINTENANCE: Final = "maintenance"
SCHEMAS_OF_RECORDS: Final = "schemas"
ERASURES: Final = "erasures"
DISCOVERED: Final = "discovered"
PUBLISHED: Final = "published"
"""Stage of a quality result about a published table."""

_FIELDS: Final[Mapping[str, _Fields]] = {
    # One row per planned batch, with the snapshots of the references that it looks up in. A row without
    # a batch number refuses files: those of `files` for good, those of `waiting` as long as the guards are
    # as in `guards` and the batch that it follows is the last one.
    BATCH_LEDGER: [
        *_texts("table"),
        *_numbers("batch"),
        *_texts("content_hash"),
        ("files", pa.list_(_FILE)),
        ("refused", pa.list_(_REFUSAL)),
        *_texts("run_id"),
        *_times("planned_at"),
        *_numbers("epoch"),
        *_texts("follows"),
        ("waiting", pa.list_(_WAITING)),
        *_texts("guards"),
        ("references", pa.list_(_REFERENCE)),
    ],
    # One row per commit: contract section 12.
    BATCHES: [
        *_texts("table", "stage"),
        *_numbers("batch", "batches"),
        *_texts("content_hash", "run_id"),
        *_times("committed_at"),
        *_numbers("snapshot_id", *COUNTS),
        *_texts("min_order", "max_order"),
        ("lag_seconds", pa.float64()),
        *_texts("correlation_id", "follows"),
    ],
    # One row per run that changed a table or failed, or in which a table recovered: all of its nodes ran well
    # for the first time since it failed.
    RUNS: [
        *_texts("run_id", "pipeline", "env", "status"),
        *_times("started_at", "ended_at"),
        ("tables", pa.list_(pa.string())),
        ("failed", pa.list_(_FAILURE)),
        *_texts("correlation_id"),
        ("recovered", pa.list_(pa.string())),
    ],
    # One row per change of state that was reported to a notifier or, without a notifier, that was found.
    # The newest rows are the known states.
    ALERTS: [
        *_texts("notifier", "kind", "subject", "state", "code", "message", "run_id"),
        *_times("told_at"),
    ],
    # One row per validated expectation: figures, never a value of a row. `suite` is the table's name,
    # or that of a suite across tables; `stage`: published, or current | history of a refused commit.
    QUALITY_RESULTS: [
        *_texts("suite", "table", "stage"),
        *_numbers("batch"),
        *_texts("snapshots", "expectation", "type", "kwargs", "severity"),
        ("success", pa.bool_()),
        *_numbers("elements", "unexpected"),
        ("observed", pa.float64()),
        *_texts("engine", "run_id"),
        *_times("judged_at"),
    ],
    # One row per maintenance of a stored table's files: what it consisted of before and after.
    MAINTENANCE: [
        *_texts("table"),
        ("actions", pa.list_(pa.string())),
        *_numbers("files_before", "files_after", "delete_files_before", "delete_files_after"),
        *_numbers("bytes_before", "bytes_after", "manifests_before", "manifests_after"),
        *_numbers("snapshots_before", "snapshots_after"),
        *_texts("run_id"),
        *_times("maintained_at"),
    ],
    # One row per event that a person excluded: the position of its record, and a digest of its key and
    # order. A row without a digest excludes every event of the file.
    DECISIONS: [
        *_texts("decision", "action", "table"),
        *_numbers("batch"),
        *_texts("expectation", "file"),
        *_numbers("row", "digest"),
        *_texts("run_id"),
        *_times("decided_at"),
    ],
    # One row per table and subject, a keyed hash, before anything is removed: from then on events of it are
    # refused. Then one row per erasure, without a table: what was removed, searched and found.
    ERASURES: [
        *_texts("erasure", "status", "table", "subject"),
        *_times("due"),
        *_numbers("rows", "files", "bytes", "found"),
        ("pending", pa.list_(pa.string())),
        *_texts("evidence", "signature", "run_id"),
        *_times("recorded_at"),
    ],
    # One row per version of a dataset that was discovered, and per change of its figures: what was found, and
    # what changed since the version before. `keys` are JSON lists of columns; `read`: in so many rows.
    DISCOVERED: [
        *_texts("table"),
        *_numbers("version"),
        *_texts("status", "kind", "location", "pattern", "identity", "mark"),
        ("columns", pa.list_(_COLUMN)),
        ("partitions", pa.list_(pa.string())),
        *_numbers("rows"),
        ("rows_exact", pa.bool_()),
        *_numbers("size", "files"),
        *_times("changed"),
        ("keys", pa.list_(pa.string())),
        *_numbers("read"),
        *_texts("options", "note"),
        ("changes", pa.list_(pa.string())),
        *_texts("run_id"),
        *_times("discovered_at"),
    ],
    # One row per schema of a registry that a table's records named, with the first batch that has such a
    # record. A row without a batch is an earlier version of a subject: later ones are compared with it.
    SCHEMAS_OF_RECORDS: [
        *_texts("table", "topic", "registry", "place", "id", "part", "subject"),
        *_numbers("version"),
        *_texts("text", "fingerprint"),
        *_numbers("batch"),
        *_texts("run_id"),
        *_times("first_seen"),
    ],
}
SCHEMAS: Final[Mapping[str, pa.Schema]] = {table: pa.schema(fields) for table, fields in _FIELDS.items()}
_FILES: Final = 12
"""An append that finds this many files makes one of the small ones: to read a small file takes about 4 ms."""
_MUCH_LARGER: Final = 3
_KEPT_SINCE: Final = "kedro_lakehouse.kept_since"
"""Property of a table that has lost old rows: the time from which on it has all."""


_verified: Final[dict[str, dict[tuple[str, str], tuple[Any, ...]]]] = {}
_APART: Final = 1.0
"""Seconds between two commits of rows that may be written a little later."""


@dataclass(eq=False)
class _Append:
    """Rows that a thread appends, and what became of them; ``can_wait``: no thread waits for them."""

    rows: Sequence[Mapping[str, Any]]
    unless: tuple[str, ...]
    can_wait: bool = False
    is_done: bool = False
    error: BaseException | None = None


class OpsStore:
    """Rows of ``lake.ops``; appends of one process queue up, those of several try again on a conflict."""

    def __init__(self, catalog: MetadataCatalog) -> None:
        """Keep the catalog; a table is created with its first row."""
        self._catalog = catalog
        self._writing = threading.RLock()
        self._waiting: dict[str, deque[_Append]] = defaultdict(deque)
        self._written: dict[str, float] = {}
        self.gathers = False
        """Whether somebody will call ``flush``, so that rows of ``append_soon`` may wait for others."""

    def append(self, table: str, rows: Sequence[Mapping[str, Any]], *, unless: Sequence[str] = ()) -> None:
        """Append rows exactly once, in one commit, even if its answer is lost or others compact the table.

        A row is left out if the table holds one already that is equal in the columns ``unless``. The commit
        succeeds only on the very state in which these rows were looked up: of several processes that append
        the same row at once, only one does. What threads append while another one commits goes into the
        next commit together.

        Raises:
            CommitConflictError: Other processes won each race for ten minutes; nothing was written.
        """
        if not rows:
            return
        waiting = _Append(rows, tuple(unless))
        self._waiting[table].append(waiting)
        with self._writing:
            if not waiting.is_done:
                self._append_all(table, waiting.unless)
        if waiting.error is not None:
            raise waiting.error

    def append_soon(
        self, table: str, rows: Sequence[Mapping[str, Any]], *, unless: Sequence[str] = ()
    ) -> None:
        """Append rows as ``append`` does; where commits are frequent, those of a second go into one.

        Rows that wait are written with the next ones, by ``flush``, and before this store reads the table.
        A process that dies before has not written them: only what another run can find out may wait.
        """
        self._waiting[table].append(_Append(rows, tuple(unless), can_wait=True))
        if not self.gathers or time.monotonic() - self._written.get(table, 0.0) >= _APART:
            self.flush(table)

    def flush(self, *tables: str) -> None:
        """Write the rows that wait, of these tables or all; those that cannot be written wait on.

        Raises:
            CommitConflictError: Other processes won each race for ten minutes.
        """
        with self._writing:
            for table in tables or tuple(self._waiting):
                while self._waiting[table]:
                    error = self._append_all(table, self._waiting[table][0].unless)
                    if error is not None:
                        raise error

    def _append_all(self, table: str, unless: tuple[str, ...]) -> BaseException | None:
        """Append all that waits, with the same ``unless``; an error is that of each thread that waits."""
        queue, error = self._waiting[table], None
        together = [one for one in list(queue) if one.unless == unless]
        self._written[table] = time.monotonic()
        try:
            self._append(table, [row for one in together for row in one.rows], unless)
        except BaseException as found:  # noqa: BLE001 - each thread raises it
            error = found
        for one in together:
            one.error, one.is_done = error, error is None or not one.can_wait
            if one.is_done:
                queue.remove(one)
        return error

    def _append(self, table: str, rows: Sequence[Mapping[str, Any]], unless: Sequence[str]) -> None:
        schema = SCHEMAS[table]
        data = pa.Table.from_pylist(
            [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
        )

        def add(stored: Table, mark: dict[str, str]) -> None:
            new = _missing(stored, data, unless) if unless else data
            if new.num_rows:
                _add(stored, new, mark)

        (first,) = data.slice(0, 1).to_pylist()
        self._commit(table, add, lambda stored: _holds(stored, first))

    def forget(self, table: str, *, of_table: str, before: tuple[str, int] | None = None) -> None:
        """Delete the rows about one declared table, in one commit; without such rows nothing is written.

        Args:
            before: A column and a number: rows with that number or a greater one in the column stay.

        Raises:
            CommitConflictError: Other processes won each race for ten minutes; nothing was written.
        """
        rows = self.read(table, of_table=of_table)
        going = [r for r in rows if before is None or (r.get(before[0]) or 0) < before[1]]
        if not going:
            return
        gone = _of_declared(of_table, before)
        self._commit(
            table,
            lambda stored, mark: stored.delete(gone, snapshot_properties=mark),
            lambda stored: not _holds(stored, going[0]),
        )

    def keep(self, table: str, kept: Callable[[pa.Table], pa.Table], *, since: datetime) -> int:
        """Rewrite a table with those of its rows that ``kept`` gives, in one commit; how many rows have gone.

        Args:
            kept: Gives the rows that stay.
            since: The time from which on it gives all rows; ``kept_since`` tells it later.

        Raises:
            CommitConflictError: Other processes won each race for ten minutes; nothing was written.
        """
        self.flush(table)
        gone = 0

        def rows_of(stored: Table) -> pa.Table:
            return stored.scan().to_arrow().cast(SCHEMAS[table])

        def rewrite(stored: Table, mark: dict[str, str]) -> None:
            nonlocal gone
            rows = rows_of(stored)
            left = kept(rows)
            gone = rows.num_rows - left.num_rows
            if gone:
                left = left.sort_by("table") if "table" in left.schema.names else left
                with stored.transaction() as transaction:
                    transaction.overwrite(left, snapshot_properties=mark)
                    transaction.set_properties({_KEPT_SINCE: since.isoformat()})

        def is_done(stored: Table) -> bool:
            rows = rows_of(stored)
            return bool(kept(rows).num_rows == rows.num_rows)

        if self._catalog.find(TableName.ops(table)) is not None:
            self._commit(table, rewrite, is_done)
        return gone

    @property
    def verified(self) -> dict[tuple[str, str], tuple[Any, ...]]:
        """What this process knows to be recorded, with all before it: the last commit of each target.

        It is the same for every store of one lakehouse.
        """
        return _verified.setdefault(self._catalog.place, {})

    def kept_since(self, table: str) -> datetime | None:
        """From when on a table has all its rows; None if none was ever deleted because of its age."""
        found = self._catalog.find(TableName.ops(table))
        text = found.properties.get(_KEPT_SINCE) if found is not None else None
        return datetime.fromisoformat(text) if text else None

    def _commit(self, table: str, change: Change, is_done: Callable[[Table], bool]) -> None:
        from kedro_lakehouse.ops.commits import Commit  # it brings pyiceberg

        commit, patience = Commit(change, is_done), Patience(f"{OPS_NAMESPACE}.{table}")
        with self._writing:
            while True:
                try:
                    return commit.attempt(self._table(table))
                except Exception as error:
                    if not commit.may_be_tried_again(error):
                        raise
                    patience.pause(error)

    def _table(self, table: str) -> Table:
        found = self._catalog.find(TableName.ops(table))
        if found is not None:
            return _evolved(found, SCHEMAS[table])
        self._catalog.ensure_namespace(OPS_NAMESPACE)
        # Many small appends: merged manifests and few old metadata files keep reads short.
        properties = {
            "commit.manifest-merge.enabled": "true",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "20",
        }
        return self._catalog.catalog.create_table_if_not_exists(
            (OPS_NAMESPACE, table), schema=SCHEMAS[table], properties=properties
        )

    def arrow(self, table: str, *fields: str) -> pa.Table | None:
        """Some columns of all rows, in no order; None where nothing was written yet."""
        self.flush(table)
        found = self._catalog.find(TableName.ops(table))
        return found.scan(selected_fields=fields).to_arrow() if found is not None else None

    def read(
        self,
        table: str,
        *,
        of_table: str | None = None,
        columns: Sequence[str] | None = None,
        from_batch: int | None = None,
    ) -> list[dict[str, Any]]:
        """Read rows in no order, about one declared table or all; none where nothing was written yet.

        Args:
            of_table: The declared table.
            columns: The wanted columns, among them ``table``, and ``batch`` for ``from_batch``; default: all.
            from_batch: Only rows of this batch and of later ones.
        """
        where = ("table", of_table) if of_table is not None else None
        return self._rows(table, where, columns, from_batch)

    @property
    def place(self) -> str:
        """Where the lakehouse is: two stores of one place hold the same rows."""
        return self._catalog.place

    def read_files(
        self, table: str, of_table: str, known: Collection[str]
    ) -> dict[str, list[dict[str, Any]] | None] | None:
        """The data files of a table, each with its rows about one declared table; None if they are not told.

        Args:
            table: A table of ``lake.ops``.
            of_table: The declared table.
            known: Files whose rows are not wanted: None stands for these.
        """
        self.flush(table)
        found = self._catalog.read_files(TableName.ops(table), ("table", of_table), known)
        if found is None:
            return None
        return {path: None if rows is None else _as_rows(rows) for path, rows in found.items()}

    def read_of_run(self, table: str, run_id: str) -> list[dict[str, Any]]:
        """Read the rows that a run wrote, in no order."""
        return self._rows(table, ("run_id", run_id))

    def read_without_batch(self, table: str) -> list[dict[str, Any]]:
        """Read the rows that are about no batch, in no order."""
        return self._rows(table, ("batch", None))

    def _rows(
        self,
        table: str,
        where: tuple[str, object] | None,
        columns: Sequence[str] | None = None,
        from_batch: int | None = None,
    ) -> list[dict[str, Any]]:
        self.flush(table)
        found = self._catalog.read_rows(TableName.ops(table), where, columns)
        if found is None:
            return []
        if from_batch is not None:
            from pyarrow import compute as pc

            found = found.filter(pc.greater_equal(found["batch"], from_batch))
        return _as_rows(found)


def _as_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table. Its own ``to_pylist`` imports pandas for the first time with a zone."""
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; its times are counted in microseconds."""
    if column.type != _TIME:
        return list(column.to_pylist())
    counts = (count for chunk in column.chunks for count in chunk.view(pa.int64()).to_pylist())
    return [None if count is None else _EPOCH + timedelta(microseconds=count) for count in counts]


def _add(stored: Table, data: pa.Table, mark: dict[str, str]) -> None:
    """Append rows; where there are many files, one with these rows too replaces the small ones.

    pyiceberg's own ``append`` first compares the two schemas, which takes a fifth of its time.
    """
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    head = stored.current_snapshot()
    files = int((head and head.summary and head.summary["total-data-files"]) or 0)
    old = _small(stored.scan().plan_files()) if files >= _FILES else []
    with stored.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=mark)
        with update.overwrite() if old else update.fast_append() as change:
            for task in old:
                change.delete_data_file(task.file)
            rows = _with_rows_of(stored, old, data) if old else data
            for file in _dataframe_to_data_files(transaction.table_metadata, rows, stored.io):
                change.append_data_file(file)
        if old:
            with ExpireSnapshots(transaction) as expired:
                expired.by_ids([snapshot.snapshot_id for snapshot in stored.snapshots()])


def _small(files: Iterable[FileScanTask]) -> list[FileScanTask]:
    """The smallest files, up to one that has more than three times the rows of all smaller ones together.

    So a row is written again only when its file's rows have grown by a third: a few times, however many
    rows the table gets.
    """
    found: list[FileScanTask] = []
    rows = 0
    for task in sorted(files, key=lambda t: t.file.record_count):
        if len(found) > 1 and task.file.record_count > _MUCH_LARGER * rows:
            break
        found.append(task)
        rows += task.file.record_count
    return found


def _with_rows_of(stored: Table, files: Sequence[FileScanTask], data: pa.Table) -> pa.Table:
    """The rows of files and some more; those about a table lie together."""
    from pyiceberg.io.pyarrow import ArrowScan

    scan = ArrowScan(stored.metadata, stored.io, stored.schema(), _expressions().AlwaysTrue())
    rows = pa.concat_tables([scan.to_table(files).cast(data.schema), data])
    return rows.sort_by("table") if "table" in rows.schema.names else rows


def _evolved(table: Table, schema: pa.Schema) -> Table:
    """The table with all columns of its schema: one that an earlier version made gets those it lacks."""
    held = {field.name for field in table.schema().fields}
    new = [field for field in schema if field.name not in held]
    if new:
        with table.update_schema() as update:
            update.union_by_name(pa.schema(new))
    return table


def _missing(stored: Table, data: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of ``data`` that a table does not hold yet, compared in these columns; null equals null."""
    wanted = data.select(columns).to_pylist()
    scan = stored.scan(row_filter=_equal_to_one_of(wanted), selected_fields=tuple(columns))
    held = {tuple(row[c] for c in columns) for row in scan.to_arrow().to_pylist()}
    return data.filter([tuple(row.values()) not in held for row in wanted])


def _holds(stored: Table, row: Mapping[str, Any]) -> bool:
    """Whether a table holds a row that is equal to this one in all its columns."""
    # pyiceberg refuses a filter on a list, that a list is null too; and it reads a null list as an empty one.
    lists = {field.name for field in stored.schema().fields if not field.field_type.is_primitive}
    wanted = {name: value for name, value in row.items() if name not in lists}
    found = stored.scan(row_filter=_equal_to_one_of([wanted])).to_arrow().to_pylist()

    def holds(there: Mapping[str, Any], name: str) -> bool:
        return there.get(name) == row[name] or (name in lists and not there.get(name) and not row[name])

    return any(all(holds(there, name) for name in row) for there in found)


def _of_declared(table: str, before: tuple[str, int] | None = None) -> BooleanExpression:
    """An expression for the rows about one declared table; ``before``: with less than this in this column."""
    of_table = _equal_to_one_of([{"table": table}])
    if before is None:
        return of_table
    expressions = _expressions()
    older = expressions.Or(expressions.IsNull(before[0]), expressions.LessThan(*before))
    found: BooleanExpression = expressions.And(of_table, older)
    return found


def _equal_to_one_of(rows: Sequence[Mapping[str, Any]]) -> BooleanExpression:
    """An expression that is true for rows equal to one of these; it lets a scan skip other files.

    It does not compare lists, structs and floats, so it may be true for a few other rows, too.
    """
    expressions = _expressions()

    def equal(row: Mapping[str, Any]) -> Any:
        terms = [
            expressions.IsNull(name) if value is None else expressions.EqualTo(name, value)
            for name, value in row.items()
            if not isinstance(value, (list, dict, float))
        ]
        return expressions.And(expressions.AlwaysTrue(), expressions.AlwaysTrue(), *terms)

    found: BooleanExpression = expressions.Or(
        expressions.AlwaysFalse(), expressions.AlwaysFalse(), *map(equal, rows)
    )
    return found


def _expressions() -> Any:
    """Pyiceberg's expressions, whose constructors are typed for pydantic, not for callers."""
    from pyiceberg import expressions

    return expressions
