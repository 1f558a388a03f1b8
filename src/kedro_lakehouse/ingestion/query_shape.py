"""For which queries the keys that a change of an input can touch are found through the query itself, and how.

The query's text is never changed. It is run over a part of each input instead, and two facts hold for every
query that ``shape_of`` accepts, because its result is made row by row, and by groups, from joined rows:

1. Over parts of its inputs, an accepted query returns at least those joined rows whose parts are all there.
   So its keys over the changed rows, and over the rows that join with them, are all keys that can be touched.
2. Over the rows that have a key, and all rows that join with them, it returns that key's rows exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.session.plans import expression_id, expressions_in, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.session.plans import PlanNode

_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions"
# Only what always has the same value for the same values: a function that is not named here is not proven.
_NAMES: Final = """
    Alias AttributeReference Literal Cast
    And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In InSet
    IsNull IsNotNull IsNaN Between Coalesce CaseWhen If IfNull Nvl Nvl2 NullIf NaNvl Greatest Least
    Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs Signum
    Ceil Floor RoundCeil RoundFloor Round BRound Sqrt Pow Exp Log Log10 Log2 Log1p
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight
    Upper Lower InitCap StringTrim StringTrimLeft StringTrimRight Substring Left Right Length Reverse
    Concat ConcatWs StringReplace StringTranslate StringLPad StringRPad StringRepeat StringInstr StringLocate
    SubstringIndex SplitPart StringSplit Like ILike RLike StartsWith EndsWith Contains
    RegExpReplace RegExpExtract Ascii Chr Md5 Sha1 Sha2 Crc32 Hex Unhex Base64 UnBase64
    Year Quarter Month WeekOfYear DayOfYear DayOfMonth DayOfWeek WeekDay Hour Minute Second
    DateAdd DateSub DateDiff AddMonths MonthsBetween LastDay NextDay TruncDate TruncTimestamp
    MakeDate DateFormatClass ParseToDate ParseToTimestamp GetTimestamp FromUnixTime SecondsToTimestamp
    TimeAdd TimestampAddInterval DateAddInterval SubtractDates SubtractTimestamps TimestampAdd TimestampDiff
    CreateNamedStruct GetStructField CreateArray GetArrayItem ElementAt Size CreateMap GetMapValue
