"""Read what a query needs of one table: pyiceberg plans and scans, so deletes and snapshots are right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.cli.parse import QueryError
from kedro_lakehouse.commits.marks import MOVED
from kedro_lakehouse.formats.view import plan_view, view_name
from kedro_lakehouse.ops.report import bookmark_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

    from kedro_lakehouse.cli.parse import Comparison, Query
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.names import TableName

BATCH: Final = "_batch"
MOVED_COLUMN: Final = "_moved"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_DOUBLE: Final = 2**53


def quoted(name: str) -> str:
    """A name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'


class TableScan:
    """One table of a query, as it is now or was published at a time.

    Raises:
        QueryError: The table had no published state at the time.
    """

    def __init__(self, table: Table, name: str, as_of: datetime | None) -> None:
        """Find the snapshot; no row is read."""
        self.name = name
        self._table = table
        self._snapshot = _snapshot(table, name, as_of) if as_of else None
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
            row_filter=_filter(self._schema, query),
            selected_fields=tuple(needed or names[:1]),
            snapshot_id=self._snapshot.snapshot_id if self._snapshot else None,
            limit=query.first,
        )
        return wanted.to_arrow()


class GrantedScan(TableScan):
    """One table as a role may see it: what it may not see is not read, so no query can ask for it."""

    def __init__(self, table: Table, name: str, as_of: datetime | None, access: TableAccess) -> None:
        """Find the snapshot, and settle what is shown of it; no row is read."""
        from kedro_lakehouse.grants.frame import GrantedFrame

        super().__init__(table, name, as_of)
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
        return self._frame.read(
            needed or shown[:1],
            where=_filter(self._schema, query, self._frame.unmasked),
            snapshot=self._snapshot.snapshot_id if self._snapshot else None,
            limit=query.first,
        )


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
            return self._frame.read(needed, snapshot=snapshot)
        return self._table.scan(selected_fields=tuple(needed), snapshot_id=snapshot).to_arrow()


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
        rows = self._table.scan(_filter(self._schema, query), fields).to_arrow()
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
        found = self._archive.scan(wanted, tuple(n for n in fields if n in there)).to_arrow()
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

    if isinstance(condition.constant, str):
        return isinstance(kind, StringType)
    if isinstance(kind, DoubleType):
        # NaN is the greatest double to DuckDB, and less than nothing to Iceberg: equality alone is safe.
        return condition.operator == "=" and abs(condition.constant) <= _EXACT_DOUBLE
    return isinstance(kind, IntegerType | LongType) and abs(condition.constant) < 2**63
