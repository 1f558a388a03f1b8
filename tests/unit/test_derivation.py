"""When a derived table trusts its last result: what a batch records of its inputs, and what is compared."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kedro_lakehouse.ingestion.derivation import (
    Derivation,
    InputState,
    changed_inputs,
    input_state,
    refuse_declaration,
)
from kedro_lakehouse.ingestion.guards import ExtractCounts, add_untouched
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable

pytestmark = pytest.mark.unit

BEFORE = Derivation("plan", "declared", {"m": InputState(1, 1, 10, "a"), "n": InputState(5, 3, 7, "b")})


class Kind:
    def simpleString(self) -> str:  # noqa: N802 - Spark's own name
        return "int"


def tables(*gone: int) -> dict[str, LakeTable]:
    lake = SimpleNamespace(holds_snapshot=lambda _, snapshot: snapshot not in gone)
    found = {alias: SimpleNamespace(name=alias, format=lake) for alias in BEFORE.inputs}
    return cast("dict[str, LakeTable]", found)


def after(**changed: Any) -> Derivation:
    return replace(BEFORE, inputs={**BEFORE.inputs, "m": replace(BEFORE.inputs["m"], **changed)})


def test_a_record_is_read_back() -> None:
    assert Derivation.from_property(BEFORE.to_property()) == BEFORE
    assert Derivation.from_property(None) is None


def test_inputs_with_new_batches_are_changed() -> None:
    now = after(snapshot=2, batch=2)
    assert changed_inputs(BEFORE, now, tables()) == {"m": (BEFORE.inputs["m"], now.inputs["m"])}
    assert changed_inputs(BEFORE, BEFORE, tables()) == {}


@pytest.mark.parametrize(
    ("now", "gone", "why"),
    [
        (replace(BEFORE, declared="other"), (), "declaration"),
        (replace(BEFORE, inputs={}), (), "not recorded"),
        (after(snapshot=2, batch=2, marks="c"), (), "rolled back, folded again"),
        (after(snapshot=2), (), "without a new batch"),
        (after(snapshot=2, batch=2), (1,), "is gone"),
    ],
)
def test_whatever_else_may_have_changed_rows_is_told(
    now: Derivation, gone: tuple[int, ...], why: str
) -> None:
    with pytest.raises(ComputedWholeError, match=why):
        changed_inputs(BEFORE, now, tables(*gone))


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("current", "folded_at"), ("current", "rolled_back"), ("changes", "refold"), ("changes", "horizon"),
    ],
)  # fmt: skip
def test_each_mark_makes_another_state(role: str, name: str) -> None:
    def state(**properties: str) -> Any:
        facts = {"uuid": "u", "columns": {"id": Kind()}, "properties": properties}
        return SimpleNamespace(**facts, snapshot_id=1, batch=1, rows=1)

    def found(states: dict[str, Any]) -> InputState | None:
        return input_state(cast("LakeTable", SimpleNamespace(state=states.get)))

    plain = {"current": state(), "changes": state()}
    marked = plain | {role: state(**{f"kedro_lakehouse.{name}": "x"})}
    assert found(plain) == found(dict(plain))
    assert found(plain) != found(marked)
    assert found({"changes": state()}) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"keys": ()}, "no keys"), ({"current": False}, "no current table"),
        ({"delete_scope": ("a",)}, "delete_scope"), ({"hard_deletes": "ignore"}, "hard_deletes"),
    ],
)  # fmt: skip
def test_declarations_by_which_keys_depend_on_other_rows_are_computed_whole(
    changed: dict[str, Any], why: str
) -> None:
    facts = {"keys": ("id",), "current": True, "delete_scope": (), "hard_deletes": "close"}

    def table(**other: Any) -> LakeTable:
        return cast("LakeTable", SimpleNamespace(config=SimpleNamespace(**facts | other)))

    refuse_declaration(table(), {"m": table()})
    with pytest.raises(ComputedWholeError, match=why):
        refuse_declaration(table(**changed), {"m": table()})
    with pytest.raises(ComputedWholeError, match="no keys"):
        refuse_declaration(table(), {"m": table(keys=())})


def test_guards_count_what_was_not_compared_as_unchanged() -> None:
    counts = {1: ExtractCounts(landed=3, keyed=2, rows=2, upserts=1, deletes=1, in_scope=4)}
    add_untouched(counts, before=100)
    assert counts == {1: ExtractCounts(landed=99, keyed=98, rows=98, upserts=1, deletes=1, in_scope=100)}
    nothing: dict[int, ExtractCounts] = {}
    add_untouched(nothing, before=0)
    assert nothing == {1: ExtractCounts()}
