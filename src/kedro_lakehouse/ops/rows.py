"""Look rows up in a table of ``lake.ops`` by their values; only few files are read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


def missing(stored: Table, data: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of ``data`` that a table does not hold yet, compared in these columns; null equals null."""
    wanted = data.select(columns).to_pylist()
    scan = stored.scan(row_filter=_equal_to_one_of(wanted), selected_fields=tuple(columns))
    held = {tuple(row[c] for c in columns) for row in scan.to_arrow().to_pylist()}
    return data.filter([tuple(row.values()) not in held for row in wanted])


def holds(stored: Table, row: Mapping[str, Any]) -> bool:
    """Whether a table holds a row that is equal to this one in all its columns."""
    found = stored.scan(row_filter=_equal_to_one_of([row])).to_arrow().to_pylist()
    return any(all(there.get(name) == value for name, value in row.items()) for there in found)


def of_declared(table: str, before: tuple[str, int] | None = None) -> BooleanExpression:
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
