"""The keys that random transactions touch, found by Spark through each query, beside DuckDB's results."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from harness.derived_queries import RECORDED, REFUSED, SCHEMAS, SHAPES, Inputs, answer, plan_of
from harness.project import TemporaryProject
from harness.soak import soaking

from kedro_lakehouse.ingestion.derived import statement_over
from kedro_lakehouse.ingestion.few_values import Values
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError, shape_of
from kedro_lakehouse.ingestion.touched_keys import TouchedKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TRANSACTIONS = 500 if soaking() else 8
DDL = {
    "c": "id bigint, name string, boss bigint, main bigint, score int",
    "s": "id bigint, c_id bigint, city string",
    "o": "id bigint, s_id double, amount decimal(9,2)",
}
KEYS_OF = dict.fromkeys(SCHEMAS, ("id",))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return TemporaryProject.make(tmp_path_factory.mktemp("touched") / "project", {}, {})._project.session


def frames_of(session: SparkSession, inputs: Inputs) -> dict[str, DataFrame]:
    return {
        alias: session.createDataFrame([tuple(r.values()) for r in table.to_pylist()], DDL[alias])
        for alias, table in inputs.tables().items()
    }


def decision_of(plan: Any, keys: list[str]) -> object:
    """What is decided about a plan: how it is computed by keys, or why it is not."""
    try:
        return shape_of(plan, list(SCHEMAS), keys)
    except ComputedWholeError as why:
        return str(why)


def test_the_recorded_plans_are_decided_as_those_of_this_spark(session: SparkSession) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    texts = dict(SHAPES.items()) | {name: (["id"], sql) for name, (sql, _) in REFUSED.items()}
    assert recorded.keys() == texts.keys()
    for name, (keys, sql) in texts.items():
        assert decision_of(plan_of(session, sql), keys) == decision_of(recorded[name], keys), name


def test_touched_keys_are_all_that_change(session: SparkSession) -> None:
    shapes = {n: shape_of(plan_of(session, sql), list(SCHEMAS), keys) for n, (keys, sql) in SHAPES.items()}
    inputs = Inputs(seed=2026)
    now, tables = frames_of(session, inputs), inputs.tables()
    seen: Counter[str] = Counter()
    for number in range(TRANSACTIONS):
        name = list(SHAPES)[number % len(SHAPES)]
        keys, sql = SHAPES[name]
        states = {1: now}
        was = answer(tables, sql)
        changed = inputs.change()
        now, tables = frames_of(session, inputs), inputs.tables()
        result = answer(tables, sql)
        states[2] = now
        with ExitStack() as cached:
            found = TouchedKeys(
                KEYS_OF,
                lambda alias, at, states=states: states[at][alias],
                lambda given, sql=sql: session.sql(statement_over(given, sql)),
                shapes[name],
                cached,
            )
            values = {
                alias: Values.of(session.createDataFrame([(key,) for key in rows], "id bigint"), cached)
                for alias, rows in changed.items()
            }
            before, after = dict.fromkeys(SCHEMAS, 1), dict.fromkeys(SCHEMAS, 2)
            touched = {
                tuple(row) for frame in found.of(values, before, after) for row in frame.distinct().collect()
            }
            kinds = session.sql(statement_over({a: f"SELECT {_nulls(a)}" for a in SCHEMAS}, sql)).select(
                *keys
            )
            wanted = Values.of(session.createDataFrame(list(touched), kinds.schema), cached)
            cut = [row.asDict() for row in found.result(wanted, keys, after).collect()]

        def of(rows: list[dict[str, Any]], *, others: bool, touched: set[Any] = touched) -> Counter[Any]:
            mine = [r for r in rows if (tuple(r[k] for k in SHAPES[name][0]) in touched) != others]  # noqa: B023
            return Counter(tuple(r.values()) for r in mine)

        assert of(was, others=True) == of(result, others=True), (number, name, changed)
        assert Counter(tuple(r.values()) for r in cut) == of(result, others=False), (number, name, changed)
        seen["changed"] += was != result
        seen["spared"] += bool(of(result, others=True))
    # Else the assertions above would say nothing.
    assert seen["changed"] >= TRANSACTIONS / 4
    assert seen["spared"] >= TRANSACTIONS / 2


def _nulls(alias: str) -> str:
    return ", ".join(
        f"CAST(NULL AS {kind}) AS {name}" for name, kind in (part.split() for part in DDL[alias].split(", "))
    )
