"""Kinds of cases that need more than a run: reads as of a time, texts of rows, runs that are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.asof import queries_of, versions_of
from conformance.typed import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.project import TemporaryProject
    from pyspark.sql import SparkSession

Row = dict[str, Any]
_POINTS = {
    ("after", "plan"): ("planned", "ingestion"),
    ("after", "stage"): ("staged", "current"),
    ("after", "data_files"): ("staged", "current"),
    ("before", "commit"): ("staged", "current"),
    ("before", "table_commit"): ("staged", "current"),
    ("after", "changes_commit"): ("published", "ingestion"),
    ("after", "table_commit"): ("published", "current"),
    ("before", "bookmark"): ("published", "current"),
    ("after", "bookmark"): ("acknowledged", "current"),
}


def crash_point(crash: Mapping[str, Any]) -> tuple[str, str]:
    """The phase and stage at which a case's run is killed; "before the bookmark" is not acknowledged."""
    ((when, what),) = [(w, crash[w]) for w in ("after", "before") if w in crash]
    return _POINTS[when, what]


def spark_of(project: TemporaryProject) -> SparkSession:
    """The session of a project that ran."""
    return project.frame("cases.t000.current").sparkSession


def as_of_rows(project: TemporaryProject, case: Mapping[str, Any]) -> list[list[Row]]:
    """What the package's as-of read gives of the given versions at each of a case's times."""
    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.history import as_of

    given = versions_of(case)
    names = [n for n in given[0] if n not in ("effective_from", "effective_to", "_order_from")]
    kinds = {n: type_of(r.get(n) for r in given) for n in names}
    times = type_of((r["effective_from"] for r in given), instants=True)
    orders = [type_of(r["_order_from"][i] for r in given) for i in range(len(given[0]["_order_from"]))]
    order = ",".join(f"o{i}:{t}" for i, t in enumerate(orders))
    schema = ", ".join(f"`{n}` {t}" for n, t in kinds.items())
    schema += f", effective_from {times}, effective_to {times}, _order_from struct<{order}>"
    columns = [*names, "effective_from", "effective_to", "_order_from"]
    frame = spark_of(project).createDataFrame([tuple(r.get(n) for n in columns) for r in given], schema)
    contract = TableContract(table="cases.asof", keys=("id",))
    return [[r.asDict() for r in as_of(frame, q["at"], contract).collect()] for q in queries_of(case)]


def canonical_texts(project: TemporaryProject, pairs: Sequence[Sequence[list[Any]]]) -> list[tuple[str, str]]:
    """The package's texts of pairs of rows; a null has the type of its counterpart, else it is text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import _parse_datatype_string as parsed

    from kedro_lakehouse.changes.digest import canonical_text

    texts = []
    for number, pair in enumerate(pairs):
        for side in (0, 1):
            kinds = [
                parsed(type_of([v if v is not None else _at(pair[1 - side], i)]))
                for i, v in enumerate(pair[side])
            ]
            values = [F.lit(v).cast(k) for v, k in zip(pair[side], kinds, strict=True)]
            texts.append(canonical_text(values, kinds).alias(f"t{number}_{side}"))
    row = spark_of(project).range(1).select(*texts).first()
    assert row is not None
    return [(row[f"t{n}_0"], row[f"t{n}_1"]) for n in range(len(pairs))]


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None