"""
_FUNCTIONS: Final = frozenset(_NAMES.split())
_AGGREGATES: Final = frozenset({"Count", "Sum", "Average", "Min", "Max"})
_REFUSED: Final[Mapping[str, str]] = {
    "Window": "it has a window function",
    "Distinct": "it has DISTINCT",
    "Deduplicate": "it has DISTINCT",
    "Union": "it is made of several queries (UNION)",
    "Intersect": "it is made of several queries (INTERSECT)",
    "Except": "it is made of several queries (EXCEPT)",
    "GlobalLimit": "it has LIMIT",
    "LocalLimit": "it has LIMIT",
    "Offset": "it has OFFSET",
    "Sort": "it has ORDER BY",
    "Generate": "it makes several rows of one (explode)",
    "Expand": "it has grouping sets",
    "LateralJoin": "it has a lateral join",
    "ScalarSubquery": "it has a subquery in an expression",
    "ListQuery": "it has a subquery in an expression",
    "InSubquery": "it has a subquery in an expression",
    "Exists": "it has a subquery in an expression",
    "OuterReference": "it has a subquery in an expression",
}
_JOINS: Final = {"Inner$": True, "Cross$": True, "LeftOuter$": False}
"""Whether a kind of join drops the rows of its left side that match none."""


class ComputedWholeError(Exception):
    """The keys that a change touches are not found through the query; the text says why."""


@dataclass(frozen=True)
class CastTo:
    """A cast to a type, by its name; ``fails`` if a value that does not fit is an error."""

    kind: str
    fails: bool


@dataclass(frozen=True)
class Value:
    """A column of one occurrence of an input (its number in the query), perhaps cast, first cast first."""

    occurrence: int
    column: str
    casts: tuple[CastTo, ...] = ()


@dataclass(frozen=True)
class _Made:
    """What is computed from columns; ``aggregated`` if from those of several rows."""

    aggregated: bool


_Columns = dict[int, "Value | _Made"]


@dataclass(frozen=True)
class Edge:
    """An equality that a join needs: rows of ``later`` join only rows of ``earlier`` with an equal value."""

    earlier: Value
    later: Value
    is_inner: bool


@dataclass(frozen=True)
class Step:
    """Of one occurrence only rows are needed whose value ``into`` is a value ``source`` of another one."""

    source: Value
    into: Value


@dataclass
class QueryShape:
    """The occurrences of the inputs in a query, how they are joined, and where each key comes from."""

    occurrences: list[str] = field(default_factory=list)
    """The input of each occurrence: an input that the query names twice has two."""
    optional: set[int] = field(default_factory=set)
    """The right sides of left joins: a joined row may lack them."""
    edges: list[Edge] = field(default_factory=list)
    keys: dict[str, Value | None] = field(default_factory=dict)
    """Where each key's values come from; None if they are computed."""

    def of_input(self, alias: str) -> list[int]:
        """The occurrences of an input."""
        return [number for number, name in enumerate(self.occurrences) if name == alias]

    def joined_with(self, start: int) -> list[Step]:
        """How to find the rows that can be joined with some rows of one occurrence, one step an occurrence.

        From the later side of an equality to the earlier one it goes only where the joined row is known to
        have the later one: at the start, and where a join drops the rows that lack it.
        """
        steps, present = [], {start}
        reached = {start}
        while step := self._next_step(reached, present):
            edge, is_up = step
            source, into = (edge.later, edge.earlier) if is_up else (edge.earlier, edge.later)
            steps.append(Step(source, into))
            reached.add(into.occurrence)
            if is_up or edge.is_inner:
                present.add(into.occurrence)
        return steps

    def _next_step(self, reached: set[int], present: set[int]) -> tuple[Edge, bool] | None:
        for edge in self.edges:
            later, earlier = edge.later.occurrence, edge.earlier.occurrence
            if earlier in reached and later not in reached:
                return edge, False
            if later in present and earlier not in reached:
                return edge, True
        return None

    def needed_for_keys(self) -> tuple[dict[int, dict[str, Value]], list[Step]]:
        """Which occurrences hold keys, and how to find all rows that join with the rows of these keys.

        The right side of a left join is cut only to what matches its left side: a row that lacked its match
        would look like one that has none.

        Returns:
            For each occurrence that is cut by its keys, these; and a step for each further occurrence.
        """
        holders: dict[int, dict[str, Value]] = {}
        for name, value in self.keys.items():
            if value is not None and value.occurrence not in self.optional:
                holders.setdefault(value.occurrence, {})[name] = value
        steps, reached = [], set(holders)
        while found := next(self._steps_for_keys(reached), None):
            steps.append(found)
            reached.add(found.into.occurrence)
        return holders, steps

    def _steps_for_keys(self, reached: set[int]) -> Iterator[Step]:
        for edge in self.edges:
            later, earlier = edge.later.occurrence, edge.earlier.occurrence
            if earlier in reached and later not in reached:
                yield Step(edge.earlier, edge.later)
            solid = edge.is_inner and not {later, earlier} & self.optional
            if solid and later in reached and earlier not in reached:
                yield Step(edge.later, edge.earlier)


