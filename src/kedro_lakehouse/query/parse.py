"""Read a query by DuckDB's own parser: which tables, columns and rows of the lake it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.names import CATALOG
from kedro_lakehouse.query.conditions import Comparison, comparisons, constant, of_tables
from kedro_lakehouse.query.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from duckdb import DuckDBPyConnection

_ONE_QUERY: Final = "Give one SELECT, WITH, DESCRIBE or SUMMARIZE statement."
_PLAIN_KEYS: Final = frozenset(
    {"type", "modifiers", "cte_map", "select_list", "from_table", "aggregate_handling"}
)


CORRECT_IT: Final = 'Correct the query. `kedro lakehouse sql "describe TABLE"` shows a table\'s columns.'


@dataclass(frozen=True, kw_only=True)
class Query:
    """What a query needs of the lake; in doubt more than that.

    ``words`` are all texts in the query, in lower case: a column whose name is none of them is not
    needed, unless ``every_column``. ``sources`` are what it reads that is no table: functions in lower case,
    and the kinds of SHOW in upper case. ``filters`` and ``first`` (rows) are set only for queries of one
    table; ``of_tables`` has the conditions on each table of a join.
    """

    text: str
    tables: tuple[str, ...]
    words: frozenset[str]
    every_column: bool
    only_schema: bool
    sources: frozenset[str]
    filters: tuple[Comparison, ...]
    first: int | None
    of_tables: Mapping[str, tuple[Comparison, ...]] = field(default_factory=dict)

    def of(self, table: str) -> Query:
        """The query with the conditions that are about one of its tables."""
        return replace(self, filters=self.filters or self.of_tables.get(table, ()))


def parse_query(text: str, connection: DuckDBPyConnection, *, limit: int | None) -> Query:
    """Parse one query, of which at most ``limit`` rows will be looked at.

    Raises:
        QueryError: It is not one query.
    """
    import duckdb

    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise QueryError(problem=first_line(error), remedy=CORRECT_IT) from error
    if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
        kinds = ", ".join(s.type.name for s in statements) or "nothing"
        raise QueryError(problem=f"This is not one query that only reads; found: {kinds}.", remedy=_ONE_QUERY)
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    tree = json.loads(row[0] if row else "{}")
    if tree.get("error", True):
        raise QueryError(problem="DuckDB cannot take this query apart (PIVOT?).", remedy=_ONE_QUERY)
    top = tree["statements"][0]["node"]
    nodes = list(_nodes(top))
    with_names = {entry["key"].lower() for n in nodes for entry in (n.get("cte_map") or {}).get("map", ())}
    tables = [_table(n, with_names) for n in _tables_of(top)]
    names = [name for name in tables if name]
    source = top.get("from_table") or {}
    single = len(tables) == len(names) == 1 and source.get("type") == "BASE_TABLE" and not _renamed(source)
    return Query(
        text=text,
        tables=tuple(dict.fromkeys(names)),
        words=frozenset(_words(top)),
        every_column=_every_column(nodes),
        only_schema=source.get("show_type") == "DESCRIBE" and len(_tables_of(source)) == len(tables),
        sources=frozenset(_sources(nodes)),
        filters=tuple(comparisons(top)) if single else (),
        first=_first(top, limit) if single else None,
        of_tables={} if single else of_tables(nodes, lambda node: _table(node, with_names)),
    )


def first_line(error: Exception) -> str:
    """What DuckDB says of a query, without the picture of the place."""
    return " ".join(str(error).partition("\n\n")[0].split()).rstrip(".") + "."


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for child in _children(tree):
        yield from _nodes(child)


def _children(tree: object) -> Collection[object]:
    return tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()


def _tables_of(tree: object) -> list[dict[str, Any]]:
    return [node for node in _nodes(tree) if node.get("type") == "BASE_TABLE"]


def _sources(nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION":
            yield str(node["function"]["function_name"]).lower()
        elif node.get("type") == "SHOW_REF":
            yield str(node.get("show_type"))


def _words(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree.lower()
    elif not isinstance(tree, dict) or tree.get("type") != "BASE_TABLE":  # a table's name names no column
        for child in _children(tree):
            yield from _words(child)


def _table(node: dict[str, Any], with_names: set[str]) -> str | None:
    """The table of a FROM item, in lower case and without the catalog; None for a name that WITH defines."""
    catalog, schema, table = (
        str(node.get(k) or "").lower() for k in ("catalog_name", "schema_name", "table_name")
    )
    if not schema and table in with_names:
        return None
    if node.get("at_clause"):
        raise QueryError(problem="AT is not supported.", remedy="Use --as-of, for all tables of the query.")
    return ".".join(part for part in (catalog if catalog != CATALOG else "", schema, table) if part)


def _every_column(nodes: list[dict[str, Any]]) -> bool:
    sources = [n for n in nodes if n.get("type") == "BASE_TABLE"]
    tables = {str(n.get(k) or "").lower() for n in sources for k in ("table_name", "alias")}
    return any(map(_renamed, sources)) or any(
        n.get("type") == "STAR"
        or n.get("ref_type") == "NATURAL"
        or (n.get("type") == "COLUMN_REF" and str(n["column_names"][-1]).lower() in tables)  # a whole row
        for n in nodes
    )


def _renamed(source: dict[str, Any]) -> bool:
    """Tell whether a FROM item gives its columns other names, as in ``FROM sales.item AS i(a, b)``."""
    return bool(source.get("column_name_alias"))


def _first(top: dict[str, Any], limit: int | None) -> int | None:
    """How many rows are enough for a query that only picks columns: then any first rows will do."""
    counts = [limit]
    for modifier in top.get("modifiers") or ():
        count = constant(modifier.get("limit"))
        if modifier.get("limit_type") != "ROW_COUNT" or modifier.get("offset") or not isinstance(count, int):
            return None
        counts.append(count)
    picks = (
        all(not value for key, value in top.items() if key not in _PLAIN_KEYS)
        and top.get("aggregate_handling") == "STANDARD_HANDLING"
        and not (top.get("cte_map") or {}).get("map")
        and not top["from_table"].get("sample")
        and all(n.get("type") == "COLUMN_REF" or _bare_star(n) for n in top["select_list"])
    )
    return min((c for c in counts if c is not None), default=None) if picks else None


def _bare_star(node: dict[str, Any]) -> bool:
    return node.get("type") == "STAR" and not node.get("columns") and not node.get("expr")
