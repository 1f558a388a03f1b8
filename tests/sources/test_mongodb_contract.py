"""The contract of pulled sources, on MongoDB."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("secantus", reason="`make test-sources` installs secantusdb")
import bson
import pyarrow.parquet as pq
from harness.mongodb import PASSWORD, USER, client_of, mongodb_server

from kedro_lakehouse.config.mongodb import MongoSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.mongodb.source import MongoSource
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.pulls.run import pull_together
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kedro_lakehouse.pulls.protocol import Chunk
    from kedro_lakehouse.testing.pulls import Rows

pytestmark = pytest.mark.sources

_numbers = itertools.count()


class Collection:
    """A collection with documents that tell when they were changed."""

    def __init__(self, uri: str, client: Any) -> None:
        self.uri, self.name = uri, f"c{next(_numbers)}"
        self._database = client.contract
        self._database.create_collection(self.name)

    def put(self, rows: Rows) -> None:
        for key, name in rows.items():
            row = {"_id": key, "id": key, "name": name, "changed": dt.datetime.now(dt.UTC)}
            self._database[self.name].replace_one({"_id": key}, row, upsert=True)

    def remove(self, *ids: int) -> None:
        self._database[self.name].delete_many({"_id": {"$in": list(ids)}})

    def settle(self) -> None:
        time.sleep(0.002)  # the window ends before the millisecond in which it is planned

    def make_anew(self) -> bool:
        self._database[self.name].drop()
        self._database.create_collection(self.name)
        return True


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    with mongodb_server(auth=True) as uri, client_of(uri, username=USER, password=PASSWORD) as client:
        yield uri, client


class TestMongoDb(PulledSourceContract):
    """All cases; documents are read for the ids that are in them."""

    @pytest.fixture
    def origin(self, server: tuple[str, Any]) -> Collection:
        return Collection(*server)

    def declared(self, origin: Any, mode: Any, folder: str) -> Any:
        config = MongoSourceConfig(type="mongodb", path=folder, database="contract")
        cursor = "changed" if mode == "incremental" else None
        keyed: Any = {"write": "append"} if mode == "snapshot" else {"keys": ("_id",)}
        pull = config.pull_model(mode=mode, cursor=cursor)
        return (
            config,
            TableName("m", origin.name),
            TableConfig(source="m", entity=origin.name, pull=pull, **keyed),
        )

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> Any:
        config, name, table = self.declared(origin, mode, folder)
        return MongoSource(config, name, config.completed(table), self.credentials(origin) | credentials)

    def credentials(self, origin: Any) -> dict[str, str]:
        return {"uri": origin.uri, "username": USER, "password": PASSWORD}

    def pulled(self, origin: Any, mode: Any, folder: Path) -> Rows | None:
        sealed = pull_together([self.pulls(origin, mode, folder)])
        if not sealed:
            return None
        (manifest,) = sealed.values()
        landed = [pq.read_table(folder / file.path, partitioning=None) for file in manifest.files]
        found = [bson.decode(raw) for table in landed for raw in table["document"].to_pylist()]
        return {one["id"]: one["name"] for one in found}

    def test_it_goes_on_after_a_state(self, origin: Any, tmp_path: Path) -> None:
        origin.put(dict.fromkeys(range(50), "x"))
        one = self.opened(origin, "full", str(tmp_path))
        pull = one.plan(Since(mode="full", number=0, to=None))
        one.close()
        again = self.opened(origin, "full", str(tmp_path))
        state = json.loads(json.dumps({"after": '{"$numberInt": "29"}'}))
        assert [n for chunk in again.read(pull, state) for n in ids_of(chunk)] == list(range(30, 50))
        again.close()


def ids_of(chunk: Chunk) -> list[int]:
    return [bson.decode(raw)["id"] for raw in chunk.rows["document"].to_pylist()]  # type: ignore[call-overload]
