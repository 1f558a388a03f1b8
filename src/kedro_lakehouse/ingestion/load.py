"""How much has landed, in batches and in none yet: for what load Spark is to be started."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.session.spark import Load
from kedro_lakehouse.sources.base import StreamSource
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.store import OpsStore


def load_of(tables: Iterable[LakeTable], ops: OpsStore) -> Load:
    """The bytes of these tables' landed files that are in no batch, and of all files of all tables.

    A source that cannot be listed counts as empty: the node that reads it says why.
    """
    planned: dict[str, set[LandedFile]] = defaultdict(set)
    for row in ops.read(BATCH_LEDGER):
        planned[row["table"]].update(LandedFile(**file) for file in row["files"] or ())
    waiting = 0
    for table in tables:
        with contextlib.suppress(LakehouseError, OSError):
            source, known = table.open_source(), planned[str(table)]
            if isinstance(source, StreamSource):
                waiting += source.lag(known).bytes
            else:
                waiting += sum(file.size for file in source.files() if file not in known)
    landed = sum(file.size for files in planned.values() for file in files)
    return Load(waiting=waiting, landed=waiting + landed)
