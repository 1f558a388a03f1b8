"""Mistakes in a text of SQL, by sqlglot: its grammar, and names of columns, tables and functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from sqlglot import Expr
    from sqlglot import expressions as exp
    from sqlglot.optimizer.scope import Scope

_DIALECT: Final = "spark"
_NEAR: Final = 0.75
_SHORT: Final = 4


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is wrong in a text, in which of its lines (from 1 on), and what to do."""

    line: int
    problem: str
    remedy: str


@dataclass
class Parsed:
    """A text of SQL: its tree, where it has one, and what is wrong with it."""

    tree: Expr | None = None
    found: list[Found] = field(default_factory=list)
    outputs: tuple[str, ...] | None = None
    """The columns that a query gives; None where they are not known."""


def parse_condition(text: str) -> Parsed:
    """Parse a condition on a row."""
    from sqlglot import exp

    return _parsed(text, exp.Condition)


def parse_query(text: str) -> Parsed:
    """Parse one SELECT, also one after WITH, or several that are united."""
    from sqlglot import exp

    found = _parsed(text, None)
    if found.tree is not None and not isinstance(found.tree, exp.Query | exp.Values):
        problem = "the text is no query."
        return Parsed(None, [Found(line=1, problem=problem, remedy="Write one SELECT over the inputs.")])
    return found


def _parsed(text: str, into: type[Expr] | None) -> Parsed:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(text.rstrip().rstrip(";"), read=_DIALECT, into=into)
    except SqlglotError as error:
        return Parsed(None, [_refused(error)])
    return Parsed(tree, list(_unknown_functions(tree)))


def _refused(error: Exception) -> Found:
    """What the parser says; it shows no more of the text than one word, for the rest may be values."""
    said: Mapping[str, Any] = next(iter(getattr(error, "errors", None) or ()), {})
    line, word = int(said.get("line") or 1), str(said.get("highlight") or "")
    plain = word if word.isidentifier() or not word.strip("=<>!+-*/%,.()[]|&^~ ") else ""
    place = f" at '{plain}'" if plain else ""
    return Found(
        line=line,
        problem=f"the SQL cannot be parsed{place} (line {line}, column {said.get('col', '?')} of it).",
        remedy="Correct it: something is missing there, or too much.",
    )


def unknown_in_condition(tree: Expr, columns: Collection[str]) -> Iterator[Found]:
    """The columns of a condition that are none of these; names that begin with '_' are the framework's."""
    from sqlglot import exp

    known = {name.lower() for name in columns}
    seen = set[str]()
    for node in tree.find_all(exp.Column):
        name = _root(node)
        if name.lower() not in known | seen and not name.startswith("_"):
            seen.add(name.lower())
            yield Found(
                line=_line(node),
                problem=f"there is no column '{name}'.{did_you_mean(name, columns)}",
                remedy=f"Columns are: {listed(sorted(columns))}.",
            )


def resolve_query(parsed: Parsed, inputs: Mapping[str, Collection[str] | None]) -> None:
    """Add to a query what its names do not stand for, and the columns that it gives.

    Args:
        parsed: The query.
        inputs: The columns of each input, by the input's name in the query.
    """
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    if parsed.tree is None:
        return
    try:
        scopes = traverse_scope(parsed.tree)
    except SqlglotError:
        return  # names that are given twice and the like: Spark will say it
    given = {name.lower(): columns for name, columns in inputs.items()}
    for scope in scopes:
        parsed.found += _unknown_tables(scope, given, inputs)
        parsed.found += _unknown_columns(scope, given)
    if scopes:
        parsed.outputs = _outputs(scopes[-1], given)


def _unknown_tables(scope: Scope, given: Mapping[str, object], inputs: Iterable[str]) -> Iterator[Found]:
    from sqlglot import exp

    for source in scope.sources.values():
        # A name of several parts is a table of a catalog, which Spark looks up.
        if (
            isinstance(source, exp.Table)
            and source.name
            and not source.db
            and source.name.lower() not in given
        ):
            yield Found(
                line=_line(source),
                problem=f"there is no input '{source.name}'.{did_you_mean(source.name, inputs)}",
                remedy=f"Inputs are: {listed(inputs)}; or declare it under `derive.inputs`.",
            )


