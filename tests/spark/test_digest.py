"""Digests: rows have the same canonical text if and only if they are equal."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.digest import canonical_text, surrogate_key
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Conformance case hash-01.
MUST_DIFFER: list[tuple[list[Any], list[Any]]] = [
    (["ab", "c"], ["a", "bc"]),
    (["a", None], [None, "a"]),
    ([None], [""]),
    (["a|b", "c"], ["a", "b|c"]),
    (["1"], [1]),
    (["a", "\u001fb"], ["a\u001f", "b"]),
    (["\u0000"], [None]),
]
MUST_EQUAL: list[tuple[list[Any], list[Any]]] = [([1.0], [1.0]), (["\u00e9"], ["\u00e9"])]

NESTED = "struct<a: string, b: string>"
TYPED_EQUAL: list[tuple[tuple[Any, str], tuple[Any, str]]] = [
    ((7, "tinyint"), (7, "bigint")),
    ((0.5, "float"), (0.5, "double")),
    ((0.0, "double"), (-0.0, "double")),
    ((Decimal("1.50"), "decimal(5,2)"), (Decimal("1.5"), "decimal(38,10)")),
    ((Decimal(100), "decimal(5,0)"), (Decimal(100), "decimal(9,2)")),
    (("{'a': 1, 'b': 2}", "map"), ("{'b': 2, 'a': 1}", "map")),
]
TYPED_DIFFER: list[tuple[tuple[Any, str], tuple[Any, str]]] = [
    ((Decimal(100), "decimal(5,0)"), (Decimal(1), "decimal(5,0)")),
    ((True, "boolean"), ("true", "string")),
    ((dt.date(2026, 1, 1), "date"), ("2026-01-01", "string")),
    ((bytearray(b"a"), "binary"), ("a", "string")),
    (([], "array<string>"), (None, "array<string>")),
    ((["ab", "c"], "array<string>"), (["a", "bc"], "array<string>")),
    (([None], "array<string>"), ([], "array<string>")),
    ((("a", None), NESTED), ((None, "a"), NESTED)),
    (((None, None), NESTED), (None, NESTED)),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    project = TemporaryProject.make(tmp_path_factory.mktemp("digest") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def texts(session: SparkSession, rows: list[list[tuple[Any, str]]]) -> list[str]:
    """The canonical text of each row of (value, type) pairs: one job for all."""
    names = [[f"r{i}c{j}" for j in range(len(row))] for i, row in enumerate(rows)]
    fields, values = [], []
    for row, columns in zip(rows, names, strict=True):
        for (value, kind), name in zip(row, columns, strict=True):
            is_map = kind == "map"
            fields.append(f"{name} {'map<string,int>' if is_map else kind}")
            values.append(eval(value) if is_map else value)  # noqa: S307 - a literal of this file
    frame = session.createDataFrame([tuple(values)], ", ".join(fields))
    kinds = {f.name: f.dataType for f in frame.schema.fields}
    found = frame.select(*[canonical_text([F.col(c) for c in cs], [kinds[c] for c in cs]) for cs in names])
    return list(found.collect()[0])


def plain(values: list[Any]) -> list[tuple[Any, str]]:
    kinds = {str: "string", int: "int", float: "double", type(None): "string"}
    return [(v, kinds[type(v)]) for v in values]


def test_the_text_of_a_row_is_injective(session: SparkSession) -> None:
    pairs = [(plain(a), plain(b)) for a, b in MUST_DIFFER] + [([a], [b]) for a, b in TYPED_DIFFER]
    equal = [(plain(a), plain(b)) for a, b in MUST_EQUAL] + [([a], [b]) for a, b in TYPED_EQUAL]
    found = texts(session, [row for pair in pairs + equal for row in pair])
    for i, pair in enumerate(pairs):
        assert found[2 * i] != found[2 * i + 1], pair
    for i, pair in enumerate(equal, start=len(pairs)):
        assert found[2 * i] == found[2 * i + 1], pair


def test_the_text_tells_the_length_in_bytes(session: SparkSession) -> None:
    # Contract section 7: the UTF-8 of e with an acute accent has two bytes, so 3 characters have 5.
    assert texts(session, [[("\u00e9a\u00e9", "string"), (None, "string"), (12, "int")]]) == [
        "s5:\u00e9a\u00e9ni2:12"
    ]


def test_a_surrogate_key_stays_where_a_key_widens_and_differs_by_version(session: SparkSession) -> None:
    order = "struct<seq: decimal(38,0)>"
    frames = [
        session.createDataFrame(
            [(1, "a", (Decimal(1),)), (1, "a", (Decimal(2),)), (2, "a", (Decimal(1),))],
            f"id {kind}, part string, _order_from {order}",
        )
        for kind in ("int", "bigint")
    ]
    narrow, wide = ([r[0] for r in f.select(surrogate_key(f, ["id", "part"])).collect()] for f in frames)
    assert narrow == wide
    assert len(set(narrow)) == len(narrow)
    assert frames[0].select(surrogate_key(frames[0], ["id"])).schema[0].dataType == T.LongType()
