"""Spark's analysed plan of a query, as a tree that can be read without a JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan or an expression: ``kind`` is its class without the package ``package``."""

    kind: str
    package: str
    fields: Mapping[str, Any]
    children: Sequence[PlanNode]

    def walk(self) -> Iterator[PlanNode]:
        """The node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def analysed_plan(frame: DataFrame) -> list[dict[str, Any]]:
    """The analysed plan of a frame, as Spark's ``TreeNode.toJSON`` writes it."""
    of_jvm: Any = frame
    found: list[dict[str, Any]] = json.loads(of_jvm._jdf.queryExecution().analyzed().toJSON())
    return found


def tree_of(nodes: Sequence[Mapping[str, Any]]) -> PlanNode:
    """The tree that Spark has written as a list, each node before its children."""

    def grow(rest: Iterator[Mapping[str, Any]]) -> PlanNode:
        node = next(rest)
        package, _, kind = str(node["class"]).rpartition(".")
        return PlanNode(kind, package, node, [grow(rest) for _ in range(int(node["num-children"]))])

    return grow(iter(nodes))


def expressions_in(written: Any) -> list[PlanNode]:
    """The expressions of a field: Spark writes one as a list of nodes, several as a list of such lists."""
    if not written:
        return []
    return [tree_of(one) for one in written] if isinstance(written[0], list) else [tree_of(written)]


def expression_id(expression: PlanNode) -> int:
    """The number by which other parts of a plan refer to a named expression."""
    return int(expression.fields["exprId"]["id"])
