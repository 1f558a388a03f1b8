"""The rules by which raw change records become checked events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.changes.events import LOOKUP
from kedro_lakehouse.changes.keys import split_key_changes
from kedro_lakehouse.changes.lookup import look_up, with_lookup_keys
from kedro_lakehouse.changes.order import declared_order
from kedro_lakehouse.changes.validate import check_events
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.records import BEFORE, complete

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.lookup import Lookup
    from kedro_lakehouse.changes.subjects import ErasedSubjects
    from kedro_lakehouse.decoders.records import Columns, RecordGroup


@dataclass(frozen=True, kw_only=True)
class RecordRules:
    """How raw change records of a table become checked events.

    ``decoder`` is the name of the decoder and ``layout`` what it needs to know of the source. Events from
    before the ``horizon`` are too late. With ``keeps_lookups`` events keep what they were looked up by.
    """

    decoder: str
    layout: Any
    columns: Columns
    horizon: datetime | None = None
    lookups: Sequence[Lookup] = ()
    keeps_lookups: bool = False
    erased: ErasedSubjects | None = None

    def events(self, groups: Sequence[RecordGroup], contract: TableContract) -> DataFrame:
        """Decode and check records; a key change becomes its two events."""
        decode = load_decoder(self.decoder).decode
        return self.checked(
            [decode(group, self.layout, self.columns, contract.keys) for group in groups], contract
        )

    def checked(self, decoded: Sequence[DataFrame], contract: TableContract) -> DataFrame:
        """Check what a decoder gave; a key change becomes its two events."""
        ordered = declared_order(complete(decoded, self.columns), contract)
        if self.lookups:
            ordered = self._enriched(ordered)
        if self.columns.carried:
            ordered = ordered.drop(*self.columns.carried)
        checked = check_events(ordered, contract, horizon=self.horizon, erased=self.erased)
        return split_key_changes(checked, contract, BEFORE)

    def _enriched(self, events: DataFrame) -> DataFrame:
        found = look_up(with_lookup_keys(events, self.lookups), self.lookups)
        return found if self.keeps_lookups else found.drop(LOOKUP)
