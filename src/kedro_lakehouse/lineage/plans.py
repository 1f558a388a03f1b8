"""Column lineage of a query, from Spark's analysed plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.lineage.columns import ColumnLineage, Direct, Indirect, InputColumn
from kedro_lakehouse.session.plans import expression_id, expressions_in, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kedro_lakehouse.session.plans import PlanNode

_RANK: Final[tuple[Direct, ...]] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
_HIDES_RIGHT: Final = ("LeftSemi$", "LeftAnti$")
_DECIDING: Final[Mapping[str, Mapping[str, Indirect]]] = {
    "Filter": {"condition": "FILTER"},
    "Join": {"condition": "JOIN"},
    "Aggregate": {"groupingExpressions": "GROUP_BY"},
    "Sort": {"order": "SORT"},
    "Window": {"partitionSpec": "WINDOW", "orderSpec": "WINDOW"},
}
_MAKES: Final = {"Project": "projectList", "Aggregate": "aggregateExpressions", "Window": "windowExpressions"}
_KEEPS_COLUMNS: Final = frozenset(
    {"Filter", "Sort", "SubqueryAlias", "View", "Distinct", "Deduplicate", "LocalLimit", "GlobalLimit",
     "Offset", "Tail", "Sample", "Repartition", "RepartitionByExpression",
     "ResolvedHint", "WithWindowDefinition"}
)  # fmt: skip

_Origins = dict[tuple[str, str], Direct]
"""How each (input, column) is used."""


class UntracedPlanError(Exception):
    """A plan has a part whose columns cannot be followed: no lineage is better than a wrong one."""


@dataclass(frozen=True)
class _Column:
    id: int
    name: str
    origins: _Origins


@dataclass
class _Trace:
    """What was found on the way through a plan."""

    inputs: Sequence[str]
    defined: dict[int, list[_Column]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    deciding: dict[InputColumn, None] = field(default_factory=dict)


def plan_lineage(plan: Sequence[Mapping[str, Any]], inputs: Sequence[str]) -> ColumnLineage:
    """Follow each column of a query's result back to the inputs.

    Args:
        plan: The analysed plan in the JSON of Spark's ``TreeNode.toJSON``; each input is its first common
            table expression of that name, a plain SELECT of columns: there the search ends.
        inputs: The names of the inputs.

    Raises:
        UntracedPlanError: Some part of the plan is of a kind that is not known here.
    """
    trace = _Trace(inputs)
    try:
        found = _columns(tree_of(plan), {}, trace)
    except LookupError as error:  # a node without a field that those of its kind have
        raise UntracedPlanError(str(error)) from error
    columns = {
        column.name: [InputColumn(source, name, how) for (source, name), how in column.origins.items()]
        for column in found
        if column.origins
    }
    return ColumnLineage(columns, list(trace.deciding))


def _columns(plan: PlanNode, outer: Mapping[int, _Origins], trace: _Trace) -> list[_Column]:
    """The columns that a plan returns, with their origins; ``outer`` are the columns around a subquery."""
    if plan.kind == "CTERelationDef" and (given := _input(plan, trace)):
        return given
    below = [_columns(child, outer, trace) for child in plan.children]
    scope = dict(outer) | {c.id: c.origins for columns in below for c in columns}
    for name, how in _DECIDING.get(plan.kind, {}).items():
        for expression in expressions_in(plan.fields[name]):
            origins = _origins(expression, scope, trace)
            trace.deciding |= {InputColumn(source, column, how): None for source, column in origins}
    return _output(plan, below, scope, trace)


def _output(  # noqa: C901, PLR0911 - a table of cases
    plan: PlanNode, below: list[list[_Column]], scope: Mapping[int, _Origins], trace: _Trace
) -> list[_Column]:
    match plan.kind:
        case "Project" | "Aggregate" | "Window":
            named = [_named(e, scope, trace) for e in expressions_in(plan.fields[_MAKES[plan.kind]])]
            return (below[0] if plan.kind == "Window" else []) + named
        case "Generate":
            origins = _origins(tree_of(plan.fields["generator"]), scope, trace)
            made_here = {origin: _at_least("TRANSFORMATION", how) for origin, how in origins.items()}
            given = expressions_in(plan.fields["generatorOutput"])
            return below[0] + [_Column(expression_id(e), str(e.fields["name"]), made_here) for e in given]
        case "Join":
            hides = str(plan.fields["joinType"]).endswith(tuple(f"{kind}'}}" for kind in _HIDES_RIGHT))
            return below[0] if hides else below[0] + below[1]
        case "Expand":
            made_of = [
                [_origins(e, scope, trace) for e in expressions_in(p)] for p in plan.fields["projections"]
            ]
            given = expressions_in(plan.fields["output"])
            merged = [_merged(origins) for origins in zip(*made_of, strict=True)]
            return [
                _Column(expression_id(e), str(e.fields["name"]), m)
                for e, m in zip(given, merged, strict=True)
            ]
        case "Union":
            return [
                _Column(c[0].id, c[0].name, _merged(x.origins for x in c)) for c in zip(*below, strict=True)
            ]
        case "Intersect" | "Except":
            deciding = [origin for column in below[1] for origin in column.origins]
            trace.deciding |= {InputColumn(source, name, "FILTER"): None for source, name in deciding}
            return below[0]
        case "CTERelationDef":
            trace.defined[int(plan.fields["id"])] = below[0]
            return below[0]
        case "CTERelationRef":
            defined = trace.defined[int(plan.fields["cteId"])]
            given = expressions_in(plan.fields["output"])
            return [_Column(expression_id(e), c.name, c.origins) for e, c in zip(given, defined, strict=True)]
        case "WithCTE":
            return below[-1]
        case "OneRowRelation":
            return []
        case "LocalRelation":
            return [
                _Column(expression_id(e), str(e.fields["name"]), {})
                for e in expressions_in(plan.fields["output"])
            ]
        case kind if kind in _KEEPS_COLUMNS:
            return below[0]
    raise UntracedPlanError(plan.kind)


def _input(plan: PlanNode, trace: _Trace) -> list[_Column]:
    """The columns of an input, if this is the first common table expression of its name; else none."""
    name = str((plan.children[0].fields.get("identifier") or {}).get("name", ""))
    if name not in trace.inputs or name in trace.named:
        return []
    trace.named.add(name)
    select = plan.children[0].children[0]
    columns = [
        (expression_id(e), str(e.fields["name"])) for e in expressions_in(select.fields["projectList"])
    ]
    found = [_Column(number, column, {(name, column): "IDENTITY"}) for number, column in columns]
    trace.defined[int(plan.fields["id"])] = found
    return found


def _named(expression: PlanNode, scope: Mapping[int, _Origins], trace: _Trace) -> _Column:
    value = expression.children[0] if expression.kind == "Alias" else expression
    return _Column(
        expression_id(expression), str(expression.fields.get("name")), _origins(value, scope, trace)
    )


def _origins(expression: PlanNode, scope: Mapping[int, _Origins], trace: _Trace) -> _Origins:
    """The inputs' columns from which an expression is made."""
    if expression.kind == "AttributeReference":
        if expression_id(expression) not in scope:
            raise UntracedPlanError(str(expression.fields["name"]))
        return scope[expression_id(expression)]
    if expression.kind == "OuterReference":
        return _origins(tree_of(expression.fields["e"]), scope, trace)
    parts = [_origins(child, scope, trace) for child in expression.children]
    if isinstance(expression.fields.get("plan"), list):
        # The children of a subquery repeat what it uses from outside; its value comes from its own plan.
        inner = _columns(tree_of(expression.fields["plan"]), scope, trace)
        parts = [column.origins for column in inner]
    how: Direct = "AGGREGATION" if expression.kind == "AggregateExpression" else "TRANSFORMATION"
    merged = _merged(parts)
    return {origin: _at_least(how, found) for origin, found in merged.items()}


def _merged(many: Iterable[_Origins]) -> _Origins:
    merged: _Origins = {}
    for origins in many:
        for origin, how in origins.items():
            merged[origin] = _at_least(how, merged.get(origin, "IDENTITY"))
    return merged


def _at_least(one: Direct, other: Direct) -> Direct:
    return max(one, other, key=_RANK.index)
