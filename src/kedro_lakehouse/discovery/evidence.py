"""What rows tell: which columns could be a table's key, and which hold data about persons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow.types as at

from kedro_lakehouse.column_search.personal import personal_evidence
from kedro_lakehouse.column_search.values import as_texts, kind_of
from kedro_lakehouse.discovery.keys import Keys, find_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kedro_lakehouse.discovery.found import FoundColumn

_VALUES: Final = 1_000


@dataclass(frozen=True)
class Evidence:
    """What was found in so many rows."""

    rows: int
    keys: Keys
    columns: tuple[FoundColumn, ...]


def evidence_in(rows: pa.Table, columns: Sequence[FoundColumn], *, table: str) -> Evidence:
    """Look for keys and personal columns.

    Args:
        rows: Rows of the dataset, of whichever of its columns could be read.
        columns: All its columns.
        table: The table's name, which may tell of persons.
    """
    found = tuple(replace(c, personal=_personal(rows, c.name, table)) for c in columns)
    partitions = frozenset(c.name for c in columns if c.partition)
    return Evidence(rows.num_rows, find_keys(rows, table=table, partitions=partitions), found)


def _personal(rows: pa.Table, name: str, table: str) -> str | None:
    """Why a column looks personal, by its name or by some of its values."""
    values: list[str] = []
    if name in rows.column_names and not at.is_nested(rows[name].type):
        kind = kind_of(rows[name].type)
        if kind in ("text", "integer"):
            some = rows[name].drop_null().slice(0, 10 * _VALUES).unique().slice(0, _VALUES)
            values = as_texts(some.to_pylist(), kind)
    return personal_evidence(name, table, values)
