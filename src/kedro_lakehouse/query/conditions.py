"""Conditions of a query that are about one table each, so that its files can be chosen by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Node = dict[str, Any]

_OPERATORS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_PLAIN_JOINS: Final = ("REGULAR", "CROSS")
_CARRIED: Final = ("=", "in")
"""Conditions that two equal columns share."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``column operator constant``, a condition that every row of the answer meets."""

    column: str
    operator: str
    constant: int | str | tuple[int | str, ...]


def comparisons(top: Node) -> Iterator[Comparison]:
    """The conditions of WHERE, joined by AND, that compare a column without a table's name."""
    if top.get("type") != "SELECT_NODE" or top.get("sample") or top["from_table"].get("sample"):
        return
    for names, found in _compared(_parts(top.get("where_clause"))):
        if len(names) == 1:
            yield found


def of_tables(
    selects: Iterable[Node], named: Callable[[Node], str | None]
) -> dict[str, tuple[Comparison, ...]]:
    """The conditions on each table that a query reads once, in whichever of its SELECTs that is.

    Only inner joins are looked at. A condition holds for a table whose name or alias it gives, for each
    column of USING, and for columns that are said to be equal to one with a condition.

    Args:
        selects: The query's nodes of kind SELECT, also those of other kinds.
        named: The stored table that a FROM item names; None for others.
    """
    found: dict[str, tuple[Comparison, ...]] = {}
    seen: Counter[str] = Counter()
    for select in selects:
        if select.get("type") == "BASE_TABLE" and (name := named(select)):
            seen[name] += 1
        elif select.get("type") == "SELECT_NODE" and not select.get("sample"):
            found |= dict(_of_select(select, named))
    return {name: conditions for name, conditions in found.items() if seen[name] == 1 and conditions}


def constant(node: Node | None) -> int | str | None:
    """The whole number or text that a node of a query stands for; None for all others."""
    literal = (node or {}).get("literal") or {}
    kind, text = literal.get("kind"), str(literal.get("text", ""))
    if kind == "INTEGER":
        return int(text) if text.removeprefix("-").isdecimal() else None
    return text if kind == "STRING" else None


def _of_select(
    select: Node, named: Callable[[Node], str | None]
) -> Iterator[tuple[str, tuple[Comparison, ...]]]:
    joined = _Joined()
    if not joined.take(select.get("from_table") or {}):
        return
    aliases = [_alias(leaf) for leaf in joined.leaves]
    by_alias = dict(zip(aliases, joined.leaves, strict=True))
    if len(by_alias) < len(aliases) or len(aliases) < 2:  # noqa: PLR2004 - one table is no join
        return
    conditions = [*joined.conditions, *_parts(select.get("where_clause"))]
    held: dict[str, list[Comparison]] = {alias: [] for alias in by_alias}
    for names, found in _compared(conditions):
        if len(names) == 2 and names[0] in held:  # noqa: PLR2004 - a table's name and a column's
            held[names[0]].append(found)
        elif len(names) == 1 and names[0] in joined.using and len(held) == 2:  # noqa: PLR2004 - as above
            for own in held.values():
                own.append(found)
    _carry(held, [*_equalities(conditions), *_of_using(joined.using, aliases)])
    for alias, leaf in by_alias.items():
        is_plain = leaf.get("type") == "BASE_TABLE" and not leaf.get("column_name_alias")
        if is_plain and (name := named(leaf)):
            yield name, tuple(dict.fromkeys(held[alias]))


class _Joined:
    """The FROM items that inner joins put together, with the conditions of these joins."""

    def __init__(self) -> None:
        self.leaves: list[Node] = []
        self.conditions: list[Node] = []
        self.using: set[str] = set()

    def take(self, item: Node) -> bool:
        """Take a FROM item apart; False if another join than an inner one is in it."""
        if item.get("sample"):
            return False
        if item.get("type") != "JOIN":
            self.leaves.append(item)
            return True
        if item.get("join_type") != "INNER" or item.get("ref_type") not in _PLAIN_JOINS:
            return False
        self.conditions += _parts(item.get("condition"))
        self.using |= {str(name).lower() for name in item.get("using_columns") or ()}
        return self.take(item["left"]) and self.take(item["right"])


def _carry(held: dict[str, list[Comparison]], equal: Sequence[tuple[str, str, str, str]]) -> None:
    """Give columns that are equal to others the conditions of these, until nothing is new."""
    is_new = True
    while is_new:
        is_new = False
        for one, column, other, same in equal:
            for found in list(held.get(one, ())):
                if found.column != column or found.operator not in _CARRIED or other not in held:
                    continue
                carried = Comparison(column=same, operator=found.operator, constant=found.constant)
                if carried not in held[other]:
                    held[other].append(carried)
                    is_new = True


def _equalities(conditions: Iterable[Node]) -> Iterator[tuple[str, str, str, str]]:
    for part in conditions:
        sides = [_column(part.get(side)) for side in ("left", "right")]
        if part.get("type") == "COMPARE_EQUAL" and all(len(names) == 2 for names in sides):  # noqa: PLR2004
            (one, column), (other, same) = sides
            yield one, column, other, same
            yield other, same, one, column


def _of_using(using: Iterable[str], aliases: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    if len(aliases) == 2:  # noqa: PLR2004 - of three it is not said which two have the column
        for column in using:
            yield aliases[0], column, aliases[1], column
            yield aliases[1], column, aliases[0], column


def _compared(conditions: Iterable[Node]) -> Iterator[tuple[list[str], Comparison]]:
    for part in conditions:
        kind = str(part.get("type", ""))
        if kind == "COMPARE_IN":
            names, values = _column(part["children"][0]), [constant(one) for one in part["children"][1:]]
            known = tuple(value for value in values if value is not None)
            if names and known and len(known) == len(values):
                yield names, Comparison(column=names[-1], operator="in", constant=known)
            continue
        names, value = _column(part.get("left")), constant(part.get("right"))
        if kind in _OPERATORS and names and value is not None:
            yield names, Comparison(column=names[-1], operator=_OPERATORS[kind], constant=value)


def _column(node: Node | None) -> list[str]:
    """The parts of a column's name, in lower case; none if the node is no column."""
    if (node or {}).get("type") != "COLUMN_REF":
        return []
    return [str(part).lower() for part in (node or {}).get("column_names", ())]


def _parts(condition: Node | None) -> list[Node]:
    """The conditions that AND joins."""
    if not condition:
        return []
    return list(condition["children"]) if condition.get("type") == "CONJUNCTION_AND" else [condition]


def _alias(item: Node) -> str:
    return str(item.get("alias") or item.get("table_name") or id(item)).lower()
