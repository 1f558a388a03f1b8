"""The former name of ``column_search.project_search``, for notebooks that were written with it."""

from kedro_lakehouse.column_search.project_search import (
    ColumnFilter,
    ColumnHit,
    ColumnSearch,
    JoinHit,
    TableHit,
    open_search,
)

__all__ = ["ColumnFilter", "ColumnHit", "ColumnSearch", "JoinHit", "TableHit", "open_search"]
