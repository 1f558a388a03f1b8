"""A column signature: where a column is, its profile, the texts that stand for it, and their vectors."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from kedro_lakehouse.column_search.profile import ColumnProfile
from kedro_lakehouse.column_search.words import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

Aspect = Literal["name", "signature", "values", "context"]
ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)
_MAX_VALUE: Final = 40
FILES: Final = "files"
"""Namespace of tables that are files outside the lake."""
_SIGNED: Final = 1 << 64


@dataclass(frozen=True, kw_only=True)
class TableVersion:
    """A table as it is now: what it is called, where it lies, and what tells it from its other states.

    Attributes:
        version: The snapshot of a lake's table; size and time of a file.
        added: The path that a user gave, below which a file was found; empty for tables of the lake.
    """

    namespace: str
    table: str
    location: str
    version: str
    added: str = ""
    tags: tuple[str, ...] = ()
    personal: frozenset[str] = frozenset()

    @property
    def source(self) -> Literal["lake", "file"]:
        """Whether the table is one of the lake or a file."""
        return "file" if self.added else "lake"

    def __str__(self) -> str:
        """Return ``namespace.table``."""
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class ColumnSignature:
    """One column as one model sees it; ``vectors`` are unit rows, without those of empty texts."""

    table: TableVersion
    ordinal: int
    profile: ColumnProfile
    model_id: str
    texts: Mapping[Aspect, str]
    fingerprint: str
    vectors: Mapping[Aspect, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def column_id(self) -> str:
        """``namespace.table.column``."""
        return f"{self.table}.{self.profile.name}"


def column_texts(profile: ColumnProfile, table: str) -> dict[Aspect, str]:
    """The text of each aspect of a column: its name, its name with type and values, its values, its place.

    Of personal data the values are left out; a column without values has no text of them.
    """
    name, values = expanded(profile.name), ", ".join(value[:_MAX_VALUE] for value in profile.sample)
    parts = [name, "" if profile.kind == "empty" else profile.kind, values]
    return {
        "name": name,
        "signature": ". ".join(part for part in parts if part),
        "values": values,
        "context": ". ".join(part for part in (f"{name} of {expanded(table)}", *parts[1:]) if part),
    }


def fingerprint_of(profile: ColumnProfile, texts: Mapping[Aspect, str], model_id: str) -> str:
    """What changes when, and only when, a column must be embedded again.

    It covers name, type, sample (through the texts), a bucket of the sketch, coarse statistics and the
    model: rows that only repeat known values change nothing.
    """
    coarse = [
        profile.kind,
        profile.personal,
        _bucket(profile.distinct),
        round(profile.null_fraction, 1),
        [hash_ % 16 for hash_ in profile.sketch[:4]],
    ]
    parts = json.dumps([model_id, dict(texts), sorted(profile.sample), coarse], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def _bucket(count: int) -> int:
    return round(math.log2(count)) if count else -1


_COUNTED: Final = pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))
_SHARES: Final = pa.list_(pa.struct([("value", pa.string()), ("share", pa.float64())]))
PROFILE_FIELDS: Final = (
    ("kind", pa.string()), ("rows", pa.int64()), ("nulls", pa.int64()), ("distinct", pa.int64()),
    ("mean_length", pa.float64()), ("max_length", pa.int64()), ("minimum", pa.string()),
    ("maximum", pa.string()), ("frequent", _COUNTED), ("spread", pa.list_(pa.string())),
    ("quantiles", pa.list_(pa.float64())), ("histogram", pa.list_(pa.float64())),
    ("formats", _SHARES), ("tokens", _SHARES), ("sketch", pa.list_(pa.int64())), ("personal", pa.bool_()),
)  # fmt: skip
KEY_FIELDS: Final = (
    ("column_id", pa.string()), ("model_id", pa.string()), ("namespace", pa.string()),
    ("table", pa.string()), ("column", pa.string()), ("ordinal", pa.int64()), ("source", pa.string()),
    ("location", pa.string()), ("version", pa.string()), ("added", pa.string()),
    ("tags", pa.list_(pa.string())), ("fingerprint", pa.string()),
)  # fmt: skip
_OF_TABLE: Final = ("namespace", "table", "location", "version", "added")
TEXT_FIELDS: Final = tuple((f"{aspect}_text", pa.string()) for aspect in ASPECTS)
VECTOR_FIELDS: Final = tuple((f"{aspect}_vector", pa.list_(pa.float32())) for aspect in ASPECTS)
SCHEMA: Final = pa.schema([*KEY_FIELDS, *PROFILE_FIELDS, *TEXT_FIELDS, *VECTOR_FIELDS])
"""One row a (column_id, model_id). Numbers of ``sketch`` are the unsigned hashes, read as signed ones."""


def to_arrow(signatures: Sequence[ColumnSignature]) -> pa.Table:
    """Signatures as rows of ``lake.ops.column_signatures``."""
    return pa.Table.from_pylist([_row(signature) for signature in signatures], schema=SCHEMA)


def _row(one: ColumnSignature) -> dict[str, Any]:
    profile = one.profile
    facts = {name: getattr(profile, name) for name, _ in PROFILE_FIELDS}
    facts |= {
        "frequent": [{"value": value, "count": count} for value, count in profile.frequent],
        "formats": [{"value": value, "share": share} for value, share in profile.formats],
        "tokens": [{"value": value, "share": share} for value, share in profile.tokens],
        "sketch": [number - _SIGNED if number >= _SIGNED // 2 else number for number in profile.sketch],
    }
    keys = {name: getattr(one, name) for name in ("column_id", "model_id", "ordinal", "fingerprint")}
    keys |= {name: getattr(one.table, name) for name in (*_OF_TABLE, "source", "tags")}
    texts = {f"{aspect}_text": one.texts[aspect] for aspect in ASPECTS}
    vectors = {f"{aspect}_vector": one.vectors.get(aspect) for aspect in ASPECTS}
    return facts | keys | {"column": profile.name} | texts | vectors


def from_arrow(rows: pa.Table) -> list[ColumnSignature]:
    """Read ``to_arrow`` back; vectors are there if their columns are."""
    matrices = {a: vectors_of(rows, a) for a in ASPECTS if f"{a}_vector" in rows.column_names}
    without = rows.drop_columns([f"{aspect}_vector" for aspect in matrices])
    return [
        _signature(row, {aspect: matrix[place] for aspect, matrix in matrices.items() if matrix[place].any()})
        for place, row in enumerate(without.to_pylist())
    ]


def _signature(row: Mapping[str, Any], vectors: Mapping[Aspect, NDArray[np.float32]]) -> ColumnSignature:
    named: dict[str, Any] = {name: row[name] or "" for name in _OF_TABLE}
    return ColumnSignature(
        table=TableVersion(**named, tags=tuple(row["tags"] or ())),
        ordinal=row["ordinal"],
        profile=profile_of(row),
        model_id=row["model_id"],
        texts={aspect: row[f"{aspect}_text"] or "" for aspect in ASPECTS},
        fingerprint=row["fingerprint"],
        vectors=vectors,
    )


def profile_of(row: Mapping[str, Any]) -> ColumnProfile:
    """The profile that a row of the signature table holds."""
    facts: dict[str, Any] = {name: row.get(name) for name, _ in PROFILE_FIELDS}
    for name, second in (("frequent", "count"), ("formats", "share"), ("tokens", "share")):
        facts[name] = tuple((entry["value"], entry[second]) for entry in row[name] or ())
    for name in ("spread", "quantiles", "histogram"):
        facts[name] = tuple(facts[name] or ())
    facts["sketch"] = tuple(number % _SIGNED for number in row["sketch"] or ())
    return ColumnProfile(name=row["column"], **facts)


def vectors_of(rows: pa.Table, aspect: Aspect) -> NDArray[np.float32]:
    """The vectors of one aspect, a row each; rows of zeros where a column has none."""
    column = rows.column(f"{aspect}_vector").combine_chunks()
    # What pyarrow itself makes of a column for NumPy goes through pandas, which is slow to import.
    filled = np.array(column.is_valid().to_pylist(), dtype=bool)
    flat = np.from_dlpack(column.flatten()).astype(np.float32, copy=False)
    width = len(flat) // int(filled.sum()) if filled.any() else 0
    matrix = np.zeros((len(column), width), dtype=np.float32)
    matrix[filled] = flat.reshape(-1, width) if width else matrix[filled]
    return matrix
