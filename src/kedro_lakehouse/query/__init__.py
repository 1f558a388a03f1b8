"""Queries of the lake, each in a process of its own: see ``query.library``.

Example:
    In a project's folder::

        from kedro_lakehouse.query import run

        state = run("select * from shop.order", format="csv", role="analyst")
        print(state.location)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedro_lakehouse.query.library import cancel, get_query, run, start_query
    from kedro_lakehouse.query.states import QueryState

__all__ = ["QueryState", "cancel", "get_query", "run", "start_query"]


def __getattr__(name: str) -> Any:
    """Import the library when it is asked for: commands that only read a query start sooner without it."""
    if name == "QueryState":
        from kedro_lakehouse.query.states import QueryState

        return QueryState
    if name in __all__:
        from kedro_lakehouse.query import library

        return getattr(library, name)
    raise AttributeError(name)
