"""Read what a query needs of one table: pyiceberg plans and scans, so deletes and snapshots are right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.marks import MOVED
from kedro_lakehouse.formats.view import plan_view, view_name
from kedro_lakehouse.ops.report import bookmark_of
from kedro_lakehouse.query.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.query.conditions import Comparison
    from kedro_lakehouse.query.parse import Query
    from kedro_lakehouse.query.pins import Pin

BATCH: Final = "_batch"
MOVED_COLUMN: Final = "_moved"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_DOUBLE: Final = 2**53


def quoted(name: str) -> str:
    """A name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'


class TableScan:
    """One table of a query, as it is now, was published at a time, or at a snapshot.

    ``files`` are those that were read, each with its bytes.

    Raises:
        QueryError: The table had no published state at the time.
    """

    def __init__(self, table: Table, name: str, as_of: datetime | None, pin: Pin | None = None) -> None:
        """Find the snapshot; no row is read."""
        self.name, self.pin = name, pin
        self.files: dict[str, int] = {}
        self._table = table
        self._snapshot = _snapshot(table, name, as_of) if as_of else None
        if pin is not None and pin.state is not None:
            self._snapshot = table.snapshot_by_id(pin.state)
        made_with = self._snapshot.schema_id if self._snapshot else None
        self._schema = table.schema() if made_with is None else table.schemas()[made_with]

    def select(self, rows: str, _query: Query | None = None) -> str:
        """What the name stands for, in DuckDB's SQL over the rows that were read."""
        return f"FROM {rows}"

    def empty(self) -> pa.Table:
        """All columns and no row."""
        return self._schema.as_arrow().empty_table()

    def read(self, query: Query) -> pa.Table:
        """The rows and columns that a query needs."""
        names = [field.name for field in self._schema.fields]
        needed = names if query.every_column else [n for n in names if n.lower() in query.words]
        wanted = self._table.scan(
            row_filter=self._pinned(_filter(self._schema, query)),
            selected_fields=tuple(needed or names[:1]),
            snapshot_id=self._snapshot.snapshot_id if self._snapshot else None,
            limit=query.first,
        )
        return self._rows(wanted)

    @property
    def state(self) -> int | None:
        """Iceberg's number of the table's state that is read; None of a table that never had rows."""
        current = self._snapshot or self._table.current_snapshot()
        return current.snapshot_id if current else None

    def _rows(self, scan: DataScan) -> pa.Table:
        """The rows of a scan, whose files are noted."""
        tasks = list(scan.plan_files())
        for task in tasks:
            for file in (task.file, *task.delete_files):
                self.files[file.file_path] = file.file_size_in_bytes
        scan.plan_files = lambda: tasks  # type: ignore[method-assign]  # planned once
        return scan.to_arrow()

    def _pinned(self, wanted: BooleanExpression) -> BooleanExpression:
        """A condition, and that rows are of the snapshot at which the table is pinned."""
        from pyiceberg import expressions as ex

        if self.pin is None or self.pin.column is None:
            return wanted
        built: Any = ex  # its constructors are typed for pydantic, not for callers
        return ex.And(wanted, built.EqualTo(self.pin.column, self.pin.snapshot))


class GrantedScan(TableScan):
    """One table as a role may see it: what it may not see is not read, so no query can ask for it."""

    def __init__(
        self, table: Table, name: str, as_of: datetime | None, access: TableAccess, pin: Pin | None = None
    ) -> None:
        """Find the snapshot, and settle what is shown of it; no row is read."""
        from kedro_lakehouse.grants.frame import GrantedFrame

        super().__init__(table, name, as_of, pin)
        self._frame = GrantedFrame(access, table, self._schema)

    def empty(self) -> pa.Table:
        """The granted columns and no row."""
        return self._frame.empty()

    def read(self, query: Query) -> pa.Table:
        """The granted rows and columns that a query needs.

        A condition on a masked column is not applied here: its answer would tell whether a value exists.
        """
        shown = self._frame.columns
        needed = shown if query.every_column else [n for n in shown if n.lower() in query.words]
        wanted = needed or shown[:1]
        scan = self._frame.scan(
            wanted,
            where=self._pinned(_filter(self._schema, query, self._frame.unmasked)),
            snapshot=self._snapshot.snapshot_id if self._snapshot else None,
            limit=query.first,
        )
        return self._frame.shown(self._rows(scan), wanted)