def shape_of(plan: Sequence[Mapping[str, Any]], inputs: Sequence[str], keys: Sequence[str]) -> QueryShape:
    """Tell how a query joins its inputs, from its analysed plan.

    Args:
        plan: In the JSON of Spark's ``TreeNode.toJSON``; each input is its first common table expression of
            that name, a plain SELECT of columns.
        inputs: The names of the inputs.
        keys: The names of the derived table's keys, as the query returns them.

    Raises:
        ComputedWholeError: The query does what is not proven to be made key by key.
    """
    reader = _Reader(inputs)
    try:
        columns = reader.read(tree_of(plan))
    except (LookupError, TypeError, ValueError) as error:  # a node without a field that its kind has
        raise ComputedWholeError(f"its plan cannot be read ({error})") from error
    shape = reader.shape
    for key in keys:
        found = [value for name, value in columns if name.lower() == key.lower()]
        if len(found) != 1:
            raise ComputedWholeError(f"it returns no column {key}")
        if isinstance(found[0], _Made) and found[0].aggregated:
            raise ComputedWholeError(f"its key {key} is made of several rows")
        shape.keys[key] = found[0] if isinstance(found[0], Value) else None
    return shape


class _Reader:
    """Reads a plan from its inputs to its result."""

    def __init__(self, inputs: Sequence[str]) -> None:
        self.shape = QueryShape()
        self._inputs = inputs
        self._given: dict[int, tuple[str, list[str]]] = {}
        self._defined: dict[int, PlanNode] = {}
        self._is_grouped = False

    def read(self, plan: PlanNode) -> list[tuple[str, Value | _Made]]:
        """The named columns of the result."""
        columns = self._columns(plan)
        return [(str(e.fields["name"]), columns[expression_id(e)]) for e in self._output(plan)]

    def _output(self, plan: PlanNode) -> list[PlanNode]:
        """The named expressions of the topmost SELECT."""
        while plan.kind not in {"Project", "Aggregate"}:
            plan = plan.children[-1]
        made = "projectList" if plan.kind == "Project" else "aggregateExpressions"
        return expressions_in(plan.fields[made])

    def _columns(self, plan: PlanNode) -> _Columns:  # noqa: PLR0911 - a table of cases
        match plan.kind:
            case "WithCTE":
                for definition in plan.children[:-1]:
                    self._define(definition)
                return self._columns(plan.children[-1])
            case "CTERelationRef":
                return self._named_part(plan)
            case "SubqueryAlias" | "ResolvedHint":
                return self._columns(plan.children[0])
            case "Project":
                below = self._columns(plan.children[0])
                return {
                    expression_id(e): self._value(e, below)
                    for e in expressions_in(plan.fields["projectList"])
                }
            case "Filter":
                return self._filter(plan)
            case "Join":
                return self._join(plan)
            case "Aggregate":
                return self._group(plan)
        raise ComputedWholeError(
            _REFUSED.get(plan.kind, f"it has a part that is not known here ({plan.kind})")
        )

    def _define(self, definition: PlanNode) -> None:
        number, named = int(definition.fields["id"]), definition.children[0]
        name = str((named.fields.get("identifier") or {}).get("name", ""))
        if name in self._inputs and name not in {alias for alias, _ in self._given.values()}:
            select = expressions_in(named.children[0].fields["projectList"])
            self._given[number] = name, [str(e.fields["name"]) for e in select]
        else:
            self._defined[number] = named

    def _named_part(self, plan: PlanNode) -> _Columns:
        """An occurrence of an input, or the query's own common table expression, read where it is named."""
        number, output = int(plan.fields["cteId"]), expressions_in(plan.fields["output"])
        if number in self._given:
            alias, names = self._given[number]
            self.shape.occurrences.append(alias)
            occurrence = len(self.shape.occurrences) - 1
            return {expression_id(e): Value(occurrence, name) for e, name in zip(output, names, strict=True)}
        below = self._defined[number]
        columns, made = self._columns(below), self._output(below)
        return {expression_id(e): columns[expression_id(m)] for e, m in zip(output, made, strict=True)}

    def _filter(self, plan: PlanNode) -> _Columns:
        below = self._columns(plan.children[0])
        condition = tree_of(plan.fields["condition"])
        if self._value(condition, below) == _Made(aggregated=True):
            raise ComputedWholeError("it has HAVING with an aggregate")
        for one, other in self._equalities(condition, below):
            if not {one.occurrence, other.occurrence} & self.shape.optional:
                earlier, later = sorted((one, other), key=lambda v: v.occurrence)
                self.shape.edges.append(Edge(earlier, later, is_inner=True))
        return below

    def _join(self, plan: PlanNode) -> _Columns:
        written = str((plan.fields.get("joinType") or {}).get("object", "")).rpartition(".")[2]
        if written not in _JOINS:
            raise ComputedWholeError(f"it has a join that is neither inner nor left ({written.rstrip('$')})")
        left = self._columns(plan.children[0])
        first = len(self.shape.occurrences)
        right = self._columns(plan.children[1])
        if self._is_grouped:
            raise ComputedWholeError("it joins what it has grouped")
        if len(self.shape.occurrences) != first + 1:
            raise ComputedWholeError("the right side of a join is itself a join")
        is_inner, below = _JOINS[written], left | right
        for condition in expressions_in(plan.fields.get("condition")):
            self._value(condition, below)
            for one, other in self._equalities(condition, below):
                earlier, later = sorted((one, other), key=lambda v: v.occurrence)
                if later.occurrence == first:
                    self.shape.edges.append(Edge(earlier, later, is_inner))
        if not is_inner:
            self.shape.optional.add(first)
        return below

    def _group(self, plan: PlanNode) -> _Columns:
        below = self._columns(plan.children[0])
        if self._is_grouped:
            raise ComputedWholeError("it groups twice")
        self._is_grouped = True
        grouping = expressions_in(plan.fields.get("groupingExpressions"))
        if not grouping:
            raise ComputedWholeError("it has aggregates without GROUP BY")
        for expression in grouping:
            self._value(expression, below)
        made = expressions_in(plan.fields["aggregateExpressions"])
        return {expression_id(e): self._value(e, below) for e in made}

    def _equalities(self, condition: PlanNode, below: _Columns) -> Iterator[tuple[Value, Value]]:
        """The equalities between columns of two occurrences that a condition needs."""
        if condition.kind == "And":
            for part in condition.children:
                yield from self._equalities(part, below)
        elif condition.kind == "EqualTo":
            one, other = (self._value(side, below) for side in condition.children)
            if isinstance(one, Value) and isinstance(other, Value) and one.occurrence != other.occurrence:
                yield one, other

    def _value(self, expression: PlanNode, below: _Columns) -> Value | _Made:
        """What an expression is made of.

        Raises:
            ComputedWholeError: A function in it is not known to give the same for the same values.
        """
        kind = expression.kind
        if kind == "AttributeReference":
            return below[expression_id(expression)]
        if kind == "AggregateExpression":
            return self._aggregate(expression, below)
        if expression.package != _EXPRESSIONS or kind not in _FUNCTIONS:
            raise ComputedWholeError(_REFUSED.get(kind, f"it uses {kind}"))
        parts = [self._value(child, below) for child in expression.children]
        if kind == "Alias":
            return parts[0]
        # Nested types are written as JSON, not as a name.
        if kind == "Cast" and isinstance(parts[0], Value) and isinstance(expression.fields["dataType"], str):
            mode = str((expression.fields.get("evalMode") or {}).get("object", ""))
            cast = CastTo(expression.fields["dataType"], fails=not mode.endswith("LEGACY$"))
            return Value(parts[0].occurrence, parts[0].column, (*parts[0].casts, cast))
        return _Made(aggregated=any(isinstance(p, _Made) and p.aggregated for p in parts))

    def _aggregate(self, expression: PlanNode, below: _Columns) -> _Made:
        function = expression.children[0]
        if function.package != f"{_EXPRESSIONS}.aggregate" or function.kind not in _AGGREGATES:
            raise ComputedWholeError(f"it uses the aggregate {function.kind}")
        for part in (*function.children, *expression.children[1:]):
            self._value(part, below)
        return _Made(aggregated=True)
