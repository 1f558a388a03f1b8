"""How much has landed, in batches and in none yet: for what load Spark is to be started."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.session.spark import Load
from kedro_lakehouse.sources.base import StreamSource
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.store import OpsStore


def load_of(tables: Sequence[LakeTable], ops: OpsStore) -> Load:
    """The bytes of these tables' landed files that are in no batch, and of all files of all tables.

    A source that cannot be listed counts as empty: the node that reads it says why.
    """
    landed = waiting = 0
    planned: dict[str, list[LandedFile]] = {str(table): [] for table in tables}
    for row in ops.read(BATCH_LEDGER, columns=("table", "files")):
        files = row["files"] or ()
        landed += sum(file["size"] for file in files)
        if row["table"] in planned:
            planned[row["table"]] += [LandedFile(**file) for file in files]
    for table in tables:
        with contextlib.suppress(LakehouseError, OSError):
            source, known = table.open_source(), set(planned[str(table)])
            if isinstance(source, StreamSource):
                waiting += source.lag(known).bytes
            else:
                waiting += sum(file.size for file in source.files() if file not in known)
    return Load(waiting=waiting, landed=waiting + landed)


def waiting_files(tables: Sequence[LakeTable], ops: OpsStore) -> dict[str, tuple[int, int]]:
    """The landed files of tables that are in no batch, and their bytes; without streams. Starts no Spark."""
    known: dict[str, set[LandedFile]] = {str(table): set() for table in tables}
    for row in ops.read(BATCH_LEDGER, columns=("table", "files")):
        if row["table"] in known:
            known[row["table"]].update(LandedFile(**file) for file in row["files"] or ())
    found: dict[str, tuple[int, int]] = {}
    for table in tables:
        with contextlib.suppress(LakehouseError, OSError):
            source = table.open_source()
            if not isinstance(source, StreamSource):
                new = [file for file in source.files() if file not in known[str(table)]]
                found[str(table)] = (len(new), sum(file.size for file in new))
    return found
