"""The columns of a derived table by its query's text: read by DuckDB's parser, without a JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.lineage.columns import InputColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Relation = dict[str, list[InputColumn]]
"""The columns of something in FROM, in lower case, each with the columns of inputs that it is made of."""
_PARSED: Final = "SELECT json_serialize_sql(?::VARCHAR)"


class _UntracedError(Exception):
    """A part of a query that is not followed here."""


def query_lineage(sql: str, inputs: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[InputColumn]]:
    """The columns of a query's answer that can be followed, each with the inputs' columns it is made of.

    A column that Spark names, or one of a query that DuckDB's parser does not know, is left out.

    Args:
        sql: A SELECT over the inputs, in Spark's SQL.
        inputs: The columns of each input by its name in the query.

    Example:
        >>> query_lineage("select o.id, o.a + o.b as total from o", {"o": ["id", "a", "b"]})["total"]
        [InputColumn(source='o', column='a', how='TRANSFORMATION', masked=False), \
InputColumn(source='o', column='b', how='TRANSFORMATION', masked=False)]
    """
    scope = {
        alias.lower(): {name.lower(): [InputColumn(alias, name, "IDENTITY")] for name in names}
        for alias, names in inputs.items()
    }
    tree = _parsed(sql)
    try:
        return _of_select(tree["statements"][0]["node"], scope) if tree else {}
    except (_UntracedError, KeyError):  # another version of DuckDB may write the tree otherwise
        return {}


def _parsed(sql: str) -> dict[str, Any] | None:
    """The query as a tree; None where DuckDB's parser does not know it."""
    import duckdb

    # Spark quotes names by backticks, DuckDB by what Spark takes for texts.
    text = sql.replace("`", '"') if '"' not in sql else sql
    with duckdb.connect() as connection:
        row = connection.execute(_PARSED, [text]).fetchone()
    tree: dict[str, Any] = json.loads(row[0] if row else "{}")
    return None if tree.get("error", True) else tree


def _of_select(node: dict[str, Any], scope: Mapping[str, Relation]) -> Relation:
    if node.get("type") != "SELECT_NODE":
        raise _UntracedError
    known = dict(scope)
    for entry in (node.get("cte_map") or {}).get("map", ()):
        made = entry["value"]
        if made.get("aliases"):
            raise _UntracedError
        known[str(entry["key"]).lower()] = _of_select(made["query_node"], known)
    relations = dict(_relations(node.get("from_table") or {}, known))
    found: Relation = {}
    for item in node["select_list"]:
        if item.get("type") == "STAR":
            found |= _of_star(item, relations)
            continue
        name = item.get("alias") or (item["column_names"][-1] if item.get("type") == "COLUMN_REF" else "")
        if name:
            made_of = _inputs_of(item, relations)
            if made_of:
                found[str(name).lower()] = made_of
    return found


def _relations(source: dict[str, Any], known: Mapping[str, Relation]) -> Iterator[tuple[str, Relation]]:
    """What stands in FROM, each by the name under which columns are asked of it."""
    match source.get("type"):
        case "JOIN":
            yield from _relations(source["left"], known)
            yield from _relations(source["right"], known)
        case "BASE_TABLE":
            name = str(source.get("table_name") or "").lower()
            if name not in known or source.get("column_name_alias"):
                raise _UntracedError
            yield str(source.get("alias") or name).lower(), known[name]
        case "SUBQUERY" if not source.get("column_name_alias"):
            yield str(source.get("alias") or "").lower(), _of_select(source["subquery"]["node"], known)
        case "EMPTY" | None:
            return
        case _:
            raise _UntracedError


def _of_star(item: dict[str, Any], relations: Mapping[str, Relation]) -> Relation:
    """The columns of ``*`` or ``alias.*``."""
    if item.get("expr") or item.get("columns") or item.get("replace_list") or item.get("exclude_list"):
        raise _UntracedError
    wanted = str(item.get("relation_name") or "").lower()
    found: Relation = {}
    for name, columns in relations.items():
        if wanted in ("", name):
            found |= {column: made_of for column, made_of in columns.items() if column not in found}
    return found


def _inputs_of(item: dict[str, Any], relations: Mapping[str, Relation]) -> list[InputColumn]:
    """The columns of inputs that an expression is made of."""
    if item.get("type") == "COLUMN_REF":
        return _referred(item["column_names"], relations)
    found: list[InputColumn] = []
    for node in _nodes(item):
        if node.get("class") == "SUBQUERY":
            return []
        if node.get("type") == "COLUMN_REF":
            referred = _referred(node["column_names"], relations)
            found += [InputColumn(one.source, one.column, "TRANSFORMATION") for one in referred]
    return list(dict.fromkeys(found))


def _referred(names: Sequence[str], relations: Mapping[str, Relation]) -> list[InputColumn]:
    """The inputs' columns behind a name: ``alias.column``, ``column``, or either with a field of a struct."""
    words = [str(name).lower() for name in names]
    if len(words) > 1 and words[0] in relations:
        return relations[words[0]].get(words[1], [])
    having = [columns for columns in relations.values() if words[0] in columns]
    return having[0][words[0]] if len(having) == 1 else []


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(child)
