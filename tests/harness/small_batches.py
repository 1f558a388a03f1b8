"""Events of all types, landed in three runs, for tests that apply them by the small and by the large way."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "sequence_column": "seq", "timestamp_column": "ts",
    },
    "feed": {
        "type": "changes", "path": "${globals:landing}", "pattern": "*.parquet", "file_format": "parquet",
        "op_column": "Op",
    },
    "rows": {
        "type": "changes", "path": "${globals:landing}", "pattern": "*.parquet", "file_format": "parquet",
    },
}  # fmt: skip
COMMON: dict[str, Any] = {"source": "shop", "entity": "item", "keys": ["id"], "history": True}
COLUMNS: dict[str, pa.DataType] = {
    "Op": pa.string(), "id": pa.int32(), "word": pa.string(), "amount": pa.decimal128(38, 6),
    "ratio": pa.float64(), "part": pa.float32(), "yes": pa.bool_(), "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "raw": pa.binary(), "n": pa.int32(),
    "list": pa.list_(pa.string()), "pair": pa.struct({"a": pa.int64(), "b": pa.string()}),
    "map": pa.map_(pa.string(), pa.int64()), "odd name": pa.string(), "seq": pa.string(),
    "ts": pa.timestamp("us"),
}  # fmt: skip
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
EDGES: list[dict[str, Any]] = [
    {"word": "a", "amount": Decimal("99999999999999999999999999999999.999999"), "ratio": math.nan},
    {"word": "a", "amount": Decimal("-0.000001"), "ratio": -0.0, "part": 1.5, "yes": True},
    {"word": "", "odd name": "x", "ratio": math.inf, "part": -math.inf, "yes": False, "n": 2**31 - 1},
    {"word": "\u00e9 \U0001f600", "day": dt.date(1, 1, 1), "at": dt.datetime(1, 1, 2, tzinfo=dt.UTC)},
    {"word": "b" * 40, "day": dt.date(9999, 12, 31), "at": dt.datetime(9999, 12, 30, tzinfo=dt.UTC)},
    {"word": "b", "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "n": -(2**31)},  # noqa: DTZ001
    {"word": "c", "raw": b"\xff\x00\xfe", "list": ["x", None, ""], "pair": {"a": None, "b": "x"}},
    {"word": "c", "raw": b"", "list": [], "map": [("k", 1), ("a", None)], "pair": {"a": 1, "b": None}},
    {"word": "d", "at": dt.datetime(2026, 5, 1, 1, 2, 3, 456_789, tzinfo=dt.UTC), "ratio": 0.1},
]


def event(op: str, key: int, number: int, place: int, **values: Any) -> dict[str, Any]:
    facts = {"seq": f"{number:03}{place:04}", "ts": START + dt.timedelta(hours=number)}
    return {"Op": op, "id": key, "word": "w"} | values | facts


def rounds() -> list[list[dict[str, Any]]]:
    """A load, changes and deletes of its rows, rows that come back, late and repeated events, no change."""
    first = [event("I", key, 3, key, **EDGES[key % len(EDGES)]) for key in range(20)]
    second = [event("U", key, 5, key, **EDGES[(key + 1) % len(EDGES)]) for key in range(0, 20, 3)]
    second += [event("D", key, 5, 100 + key, **EDGES[key % len(EDGES)]) for key in (1, 7)]
    second += [event("I", 30, 5, 200, word="new"), event("I", 2**40, 5, 201, word="far")]
    second += [event("U", 41, 5, 300, word="moved", BI_id=2)]
    late = [event("U", key, 4, key, word="late", n=key) for key in (0, 1, 2)]
    third = [
        *late, *first[4:6],
        event("I", 7, 6, 1, word="back"), event("U", 30, 6, 2, word="new"), event("U", 8, 7, 1, **EDGES[8]),
        event("D", 30, 7, 2, word="new"), event("D", 30, 8, 3, word="new"),
    ]  # fmt: skip
    return [first, second, third]


def land(project: TemporaryProject, number: int, events: list[dict[str, Any]]) -> None:
    """Land a file; in the second one there are two new columns, and integers of a wider type."""
    columns = COLUMNS
    if number > 1:
        columns = COLUMNS | {"n": pa.int64(), "id": pa.int64(), "BI_id": pa.int64()}
        columns |= {"new": pa.string(), "wide": pa.int64()}
        events = [e | {"n": 2**40 + e["id"], "new": e["word"][:9]} for e in events]
    write_parquet(project.landing / f"item/2026010{number}-000000000.parquet", events, columns)


def run(project: TemporaryProject, small_batch: int, table_format: str) -> None:
    project.set_globals(table_format=table_format, small_batch=small_batch)
    project.run("ingestion", "cdc_merge", "scd2")


def applied_in(
    path: Path, tables: Mapping[str, Any], sizes: Sequence[int], *, table_format: str
) -> TemporaryProject:
    """A project to which the files were applied, a run each, with these sizes of a small batch."""
    project = TemporaryProject.make(path, SOURCES, dict(tables))
    for number, (events, size) in enumerate(zip(rounds(), sizes, strict=False), start=1):
        land(project, number, events)
        run(project, size, table_format)
    return project


def canonical(value: Any) -> Any:
    """A value that can be compared: -0.0 is 0.0, as in the rules, and a NaN is a NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {k: canonical(v) for k, v in value.items()}
    if isinstance(value, list):
        return [canonical(v) for v in value]
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


def rows_of(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        repr({k: canonical(sorted(v) if k == "map" and v else v) for k, v in r.items()}) for r in rows
    )