class ViewScan(TableScan):
    """The view of a history, rebuilt from its declaration: its rows come from the history."""

    def __init__(
        self,
        history: Table,
        declared: tuple[TableName, TableConfig],
        as_of: datetime | None,
        access: TableAccess | None = None,
    ) -> None:
        """Find the snapshot, and settle what the view shows of it, to a role or to all; no row is read."""
        name, table = declared
        super().__init__(history, str(name.with_suffix("history")), as_of)
        self.name = str(view_name(name, table.history.view))  # type: ignore[union-attr, arg-type]
        self._view = plan_view(name, table, {f.name: _kind(f.field_type) for f in self._schema.fields})
        self._frame = None
        if access is not None:
            from kedro_lakehouse.grants.frame import GrantedFrame

            self._frame = GrantedFrame(access, history, self._schema)
            self._view = self._view.of_columns(self._frame.columns)

    def empty(self) -> pa.Table:
        """All columns of the history, or those that are granted, and no row."""
        return self._frame.empty() if self._frame else super().empty()

    def _shown(self, query: Query | None) -> list[str] | None:
        """The columns of the view that a query may name; None for all of them."""
        if query is None or query.every_column:
            return None
        return [n for n in self._view.names if n.lower() in query.words] or self._view.names[:1]

    def select(self, rows: str, query: Query | None = None) -> str:
        """The view's own SELECT, of the columns that the query may name."""
        return self._view.select(rows, quoted, self._shown(query))

    def read(self, query: Query) -> pa.Table:
        """The rows of the history, and the columns from which the view's are made."""
        needed = self._view.needed(self._shown(query) or self._view.names)
        snapshot = self._snapshot.snapshot_id if self._snapshot else None
        if self._frame:
            found = self._rows(self._frame.scan(needed, snapshot=snapshot))
            return self._frame.shown(found, needed)
        return self._rows(self._table.scan(selected_fields=tuple(needed), snapshot_id=snapshot))


class BothScan(TableScan):
    """A current table and its archive as one, each key once, as both are now."""

    def __init__(self, tables: Mapping[str, Table], declared: tuple[TableName, TableConfig]) -> None:
        """Take the stored tables by their roles: the current one, its change log, and its archive if any."""
        name, table = declared
        super().__init__(tables["current"], str(name), None)
        self.name, self._keys = f"{name}_all", list(table.keys)
        self._archive, self._log = tables.get("archive"), tables["changes"]
        self._moves = int(tables["current"].properties.get(MOVED) or 0)

    def read(self, query: Query) -> pa.Table:
        """The rows of both that a query needs; keys decide which row counts."""
        import pyarrow as pa

        names = [field.name for field in self._schema.fields]
        needed = names if query.every_column else [n for n in names if n.lower() in query.words] or names[:1]
        fields = tuple(dict.fromkeys([*needed, *self._keys]))
        rows = self._rows(self._table.scan(_filter(self._schema, query), fields))
        archived = self._archived(query, fields)
        both = rows if archived is None else pa.concat_tables([rows, archived], promote_options="permissive")
        return both.select(needed)

    def _archived(self, query: Query, fields: Sequence[str]) -> pa.Table | None:
        """The archived rows about which the current table does not decide."""
        from pyiceberg import expressions as ex

        if self._archive is None or not self._moves:
            return None
        there = [field.name for field in self._archive.schema().fields]
        built: Any = ex  # its constructors are typed for pydantic, not for callers
        moved = built.LessThanOrEqual(MOVED_COLUMN, self._moves)
        wanted = ex.And(_filter(self._archive.schema(), query), moved)
        found = self._rows(self._archive.scan(wanted, tuple(n for n in fields if n in there)))
        if not found.num_rows or not self._keys:
            return found
        decided = [self._table.scan(selected_fields=tuple(self._keys)).to_arrow(), *self._touched()]
        return _without(found, decided, self._keys)

    def _touched(self) -> Iterator[pa.Table]:
        """The keys of the events that the current table has and the archive does not know of."""
        import pyiceberg.expressions as built

        ex: Any = built  # its constructors are typed for pydantic, not for callers
        after, upto = (bookmark_of(t.properties) for t in (self._archive, self._table) if t is not None)
        if after is None or upto is None or after.batch == upto.batch:
            return
        if after.batch > upto.batch:
            raise QueryError(
                problem=f"The table was rolled back to before its archive, so '{self.name}' has no rows now.",
                remedy="Run `kedro run`, which applies the later batches again; or ask both tables apart.",
            )
        since = ex.And(ex.GreaterThan(BATCH, after.batch), ex.LessThanOrEqual(BATCH, upto.batch))
        yield self._log.scan(since, tuple(self._keys)).to_arrow()


