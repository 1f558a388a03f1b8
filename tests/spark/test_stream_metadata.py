"""What a stream tells of its records: both ways of reading give the same columns."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION
from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.lines import RowLines
from kedro_lakehouse.decoders.metadata import few_with_metadata, split_off, with_metadata
from kedro_lakehouse.decoders.records import FAILED, Columns
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.sources.kafka import KafkaSource
from kedro_lakehouse.sources.streams import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(is_spark3(), reason="few rows are read without Spark from Spark 4 on"),
]

TOLD = {
    "key": "message_key", "timestamp": "stored_at", "partition": "part", "offset": "at",
    "headers": {"trace": "trace id", "n": "n", "raw": "raw"},
}  # fmt: skip
SOURCE = {"connector": "postgresql", "ts_ms": 1000}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    project = TemporaryProject.make(tmp_path_factory.mktemp("told") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def source(decoder: str) -> KafkaSource:
    table = TableConfig(
        source="shop", entity="t", keys=("id",), types={"n": "int", "raw": "binary"}, rename={"part": "p"}
    )
    config = KafkaSourceConfig(type="kafka", bootstrap_servers="nowhere:1", decoder=decoder, metadata=TOLD)
    return KafkaSource(config, TableName("shop", "t"), table)


def records(values: list[Any]) -> list[Record]:
    """Values as records with keys, times and headers, each of which some lack."""
    return [
        Record(
            "t:1", number, None if number % 3 == 0 else f"k{number}".encode(),
            None if value is None else json.dumps(value).encode(),
            None if number % 4 == 0 else 1_767_355_200_000 + number,
            (("trace", b"\xff" if number % 2 else b"\xc3\xa9"), ("raw", b"\x00\xff"))
            if number % 3
            else (("n", str(number).encode()),),
        )
        for number, value in enumerate(values)
    ]  # fmt: skip


COLUMNS = Columns(
    types={
        "id": T.StringType(), "name": T.StringType(), "message_key": T.StringType(),
        "stored_at": T.TimestampType(), "p": T.IntegerType(), "at": T.LongType(),
        "trace id": T.StringType(), "n": T.IntegerType(), "raw": T.BinaryType(),
    },
    rename={"part": "p"},
)  # fmt: skip


ROWS = [{"id": n, "name": f"n{n}"} for n in range(9)]
CHANGES = [
    *({"op": "c", "before": None, "after": row, "source": SOURCE | {"lsn": n}} for n, row in enumerate(ROWS)),
    None,
    {"op": "d", "before": ROWS[1], "after": None, "source": SOURCE | {"lsn": 90}},
    {"op": "t", "before": None, "after": None, "source": SOURCE | {"lsn": 91}},
]  # fmt: skip


@pytest.mark.parametrize(("decoder", "values"), [("json", ROWS), ("debezium", CHANGES)])
def test_both_ways_of_reading_tell_the_same(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, decoder: str, values: list[Any]
) -> None:
    stream = source(decoder)
    made = records(values)
    monkeypatch.setattr(KafkaSource, "_read_few", lambda _, planned: [("t:1", made)])
    lines = stream._looked_here([]).lines
    here, there = without_spark(stream, lines), by_spark(stream, session.createDataFrame(lines))
    names = [*COLUMNS.types, POSITION, FAILED]
    assert [row(one, names) for one in here] == [row(one, names) for one in there]
    assert len(here) == sum(value is not None for value in values)
    first = here[1]
    assert first[POSITION] == {"file": "t:1", "row": 1}
    assert (first["message_key"], first["trace id"], first["raw"]) == ("k1", "base64:/w==", b"\x00\xff")
    assert first["stored_at"].astimezone(dt.UTC) == dt.datetime(2026, 1, 2, 12, 0, 0, 1000, dt.UTC)
    assert (here[3]["n"], here[3]["p"], here[3]["at"]) == (3, 1, 3)


def row(event: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: event[name] for name in names}


def without_spark(stream: KafkaSource, lines: Any) -> list[dict[str, Any]]:
    decoder: Any = load_decoder(stream.decoder)
    reader = decoder if hasattr(decoder, "unwrap") else RowLines()
    bare, facts = split_off(lines)
    shapes = reader.discover_few(bare, stream.layout())
    events = decoder.decode_few(bare, shapes, stream.layout(), COLUMNS, ("id",))
    return few_with_metadata(events, facts, stream.metadata_kinds(), COLUMNS).to_pylist()


def by_spark(stream: KafkaSource, lines: DataFrame) -> list[dict[str, Any]]:
    decoder: Any = load_decoder(stream.decoder)
    reader = decoder if hasattr(decoder, "unwrap") else RowLines()
    shapes = reader.discover(lines, stream.layout())
    (group,) = reader.unwrap(lines, [s for s in shapes if s.has_rows], stream.layout(), load="changes")
    decoded = decoder.decode(with_metadata(group, stream.metadata_kinds()), stream.layout(), COLUMNS, ("id",))
    found = decoded.toArrow().to_pylist()
    return sorted(found, key=lambda event: event[POSITION]["row"])
