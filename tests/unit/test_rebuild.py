"""What a rebuild from the change log refuses before Spark is started."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.drift import made_for
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import SequenceTypeDriftError
from kedro_lakehouse.formats.base import TableState
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.rebuild import refuse_rebuild
from kedro_lakehouse.ops.report import CommitReport

pytestmark = pytest.mark.unit

NAME = TableName("shop", "order")
COLUMNS = {
    "id": T.LongType(),
    "at": T.TimestampType(),
    "seq": T.LongType(),
    "_order": T.StructType([T.StructField("at", T.TimestampType()), T.StructField("seq", T.LongType())]),
}


def table(**keys):
    config = TableConfig.model_validate({"source": "shop", "keys": ["id"], "order_by": ["at", "seq"]} | keys)
    contract = TableContract.of(NAME, config)
    batch = CommitReport(
        table=str(NAME), stage="ingestion", batch=2, batches=1, content_hash="h", run_id="r", committed_at=""
    )
    found = {f.name: None for f in dataclasses.fields(TableState)}
    found |= {"columns": COLUMNS, "properties": made_for(contract), "bookmark": batch}
    return SimpleNamespace(
        name=NAME,
        config=config,
        contract=contract,
        changes=NAME.with_suffix("changes"),
        state=lambda _: TableState(**found),
        open_source=lambda: SimpleNamespace(gives="changes"),
    )


@pytest.mark.parametrize("types", [{}, {"seq": "bigint"}, {"at": "timestamp"}])
def test_the_order_that_a_table_has_is_known_without_spark(types):
    refuse_rebuild(table(types=types))


@pytest.mark.parametrize("keys", [{"types": {"seq": "string"}}, {"order_by": ["seq"]}])
def test_another_order_is_refused(keys):
    with pytest.raises(SequenceTypeDriftError):
        refuse_rebuild(table(**keys))
