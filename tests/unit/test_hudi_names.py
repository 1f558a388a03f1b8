"""What Hudi cannot hold is refused before anything is started."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import types as T

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.hudi.format import HudiFormat, refuse_names
from kedro_lakehouse.formats.hudi.timeline import CompletedCommit, instant_of
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

TABLE = TableName("shop", "item")


@pytest.mark.parametrize(
    ("columns", "refused"),
    [
        ({"GICS Sector": T.StringType()}, "GICS Sector"),
        ({"a": T.ArrayType(T.StructType([T.StructField("x-y", T.StringType())]))}, "x-y"),
        ({"m": T.MapType(T.StringType(), T.StructType([T.StructField("1st", T.LongType())]))}, "1st"),
    ],
)
def test_names_that_avro_has_not_are_refused_at_any_depth(columns, refused):
    with pytest.raises(UnsupportedError, match=rf"cannot hold the names {refused}: .*`rename`"):
        refuse_names(TABLE, columns)


def test_other_names_pass():
    refuse_names(
        TABLE, {"_op": T.StringType(), "Symbol2": T.StructType([T.StructField("a_b", T.LongType())])}
    )


def test_an_environment_without_its_extension_is_told():
    assert "HoodieSparkSessionExtension" in (HudiFormat.lacking({}) or "")
    named = {"spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"}
    assert HudiFormat.lacking(named) is None


def test_commits_are_named_by_their_time_in_utc():
    berlin = dt.timezone(dt.timedelta(hours=1))
    assert instant_of(dt.datetime(2026, 1, 1, 0, 30, 0, 123456, tzinfo=berlin)) == "20251231233000123"
    one = CompletedCommit(instant="20260101000000000", completed="20260101000001250", carried={})
    assert one.completed_ms == int(dt.datetime(2026, 1, 1, 0, 0, 1, tzinfo=dt.UTC).timestamp()) * 1000 + 250
