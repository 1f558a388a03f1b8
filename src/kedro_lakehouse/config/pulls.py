"""The key `pull` of a table in tables.yml: how its source is asked for its records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - pydantic reads it at run time

Mode = Literal["full", "incremental", "snapshot"]
"""``full``: the whole table at one time. ``incremental``: rows whose cursor lies in a window. ``snapshot``:
the whole table, kept beside the earlier ones under an id of its own."""


class Overlap(Declaration):
    """Windows that overlap: rows that became visible late are read by the next pull."""

    overlap: Duration
    """By how much a window begins before the end of the last one, such as `10 min`."""


def _late(value: object) -> object:
    if value == "open_transactions" or isinstance(value, dict | Overlap):
        return value
    raise refuse(
        "the value is neither 'open_transactions' nor an overlap", "Write for example {overlap: 10 min}."
    )


Late = Annotated[
    Literal["open_transactions"] | Overlap,
    BeforeValidator(_late, json_schema_input_type=Literal["open_transactions"] | Overlap),
]


class PullConfig(Declaration):
    """How one table is pulled; a type of source may add keys of its own."""

    mode: Mode | None = None
    """`full`, `incremental` or `snapshot`; default: the source's."""
    cursor: Name | None = None
    """For `incremental`: the column with the time at which a row was last changed."""
    late: Late | None = None
    """For `incremental`: how rows are found that become visible after rows with a later cursor: by
    `open_transactions`, or {overlap: 10 min}; default: the former for databases that tell, else the latter.
    """
    keep: int | None = Field(None, ge=1)
    """How many published snapshots stay readable when others expire; default: as long as they do not expire.
    """
