"""Raw copies that Spark's workers write: a file a range, once, however often the records are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from harness.project import TemporaryProject

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.sources import raw_copy
from kedro_lakehouse.sources.kafka import KafkaSource
from kedro_lakehouse.sources.streams import Record, StreamRange

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    project = TemporaryProject.make(tmp_path_factory.mktemp("raw") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def planned(partition: int, first: int, end: int) -> Any:
    found = StreamRange(stream="t", identity="id", partition=str(partition), first=first, end=end, size=2**30)
    return found.planned("kafka")


def opened(raw: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaSource:
    """A source whose ranges are too large for this process: Spark's workers read them."""
    config = KafkaSourceConfig(
        type="kafka", bootstrap_servers="nowhere:1", decoder="json", raw=str(raw),
        metadata={"offset": "at", "timestamp": "stored_at", "headers": {"h": "h"}},
    )  # fmt: skip

    def read(one: Any) -> Any:
        found = StreamRange.of(one)
        for n in range(found.first, found.end):
            yield Record(found.name, n, None, b'{"id": %d}' % n, 1000 * n, (("h", b"%d" % n),))

    monkeypatch.setattr(KafkaSource, "read", lambda _: read)
    return KafkaSource(
        config, TableName("shop", "item"), TableConfig(source="shop", entity="t", keys=("id",))
    )


def test_workers_write_each_range_once(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(tmp_path, monkeypatch)
    ranges = [planned(0, 0, 12_000), planned(1, 5, 9)]
    for _ in range(2):
        lines = source.lines(session, ranges)
        assert (lines.count(), lines.count()) == (12_004, 12_004)
        source.release()
    (told,) = lines.where("_position.row = 7 AND __file = 't:1'").select("_position.metadata").collect()
    assert (told["metadata"]["at"], told["metadata"]["h"]) == (7, "7")
    source.release()
    raw_copy._held.clear()
    source.lines(session, [planned(0, 100, 12_500)]).count()
    source.release()
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert [(path.parent.name, *map(int, path.name.split("-")[:2])) for path in files] == [
        ("partition=0", 0, 12_000), ("partition=0", 12_000, 12_500), ("partition=1", 5, 9),
    ]  # fmt: skip
    counted = [pq.read_table(path, partitioning=None).num_rows for path in files]
    assert counted == [12_000, 500, 4]
