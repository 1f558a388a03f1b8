"""Pulls that land and are sealed in S3."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.aws import LANDING, moto_aws
from harness.project import TemporaryProject
from s3fs import S3FileSystem

from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.erasure.landed import erase_landed
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.pulls.manifest import SealedPulls
from kedro_lakehouse.pulls.protocol import Chunk, Pull, PullCapabilities
from kedro_lakehouse.pulls.run import TablePulls, pull_together
from kedro_lakehouse.sources.pulled import pulled_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.aws

NAME = TableName("shop", "item")
TABLE = TableConfig(source="s", entity="item", keys=("id",))
FOLDER = f"s3://{LANDING}/pulled"


DECLARED: dict[str, Any] = {
    "type": "sql", "dialect": "postgresql", "connection": {"host": "nowhere"}, "path": FOLDER,
    "layout": "{entity}/Year=%Y",
}  # fmt: skip


class Source:
    """A thousand rows."""

    capabilities = PullCapabilities(modes=frozenset({"full"}), lands="parquet")

    def plan(self, _: object) -> Pull:
        return Pull(from_=None, to="2024-01-31T06:00:00+00:00", identity={"server": "x"})

    def read(self, *_: object) -> Iterator[Chunk]:
        for begin in (0, 500):
            yield Chunk(rows=pa.table({"id": list(range(begin, begin + 500))}))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """AWS with two empty buckets."""
    with moto_aws() as address:
        yield address


def pulls() -> TablePulls:
    config = PulledSourceConfig(type="x", path=FOLDER, layout="{entity}/Year=%Y")
    make: Any = Source
    return TablePulls(NAME, TABLE, config, make=make, sealed=SealedPulls(FOLDER, str(NAME)))


def test_a_pull_lands_and_is_listed(aws: str) -> None:
    assert aws
    (manifest,) = pull_together([pulls()]).values()
    assert (manifest.number, manifest.rows) == (1, 1000)
    config = PulledSourceConfig(type="x", path=FOLDER, layout="{entity}/Year=%Y")
    (file,) = pulled_files(config, NAME, TABLE).files()
    assert file.path == f"{FOLDER}/{manifest.files[0].path}"
    found = pq.read_table(file.path.removeprefix("s3://"), filesystem=S3FileSystem(), partitioning=None)
    assert found["id"].to_pylist() == list(range(1000))


def test_an_erasure_leaves_a_pull_known(aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert aws
    pull_together([pulls()])
    declared = {"source": "s", "entity": "item", "keys": ["id"], "subject": "id", "pull": {"mode": "full"}}
    project = TemporaryProject.make(tmp_path / "p", {"s": DECLARED}, {str(NAME): declared})
    monkeypatch.chdir(project.path)
    table = Project.load("conf", None).bind(NAME)
    before = table.open_source().files()
    changed = erase_landed(table, "id", Wanted.of(["499"], ["id"]), leave=frozenset())
    assert changed == [file.path for file in before]
    assert table.open_source().files() == before
    found = pq.read_table(
        before[0].path.removeprefix("s3://"),
        filesystem=S3FileSystem(skip_instance_cache=True),
        partitioning=None,
    )
    assert found["id"].to_pylist() == [*range(499), *range(500, 1000)]


def test_of_twenty_that_seal_one_number_one_wins(aws: str) -> None:
    assert aws
    pullers, sealed = [pulls() for _ in range(20)], list[Any]()
    for one in pullers:
        one.land()
    threads = [threading.Thread(target=lambda p=p: sealed.append(p.seal())) for p in pullers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [one for one in sealed if one is not None]
    assert SealedPulls(FOLDER, str(NAME)).numbers()[-1] == won.number
    fs = S3FileSystem(skip_instance_cache=True)
    left = [p for p in fs.find(f"{LANDING}/pulled") if f"pull={won.number:06d}" in p]
    assert [p.removeprefix(f"{LANDING}/pulled/") for p in left] == [won.files[0].path]
