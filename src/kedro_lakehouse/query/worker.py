"""The process of one query: it reads what to do from its input, and writes the answer to a file.

``python -m kedro_lakehouse.query.worker`` is started by ``query.local`` alone. It ends when its input ends:
a query does not outlive the process that started it.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.ops.failures import known
from kedro_lakehouse.query.errors import QueryError, QueryMemoryError
from kedro_lakehouse.query.states import TableRead

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.query.lake import QueriedLake
    from kedro_lakehouse.query.results import Format
    from kedro_lakehouse.query.scan import TableScan

_BATCH: Final = 50_000
_MIB: Final = 2**20


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a query's process does: ask, and write the answer to a file that is not the result yet."""

    spark_conf: Mapping[str, str]
    lake: QueriedLake
    query: str
    format: Format
    part: str
    memory: int


def answer(work: Work) -> dict[str, Any]:
    """Run the query and write its answer; what was read and written.

    Raises:
        QueryError: It is not one query, names something unknown, or fails while it runs.
    """
    from kedro_lakehouse.query.answer import asked, gives_up
    from kedro_lakehouse.query.results import write_result
    from kedro_lakehouse.session.catalog import MetadataCatalog

    settings = {"memory_limit": f"{work.memory // _MIB}MiB"}
    catalog = MetadataCatalog(work.spark_conf)
    with asked(catalog, work.query, work.lake, settings=settings) as found, gives_up():
        batches = found.connection.sql(work.query).to_arrow_reader(_BATCH)
        rows = write_result(batches, Path(work.part), work.format)
        return {"rows": rows, "tables": [asdict(_read_of(scan)) for scan in found.scans]}


def _read_of(scan: TableScan) -> TableRead:
    return TableRead(
        table=scan.name,
        snapshot=scan.pin.snapshot if scan.pin else None,
        snapshot_id=scan.state,
        files=len(scan.files),
        bytes=sum(scan.files.values()),
    )


def error_facts(error: LakehouseError) -> dict[str, str]:
    """An error as states keep it: code, message, remedy."""
    message, remedy = error.sentences()
    return {"code": error.code, "message": message, "remedy": remedy}


def _explained(error: Exception, memory: int) -> LakehouseError:
    """The error of ours that an error means; a lack of memory in DuckDB is one of its own."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ == "OutOfMemoryException" or isinstance(cause, MemoryError):
            return QueryMemoryError(megabytes=memory // _MIB)
        cause = cause.__cause__
    return known(error) or QueryError(
        problem=f"The query failed: {type(error).__name__}.", remedy="Ask for less, or for other columns."
    )


def _end_with_input(part: Path) -> None:
    """End this process at once when its input ends: whoever started it is gone. No part of a result stays."""
    sys.stdin.buffer.read()
    part.unlink(missing_ok=True)
    os._exit(1)


def main() -> None:
    """Do the work that the input describes, and tell how it ended as JSON on the output."""
    work: Work = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    threading.Thread(target=_end_with_input, args=(Path(work.part),), daemon=True).start()
    try:
        done = answer(work)
    except Exception as error:  # noqa: BLE001 - of one that is not ours only its kind is shown
        done = {"error": error_facts(_explained(error, work.memory))}
    sys.stdout.write(json.dumps(done))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
