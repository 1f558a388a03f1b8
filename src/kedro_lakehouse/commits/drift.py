"""Refuse a declaration that contradicts the rules a table was made with, which a table property stores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.events import ORDER
from kedro_lakehouse.errors import (
    FoldRuleDriftError,
    KeySchemaDriftError,
    SequenceTypeDriftError,
    TrackHistoryDriftError,
)
from kedro_lakehouse.formats.ddl import storable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import types as T

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName

MADE_FOR: Final = "kedro_lakehouse.made_for"
_IGNORE_NULL: Final = "ignore_null "


def made_for(contract: TableContract, kind: Kind | None = None) -> dict[str, str]:
    """The property that a new table gets: its keys, how a target folds events, and what a history tracks."""
    facts: dict[str, list[str]] = {"keys": list(contract.keys)}
    if kind:
        facts["fold"] = _folded(contract)
    if kind == "history":
        facts["track"] = _tracked(contract)
    return {MADE_FOR: json.dumps(facts)}


def refuse_drift(
    table: TableName,
    state: TableState,
    contract: TableContract,
    columns: Mapping[str, T.DataType],
    kind: Kind | None = None,
) -> None:
    """Refuse a declaration whose keys, order, folding rules or tracked columns differ from the table's.

    Raises:
        KeySchemaDriftError: The declared keys differ from those that the table was made with.
        SequenceTypeDriftError: The declared order has other fields or types than the table's.
        FoldRuleDriftError: The target was folded with other rules for ties or for values that were not sent.
        TrackHistoryDriftError: The history was made with other tracked columns.
    """
    facts = _renamed(json.loads(state.properties.get(MADE_FOR, "{}")), contract, state.columns)
    if facts.get("keys", list(contract.keys)) != list(contract.keys):
        raise KeySchemaDriftError(
            table=table, existing=facts["keys"], declared=contract.keys, name=contract.table
        )
    if kind and facts.get("fold", _folded(contract)) != _folded(contract):
        raise FoldRuleDriftError(
            table=table, existing=facts["fold"], declared=_folded(contract), name=contract.table
        )
    if kind == "history" and facts.get("track", _tracked(contract)) != _tracked(contract):
        raise TrackHistoryDriftError(
            table=table, existing=facts["track"], declared=_tracked(contract), name=contract.table
        )
    if ORDER in columns and ORDER in state.columns:
        existing, declared = storable(state.columns[ORDER]), storable(columns[ORDER])
        if existing != declared:
            raise SequenceTypeDriftError(
                table=table,
                existing=existing.simpleString(),
                declared=declared.simpleString(),
                name=contract.table,
            )


def _renamed(
    facts: dict[str, list[str]], contract: TableContract, held: Collection[str]
) -> dict[str, list[str]]:
    """The facts with the names that columns got by a `rename` that was declared later."""
    names = {old: new for new, old in (contract.received_names or {}).items() if old not in held}

    def now(word: str) -> str:
        rule = _IGNORE_NULL if word.startswith(_IGNORE_NULL) else ""
        name = word.removeprefix(rule)
        return rule + names.get(name, name)

    return {fact: [now(word) for word in words] for fact, words in facts.items()}


def _folded(contract: TableContract) -> list[str]:
    """The rules by which events become rows, as words for an error message.

    ``on_tie: fail`` is listed as ``delete_wins``: it refuses every tie, so no row depends on the rule.
    """
    ties = "upsert_wins" if contract.on_tie == "upsert_wins" else "delete_wins"
    nulls = sorted(contract.ignore_null) if contract.ignore_null != "*" else ["*"]
    return [
        f"on_tie {ties}",
        *[f"{_IGNORE_NULL}{name}" for name in nulls],
        *(["unset_marker"] if contract.unset_marker is not None else []),
    ]


def _tracked(contract: TableContract) -> list[str]:
    """What a history tracks and stores, as words for an error message."""
    kept = ["tombstones"] if contract.hard_deletes == "tombstone" else []
    kept += ["surrogate keys"] if contract.surrogate_key else []
    beside = ["beside", *kept] if kept else []
    if contract.track_include is not None:
        return ["only", *contract.track_include, *beside]
    return ["all but", *(contract.track_exclude or ()), *beside]
