"""From a landing folder to the change log: plan what has landed, batch by batch, and commit each batch."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.ingest import IngestionCommit
from kedro_lakehouse.errors import (
    BatchContentChangedError,
    CommitConflictError,
    ConfigurationError,
    LakehouseError,
    LeaseLostError,
    UnsupportedError,
)
from kedro_lakehouse.ingestion.changes import ChangeBatches, StreamBatches
from kedro_lakehouse.ingestion.derived import DerivedPlanner
from kedro_lakehouse.ingestion.extracts import ExtractBatches
from kedro_lakehouse.ingestion.planner import Planner
from kedro_lakehouse.ingestion.reading import FileReader
from kedro_lakehouse.sources.base import StreamSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.ingestion.planner import Batches
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.base import Waiting

logger = logging.getLogger(__name__)

_BATCHES: Final[Mapping[str, Callable[[Planner, Any], Batches]]] = {
    "changes": ChangeBatches,
    "extracts": ExtractBatches,
    "ranges": StreamBatches,
}
"""What makes the batches of a source, by what it gives."""


def planner_of(table: LakeTable) -> Planner:
    """The planner of a declared table: of its landed files, or of the tables that it is derived from."""
    if table.config.derive is not None:
        return DerivedPlanner(table, table.config.derive)
    source = table.open_source()
    if table.config.enrich and source.gives == "extracts":
        raise ConfigurationError(
            file="tables.yml",
            key=f"{table}.enrich",
            problem="the table is made from extracts: a changed reference would look like changed rows.",
            remedy="Keep the extracts in a table of their own, and join it with the reference by `derive`.",
        )
    if table.config.repairs_rows and not table.format.capabilities.follows_references:
        raise UnsupportedError(
            what=f"{table}: rows of tables in {table.format.name} cannot follow their reference.",
            remedy="Use `as_of: arrival` without `reenrich`, or another `format`.",
        )
    reader = FileReader(table, source)
    return Planner(table, source, reader)


def landed_batches(table: LakeTable) -> Iterator[Any]:
    """Plan what has landed for a table, batch by batch: see ``LandingDataset.load``.

    If a batch loses a race or its lease, it is planned again on what is published by then. A source that is
    asked for its records is pulled first, if a pull is due; if that fails, earlier pulls are ingested before
    its error is raised.
    """
    failed = _pull_if_due(table)
    yield from _batches_of(table)
    if failed is not None:
        raise failed


# Most projects have no table that is pulled: their runs do not import what pulls.
def _pull_if_due(table: LakeTable) -> LakehouseError | None:
    if not table.is_pulled:
        return None
    from kedro_lakehouse.ingestion.pulling import pull_if_due

    return pull_if_due(table)


def _is_pull_due(table: LakeTable) -> bool:
    if not table.is_pulled:
        return False
    from kedro_lakehouse.ingestion.pulling import is_pull_due

    return is_pull_due(table)


def _batches_of(table: LakeTable) -> Iterator[Any]:
    planner, patience = planner_of(table), table.patience()
    while True:
        try:
            with table.lease("ingestion") as held:
                batches = _BATCHES[planner.source.gives](planner, planner.source)
                yield from planner.given_out(batches, held, patience)
                return
        except LeaseLostError as error:
            logger.info("%s: the lease is another run's, planning again", table)
            patience.pause(error)


def has_news(table: LakeTable) -> bool:
    """Whether a run has something to do for a table with a source; nothing is written, no Spark started.

    Whether a pull that is due will hold anything, only the source can tell: it counts as news.
    """
    return _is_pull_due(table) or planner_of(table).has_news()


def waiting_for(table: LakeTable) -> Waiting | None:
    """What a table's source has that is in no batch; None for a derived table. No Spark is started.

    Raises:
        LakehouseError: The source cannot be asked.
    """
    return None if table.config.derive is not None else planner_of(table).waiting()


def waiting_in_streams(tables: Iterable[LakeTable]) -> dict[str, Waiting]:
    """What waits in the streams of tables, by table; without those that cannot be asked."""
    found: dict[str, Waiting] = {}
    for table in tables:
        with contextlib.suppress(LakehouseError):
            if table.config.source is None:
                continue
            planner = planner_of(table)
            if isinstance(planner.source, StreamSource):
                found[str(table)] = planner.waiting()
    return found


def ingest_batch(table: LakeTable, token: BatchToken, *, accepted: Any, rejected: Any) -> None:
    """Commit the checked events of a batch; if it loses a race, ``landed_batches`` plans it again.

    Raises:
        BatchContentChangedError: The table has another batch of this number, and no landing waits for it.
        CommitConflictError: Another writer was faster, and no landing waits for the batch.
    """
    given = table.environment.ingesting.get(table.name)
    # Whether ``landed_batches`` waits for the outcome of this batch: it then plans again after a lost race.
    waits = given is not None and given.planned.content_hash == token.content_hash
    rows = engine_of(table).events(table, accepted, rejected, token)
    commit = IngestionCommit(table, token, rows)
    try:
        if given is not None and waits:
            given.was_saved, commit.begun = True, given.begun
            commit.run(given.lease)
        else:
            with table.lease("ingestion") as held:
                commit.run(held)
    except CommitConflictError as error:
        if waits:
            return
        state = table.state("changes")
        if state is not None and state.batch == token.batch:
            raise BatchContentChangedError(
                table=table.name, batch=token.batch, detail="the batch is committed with other content"
            ) from error
        raise
    except LeaseLostError:
        if not waits:
            raise
