"""Arrow types of parquet files, as Spark reads them."""

import pyarrow as pa
import pytest

from kedro_lakehouse.session.arrow import as_spark_reads, unread_by_spark

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("there", "read"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.struct([("a", pa.uint16())]), pa.struct([("a", pa.int32())])),
        (pa.list_(pa.large_string()), pa.list_(pa.string())),
        (pa.int32(), pa.int32()),
    ],
)
def test_types_are_told_as_spark_reads_them(there, read):
    assert as_spark_reads(pa.schema([("c", there)])) == pa.schema([("c", read)])


@pytest.mark.parametrize(
    ("kind", "unread"),
    [
        (pa.time64("us"), True),
        (pa.time32("s"), True),
        (pa.duration("us"), True),
        (pa.float16(), True),
        (pa.list_(pa.struct([("a", pa.float16())])), True),
        (pa.map_(pa.string(), pa.time64("us")), True),
        (pa.struct([("a", pa.float32()), ("b", pa.list_(pa.date32()))]), False),
        (pa.dictionary(pa.int32(), pa.string()), False),
        (pa.timestamp("ns"), False),
    ],
)
def test_what_spark_reads_from_no_file_is_found_at_any_depth(kind, unread):
    found = unread_by_spark(pa.schema([("id", pa.int64()), ("c", kind)]))
    assert (found is not None and found.name == "c") == unread