def _unknown_columns(scope: Scope, given: Mapping[str, Collection[str] | None]) -> Iterator[Found]:
    from sqlglot import exp

    sources = {name.lower(): _columns_of(source, given) for name, source in scope.sources.items()}
    if scope.expression.args.get("laterals"):
        sources["<lateral view>"] = None
    select = scope.expression
    named = select.expressions if isinstance(select, exp.Select) else []
    aliases = {one.alias.lower() for one in named if isinstance(one, exp.Alias)}
    is_inner = any(one.is_subquery for one in _with_parents(scope))
    seen = set[str]()
    for node in scope.columns:
        if node.find_ancestor(exp.Select) is not select:
            continue  # it is a subquery's own
        found = _unknown(node, sources, aliases, is_inner=is_inner)
        if found is not None and found.problem not in seen:
            seen.add(found.problem)
            yield found


def _with_parents(scope: Scope) -> Iterator[Scope]:
    at: Scope | None = scope
    while at is not None:
        yield at
        at = at.parent


def _unknown(
    node: exp.Column, sources: Mapping[str, Collection[str] | None], aliases: set[str], *, is_inner: bool
) -> Found | None:
    """What a column's name does not stand for; None where it does, or may."""
    first, *rest = [part.name for part in node.parts]
    if rest and first.lower() in sources:
        columns = sources[first.lower()]
        if columns is None or rest[0] == "*" or rest[0].lower() in {one.lower() for one in columns}:
            return None
        problem = f"'{first}' has no column '{rest[0]}'.{did_you_mean(rest[0], columns)}"
        return Found(line=_line(node), problem=problem, remedy=f"It has: {listed(sorted(columns))}.")
    if any(columns is None for columns in sources.values()) or not sources:
        return None
    known = {one for columns in sources.values() for one in columns or ()}
    # A subquery may also name columns of the query around it, and a SELECT its own names.
    if first.lower() in {one.lower() for one in known} | aliases or is_inner or first == "*":
        return None
    if rest:
        problem = f"nothing in the query is named '{first}'.{did_you_mean(first, sources)}"
        return Found(line=_line(node), problem=problem, remedy=f"Names are: {listed(sorted(sources))}.")
    problem = f"there is no column '{first}'.{did_you_mean(first, known)}"
    return Found(line=_line(node), problem=problem, remedy=f"Columns are: {listed(sorted(known))}.")


def _columns_of(source: object, given: Mapping[str, Collection[str] | None]) -> Collection[str] | None:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

    if isinstance(source, exp.Table):
        return None if source.db else given.get(source.name.lower())
    return _outputs(source, given) if isinstance(source, Scope) else None


def _outputs(scope: Scope, given: Mapping[str, Collection[str] | None]) -> tuple[str, ...] | None:
    """The columns that a query gives; None where a star stands for unknown ones, or they have no names."""
    from sqlglot import exp

    query: object = scope.expression
    if isinstance(query, exp.SetOperation):
        first = next(iter(scope.set_operation_scopes), None)
        return _outputs(first, given) if first is not None else None
    if not isinstance(query, exp.Select):
        return None
    found: list[str] = []
    for one in query.expressions:
        star = one if isinstance(one, exp.Star) else one.this if isinstance(one, exp.Column) else None
        if isinstance(star, exp.Star):
            if star.args.get("except_") or star.args.get("except") or star.args.get("replace"):
                return None
            of = one.table.lower() if isinstance(one, exp.Column) else ""
            for name, source in scope.sources.items():
                if not of or name.lower() == of:
                    columns = _columns_of(source, given)
                    if columns is None:
                        return None
                    found += columns
        elif isinstance(one, exp.Alias | exp.Column):
            found.append(one.alias_or_name)
        else:
            return None
    return tuple(found)


def _unknown_functions(tree: Expr) -> Iterator[Found]:
    """Functions that Spark does not have, and that are spelled nearly as one that it has.

    A name that is near to none may be a function that somebody has registered.
    """
    from sqlglot import exp

    for node in tree.find_all(exp.Anonymous):
        name = str(node.this).lower()
        near = [] if name in _functions() else get_close_matches(name, sorted(_functions()), 1, _NEAR)
        if near and len(name) >= _SHORT:
            problem = f"there is no function '{name}'. Did you mean '{near[0]}'?"
            yield Found(line=_line(node), problem=problem, remedy="Correct its name.")


@cache
def _functions() -> frozenset[str]:
    from pyspark.sql import functions
    from sqlglot.dialects.spark import Spark

    own = {name.lower() for name in Spark.Parser.FUNCTIONS}
    return frozenset(own | {name for name in dir(functions) if not name.startswith("_")})


def _root(node: exp.Column) -> str:
    """The first part of a column's name: ``a`` of the field ``a.b``."""
    return next((part.name for part in node.parts), node.name)


def _line(node: Expr) -> int:
    """The line of a text in which a name stands; 1 where the parser does not tell."""
    lines = [one.meta["line"] for one in node.walk() if "line" in one.meta]
    return int(min(lines, default=1))
