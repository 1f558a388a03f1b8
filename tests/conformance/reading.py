"""Cases as they are written: every key is known and understood, or reading fails."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BUNDLED = Path(__file__).with_name("cases.json")
SWITCH = "KEDRO_LAKEHOUSE_CASES"
"""Names a file of cases; or asks for those bundled ones that need more than rules."""
BESIDE_RULES = "beside-rules"
ABOUT = {"id", "kind", "title", "area", "source", "confidence", "note", "spark_4_3_0_agrees"}
KINDS = {
    "events": {"config", "batches", "expect", "order_invariant"},
    "snapshots": {"config", "snapshots", "expect"},
    "schema": {"config", "steps", "expect"},
    "decode": {"config", "format", "records", "expect"},
    "pipeline": {"config", "keys", "columns", "batches", "tables", "crash", "reconfigure", "expect"},
    "asof": {"config", "scd2", "queries"},
    "property": {"config", "generator", "properties"},
    "rowhash": {"must_differ", "must_equal", "rule"},
}


def known(found: Mapping[str, Any], allowed: Iterable[str], place: str) -> Mapping[str, Any]:
    """A mapping that holds no key which nobody would look at.

    Raises:
        AssertionError: There is such a key.
    """
    unknown = sorted(set(found) - set(allowed))
    assert not unknown, f"{place}: the runner does not know {unknown}"
    return found


def read_cases(path: Path | None = None) -> list[dict[str, Any]]:
    """All cases of the file that the environment names, by default the bundled ones."""
    given = os.environ.get(SWITCH)
    path = path or (Path(given) if given and given != BESIDE_RULES else BUNDLED)
    content = known(json.loads(path.read_text(encoding="utf-8")), {"version", "conventions", "cases"}, "file")
    assert content["version"] == 1, "the runner reads version 1"
    for case in content["cases"]:
        assert case["kind"] in KINDS, f"{case['id']}: the runner does not know the kind '{case['kind']}'"
    return list(content["cases"])


def check_keys(case: Mapping[str, Any]) -> None:
    """Refuse a case with a key that its kind does not have."""
    known(case, ABOUT | KINDS[case["kind"]], case["id"])


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a case declares about its table; None where it says nothing."""

    keys: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    track: tuple[str, ...] | None = None
    ignore_null: tuple[str, ...] | str = ()
    unset_marker: str | None = None
    on_tie: str | None = None
    hard_deletes: str | None = None
    delete_scope: tuple[str, ...] = ()
    valid_from: str | None = None
    updated_at: str | None = None
    initial_valid_from: str | None = None
    max_delete_fraction: float | None = None
    max_invalid_fraction: float | None = None
    allow_empty: bool = False
    expect_error: str | None = None
    metrics: tuple[tuple[str, Any], ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    timestamp_column: str | None = None
    sequence_column: str | None = None


_NAMES = ("keys", "columns", "track")
_AS_THEY_ARE = (
    "unset_marker", "on_tie", "hard_deletes", "initial_valid_from", "max_delete_fraction",
    "max_invalid_fraction", "expect_error", "timestamp_column", "sequence_column",
)  # fmt: skip
_PAIRS = ("metrics", "types", "rename", "checks")
_OTHERS = (
    "ignore_null", "delete_scope", "valid_from", "change_detection", "allow_empty_snapshot",
    "allow_empty_extract",
)  # fmt: skip


def options_of(config: Mapping[str, Any], place: str) -> Options:
    """Read a case's config."""
    known(config, [*_NAMES, *_AS_THEY_ARE, *_PAIRS, *_OTHERS], f"{place}.config")
    given = {k: v for k, v in config.items() if v is not None}
    found: dict[str, Any] = {n: tuple(given[n]) for n in _NAMES if n in given}
    found |= {n: given[n] for n in _AS_THEY_ARE if n in given}
    found |= {n: tuple(given[n].items()) for n in _PAIRS if n in given}
    ignored = given.get("ignore_null", ())
    found["ignore_null"] = ignored if ignored == "*" else _as_tuple(ignored)
    scope = given.get("delete_scope", ())
    found["delete_scope"] = () if scope in ("table", "whole_table") else _as_tuple(scope)
    found["allow_empty"] = bool(given.get("allow_empty_snapshot", given.get("allow_empty_extract", False)))
    return Options(**found | _valid_from(given, place))


def _as_tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _valid_from(given: Mapping[str, Any], place: str) -> dict[str, str]:
    """``run_time``; ``updated_at``, the column of the last change; or a column: ``<name> column``."""
    value, detection = given.get("valid_from"), given.get("change_detection")
    assert detection in (None, "timestamp", "check", "columns"), f"{place}: change_detection {detection}"
    if value in (None, "run_time", "extract_time"):
        assert detection != "timestamp", f"{place}: of which column?"
        return {}
    if isinstance(value, dict):
        known(value, {"updated_at", "column"}, f"{place}.valid_from")
        return (
            {"updated_at": value["updated_at"]} if "updated_at" in value else {"valid_from": value["column"]}
        )
    if value.endswith(" column"):
        column = value.removesuffix(" column")
        return {"updated_at": column} if detection == "timestamp" else {"valid_from": column}
    assert value == "updated_at" or detection == "timestamp", f"{place}: valid_from {value}"
    return {"valid_from": value} if detection in ("check", "columns") else {"updated_at": value}