def _without(rows: pa.Table, decided: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """The rows whose keys are not among others; only keys are joined, as pyarrow joins no nested values."""
    import numpy as np
    import pyarrow as pa

    kinds = decided[0].select(keys).schema  # an archive may be narrower: it is evolved by its next rows
    named = rows.select(keys).cast(kinds).append_column("__row", pa.array(np.arange(rows.num_rows)))
    for others in decided:
        named = named.join(others.select(keys).cast(kinds), list(keys), join_type="left anti")
    return rows.take(pa.array(np.sort(named["__row"].to_numpy())))


def _kind(kind: IcebergType) -> str:
    """The text of a type as Spark writes it, where a view looks at it."""
    return {"timestamptz": "timestamp", "timestamp": "timestamp_ntz"}.get(str(kind), str(kind))


def _snapshot(table: Table, name: str, as_of: datetime) -> Snapshot:
    found = table.snapshot_as_of_timestamp((as_of - _EPOCH) // timedelta(milliseconds=1))
    if found is not None:
        return found
    times = [_EPOCH + timedelta(milliseconds=entry.timestamp_ms) for entry in table.history()]
    first = (
        f"its first one is of {min(times).isoformat(sep=' ', timespec='milliseconds')}"
        if times
        else "it is empty"
    )
    raise QueryError(
        problem=f"The table '{name}' has no state published by {as_of.isoformat(sep=' ')}; {first}.",
        remedy="Give a later time.",
    )


def _filter(schema: Schema, query: Query, columns: Collection[str] | None = None) -> BooleanExpression:
    """The conditions that Iceberg and DuckDB surely understand alike; DuckDB applies all of them again.

    ``columns`` are those that conditions may be about; None: all.
    """
    from pyiceberg import expressions as ex

    build: dict[str, Any] = {
        "=": ex.EqualTo,
        "<": ex.LessThan,
        "<=": ex.LessThanOrEqual,
        ">": ex.GreaterThan,
        ">=": ex.GreaterThanOrEqual,
        "in": ex.In,
    }
    wanted: BooleanExpression = ex.AlwaysTrue()
    for condition in query.filters:
        fields = [f for f in schema.fields if f.name.lower() == condition.column and "." not in f.name]
        if columns is not None and not all(field.name in columns for field in fields):
            continue
        if len(fields) == 1 and _alike(fields[0].field_type, condition):
            wanted = ex.And(wanted, build[condition.operator](fields[0].name, condition.constant))
    return wanted


def _alike(kind: IcebergType, condition: Comparison) -> bool:
    from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

    given = condition.constant
    constants = given if isinstance(given, tuple) else (given,)
    if all(isinstance(one, str) for one in constants):
        return isinstance(kind, StringType)
    numbers = [one for one in constants if isinstance(one, int)]
    if len(numbers) < len(constants):
        return False
    if isinstance(kind, DoubleType):
        # NaN is the greatest double to DuckDB, and less than nothing to Iceberg: equality alone is safe.
        return condition.operator == "=" and abs(numbers[0]) <= _EXACT_DOUBLE
    return isinstance(kind, IntegerType | LongType) and all(abs(one) < 2**63 for one in numbers)
