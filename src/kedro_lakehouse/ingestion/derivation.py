"""What a batch of a derived table was computed from: recorded in its commit, compared by the next batch.

The next batch may leave out what has not changed only if nothing else than new batches of the inputs lies in
between. Whatever else changes rows leaves a mark: a rollback, a fold from the start, a compacted change log,
another declaration. Marks are compared, never times, for clocks differ.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.marks import DERIVED, FOLDED_AT, HORIZON, REFOLD, ROLLED_BACK
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.lake_table import LakeTable

_METHOD: Final = 1
"""Counts up when results are computed in another way: the next batch is then computed whole."""


@dataclass(frozen=True)
class InputState:
    """An input as it was read: its snapshot, the last batch in it, its rows, and a digest of its marks."""

    snapshot: int
    batch: int
    rows: int
    marks: str


@dataclass(frozen=True)
class Derivation:
    """The plan of a batch (its content hash), a digest of the declaration, and the state of each input.

    ``inputs`` is empty if the states were not known: the batch was planned on earlier ones than the present.
    """

    plan: str
    declared: str
    inputs: Mapping[str, InputState]

    def to_property(self) -> str:
        """The text of the table property."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_property(cls, text: str | None) -> Derivation | None:
        """Read the table property back; None where the table has none."""
        if not text:
            return None
        facts = json.loads(text)
        inputs = {alias: InputState(**state) for alias, state in facts["inputs"].items()}
        return cls(facts["plan"], facts["declared"], inputs)


def input_state(table: LakeTable) -> InputState | None:
    """The present state of an input; None as long as it holds nothing.

    The change log is looked at first: what is done to it after that is seen as a change by the next batch.
    """
    changes = table.state("changes")
    current = table.state("current")
    if current is None or current.snapshot_id is None:
        return None
    columns = {name: kind.simpleString() for name, kind in current.columns.items()}
    marks = [
        current.uuid, [current.properties.get(mark) for mark in (FOLDED_AT, ROLLED_BACK)], columns,
        changes.uuid if changes else None,
        [changes.properties.get(mark) for mark in (REFOLD, HORIZON)] if changes else None,
    ]  # fmt: skip
    return InputState(current.snapshot_id, current.batch, current.rows, _digest(marks))


def declaration_digest(table: LakeTable, inputs: Mapping[str, LakeTable]) -> str:
    """A digest of everything that makes other rows of the same inputs."""
    from pyspark import __version__

    facts = [
        _METHOD,
        __version__,
        table.config.model_dump(mode="json"),
        {alias: [str(one), dict(one.config.rename)] for alias, one in inputs.items()},
        table.decisions.digest(table.name, upto=sys.maxsize),
    ]
    return _digest(facts)


def changed_inputs(
    before: Derivation, now: Derivation, inputs: Mapping[str, LakeTable]
) -> dict[str, tuple[InputState, InputState]]:
    """The inputs that have new batches, each with its states of before and of now.

    Raises:
        ComputedWholeError: Something else than new batches may have changed rows.
    """
    if before.declared != now.declared:
        raise ComputedWholeError("the declaration, a decision, or Spark has changed since its last batch")
    if before.inputs.keys() != now.inputs.keys():
        raise ComputedWholeError("it is not recorded which batches of its inputs the last result is of")
    for alias, table in inputs.items():
        old = before.inputs[alias]
        if old.marks != now.inputs[alias].marks:
            raise ComputedWholeError(
                f"{table} was rolled back, folded again, compacted, or has other columns"
            )
        if old.batch == now.inputs[alias].batch and old.snapshot != now.inputs[alias].snapshot:
            raise ComputedWholeError(f"{table} has other rows without a new batch")
        if not table.format.holds_snapshot(table.name, old.snapshot):
            raise ComputedWholeError(f"the snapshot {old.snapshot} of {table} is gone")
    pairs = {alias: (before.inputs[alias], now.inputs[alias]) for alias in inputs}
    return {alias: (old, new) for alias, (old, new) in pairs.items() if old.snapshot != new.snapshot}


def refuse_declaration(table: LakeTable, inputs: Mapping[str, LakeTable]) -> None:
    """Refuse declarations under which the rows of a key depend on other keys' rows.

    Raises:
        ComputedWholeError: The whole result is needed, each time.
    """
    config = table.config
    if not config.keys:
        raise ComputedWholeError("it has no keys")
    if not config.current:
        raise ComputedWholeError("it has no current table")
    if config.delete_scope:
        raise ComputedWholeError("its delete_scope depends on all rows of the result")
    if config.hard_deletes == "ignore":
        raise ComputedWholeError("it keeps rows that the result lacks (hard_deletes: ignore)")
    for one in inputs.values():
        if not one.config.keys:
            raise ComputedWholeError(f"{one} has no keys")


def settled_state(table: LakeTable, chain_head: str) -> tuple[Derivation, TableState]:
    """What the last batch was computed from, and the current table that holds exactly this batch.

    Raises:
        ComputedWholeError: The last batch is none of a derived result, or current does not hold it alone.
    """
    changes, current = table.state("changes"), table.state("current")
    before = Derivation.from_property(changes.properties.get(DERIVED)) if changes else None
    if before is None or before.plan != chain_head:
        raise ComputedWholeError("it is not recorded what its last batch was computed from")
    if current is None or changes is None or current.bookmark is None or current.is_held:
        raise ComputedWholeError("its current table holds no batch")
    if current.bookmark.content_hash != chain_head:
        raise ComputedWholeError("its current table lacks batches")
    return before, current


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]
