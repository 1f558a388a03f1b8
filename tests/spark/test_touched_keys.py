"""The keys that random transactions touch, found by Spark through each query, beside DuckDB's results."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.derived_queries import RECORDED, REFUSED, SCHEMAS, SHAPES, Inputs, answer, plan_of
from harness.project import TemporaryProject
from harness.soak import only_in_soak, soaking
from pyspark.sql import types as T

from kedro_lakehouse.formats.placed import positions_of
from kedro_lakehouse.ingestion.derived import statement_over
from kedro_lakehouse.ingestion.few_rows import FewRows, before_casts, frame_of_rows
from kedro_lakehouse.ingestion.few_values import Values, few
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError, Value, shape_of
from kedro_lakehouse.ingestion.touched_keys import TouchedKeys
from kedro_lakehouse.session.arrow import spark_types

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class LocalRows(FewRows):
    """Reads few rows of states that are in memory."""

    def __init__(self, states: dict[int, dict[str, pa.Table]]) -> None:
        self.states = states
        self.refused = 0

    def part(self, alias: str, snapshot: int, values: Values, into: Sequence[Value]) -> pa.Table | None:
        rows = self.states[snapshot][alias]
        kinds = spark_types(rows.schema)
        among: dict[str, list[Any]] = {}
        for place, value in enumerate(into):
            plain = values.plain(place)
            wanted = None if plain is None else before_casts(kinds[value.column], value.casts, plain)
            if wanted is None:
                self.refused += 1
                return None
            among[value.column] = wanted
        return rows.take(positions_of(rows, among, without=pa.array([], pa.int64())))


def test_rows_of_several_files_become_one_frame(session: SparkSession) -> None:
    parts = [pa.table({"n": pa.array(values, pa.int64())}) for values in ([], [1], [], [2, 3], [])]
    rows = pa.concat_tables(parts)
    assert sorted(r["n"] for r in frame_of_rows(session, rows).collect()) == [1, 2, 3]
    assert frame_of_rows(session, rows.slice(0, 0)).collect() == []


@pytest.mark.parametrize("way", [pytest.param("spark", marks=only_in_soak), "local"])
def test_touched_keys_are_all_that_change(session: SparkSession, way: str) -> None:
    shapes = {n: shape_of(plan_of(session, sql), list(SCHEMAS), keys) for n, (keys, sql) in SHAPES.items()}
    inputs = Inputs(seed=2026)
    now, tables = frames_of(session, inputs), inputs.tables()
    local = LocalRows({2: tables})
    seen: Counter[str] = Counter()
    for number in range(TRANSACTIONS):
        name = list(SHAPES)[number % len(SHAPES)]
        keys, sql = SHAPES[name]
        states = {1: now}
        local.states[1] = local.states[2]
        was = answer(tables, sql)
        changed = inputs.change()
        now, tables = frames_of(session, inputs), inputs.tables()
        result = answer(tables, sql)
        states[2], local.states[2] = now, tables
        with ExitStack() as cached:
            found = TouchedKeys(
                KEYS_OF,
                lambda alias, at, states=states: states[at][alias],
                lambda given, sql=sql: over(session, given, sql),
                shapes[name],
                cached,
                sessions=(lambda: session, lambda: session),
                few_rows=local if way == "local" else None,
            )
            kinds = over(session, states[2], sql).select(*keys).schema
            values = {
                alias: few(lambda: session, [T.LongType()], [(key,) for key in rows])
                for alias, rows in changed.items()
            }
            before, after = dict.fromkeys(SCHEMAS, 1), dict.fromkeys(SCHEMAS, 2)
            touched = {row for one in found.of(values, before, after) for row in one.rows or ()}
            wanted = few(lambda: session, [f.dataType for f in kinds.fields], touched)
            frame, is_local = found.result(wanted, keys, after)
            cut = [row.asDict() for row in frame.collect()]
        seen["local"] += is_local

        def of(rows: list[dict[str, Any]], *, others: bool, touched: set[Any] = touched) -> Counter[Any]:
            mine = [r for r in rows if (tuple(r[k] for k in SHAPES[name][0]) in touched) != others]  # noqa: B023
            return Counter(tuple(r.values()) for r in mine)

        assert of(was, others=True) == of(result, others=True), (number, name, changed)
        assert Counter(tuple(r.values()) for r in cut) == of(result, others=False), (number, name, changed)
        seen["changed"] += was != result
        seen["spared"] += bool(of(result, others=True))
    # Else the assertions above would say nothing.
    assert seen["local"] >= TRANSACTIONS / 4 if way == "local" else not seen["local"]
    assert seen["changed"] >= TRANSACTIONS / 4
    assert seen["spared"] >= TRANSACTIONS / 2


def over(session: SparkSession, given: dict[str, DataFrame], sql: str) -> DataFrame:
    """The query over frames."""
    for alias, rows in given.items():
        rows.createOrReplaceTempView(f"part_{alias}")
    return session.sql(statement_over({alias: f"SELECT * FROM part_{alias}" for alias in given}, sql))
