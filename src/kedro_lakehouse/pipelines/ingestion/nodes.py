"""Nodes of ingestion: decode, check, and tell which batch an event is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import NothingLanded
    from kedro_lakehouse.ingestion.changes import LandedChanges
    from kedro_lakehouse.ingestion.extracts import LandedExtracts


def ingest(
    batches: Iterable[LandedChanges | LandedExtracts], *_tables: object, contract: TableContract
) -> Iterator[tuple[DataFrame | NothingLanded, DataFrame | NothingLanded]]:
    """Turn each landed batch into checked events, which go to quarantine or changes by their reasons.

    The batches of a derived table read its input tables at the snapshots that the ledger names, so that a
    batch that is made again is the same; here these tables only say that they are published.
    Kedro cannot take an empty stream of pairs: where nothing has landed, one pair says so.
    """
    from kedro_lakehouse.commits.token import NothingLanded
    from kedro_lakehouse.ingestion.extracts import LandedExtracts

    nothing = True
    for batch in batches:
        nothing = False
        if isinstance(batch, LandedExtracts):
            events = events_of_extracts(batch, contract)
        else:
            events = events_of_changes(batch, contract)
        yield events, events
    if nothing:
        yield NothingLanded.HERE, NothingLanded.HERE


def events_of_changes(batch: LandedChanges, contract: TableContract) -> DataFrame:
    """Decode and check the records of a batch; a key change becomes its two events."""
    from kedro_lakehouse.changes.keys import split_key_changes
    from kedro_lakehouse.changes.order import declared_order
    from kedro_lakehouse.changes.validate import check_events
    from kedro_lakehouse.decoders.records import BEFORE, with_key_images

    decode = batch.decoder.decode
    decoded = [decode(group, batch.layout, batch.columns, contract.keys) for group in batch.groups]
    ordered = declared_order(with_key_images(decoded, batch.columns, contract.keys), contract)
    checked = check_events(ordered.drop(*batch.columns.carried), contract, horizon=batch.horizon)
    return batch.token.stamp(split_key_changes(checked, contract, BEFORE))


def events_of_extracts(batch: LandedExtracts, contract: TableContract) -> DataFrame:
    """Make the events of a batch of extracts: what changes from one to the next, or without keys each row."""
    from kedro_lakehouse.changes import extract

    if batch.differences is None:
        events = extract.rows_as_events(batch.rows, contract, extracts=batch.extracts)
    else:
        events = extract.events_of_extracts(
            batch.rows, batch.differences, contract, extracts=batch.extracts, past_ends=batch.past_ends
        )
    return batch.token.stamp(events)
