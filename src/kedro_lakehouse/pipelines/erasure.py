"""Pipeline ``erasure``: persons who ask for it are erased from all tables with a ``subject``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.erasure.requests import Request


def plan_requests(requests: Sequence[Request]) -> list[Request]:
    """Each person once, with the earliest time that is due; who is due first comes first."""
    first: dict[str, Request] = {}
    for request in sorted(requests, key=lambda one: (one.due is None, one.due or 0, one.subject)):
        first.setdefault(request.subject, request)
    return list(first.values())


def create_pipeline(declarations: Declarations) -> Pipeline:
    """A node for each table of requests."""
    return Pipeline(
        [
            Node(
                bound(plan_requests),
                inputs=f"{name}.erasure_requests",
                outputs=f"{name}.erasure",
                name="erase",
                namespace=str(name),
                tags=["erasure", *table.tags],
            )
            for name, table in declarations.tables.items()
            if table.erasure_requests is not None
        ]
    )
