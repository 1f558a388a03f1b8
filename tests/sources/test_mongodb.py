"""Collections and views of MongoDB become tables: full, by windows, as snapshots; nested, flat and raw."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("secantus", reason="`make test-sources` installs secantusdb")
import bson
from harness.mongodb import client_of, documents, is_misfit, misfits, mongodb_server, plain, row_of
from harness.project import TemporaryProject
from harness.soak import soaking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.sources, pytest.mark.spark]

COUNT = 100_000 if soaking() else 3_000
SOURCE: dict[str, Any] = {
    "type": "mongodb", "database": "shop", "credentials": "mongo", "path": "${globals:landing}/mongo",
}  # fmt: skip
PULL = {"maps": ["rates"]}
TABLES: dict[str, Any] = {
    "mongo.item": {"keys": ["_id"], "pull": PULL},
    "mongo.flat": {
        "entity": "item", "keys": ["_id"], "pull": PULL | {"document": "flatten", "on_mixed": "string"},
    },
    "mongo.bytes": {"entity": "item", "keys": ["_id"], "pull": {"document": "raw"}},
    "mongo.few": {
        "entity": "few_seen", "keys": ["_id"],
        "types": {
            "count": "bigint", "price": "decimal(12,2)", "at": "date", "name": "binary",
            "rates": "map<string,struct<rate:double>>", "address": "struct<street:string>",
        },
    },
    "mongo.event": {"keys": ["_id"], "pull": {"mode": "incremental", "cursor": "changed"}},
    "mongo.state": {"entity": "event", "write": "append", "pull": {"mode": "snapshot"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with mongodb_server() as address:
        yield address


@pytest.fixture(scope="module")
def database(uri: str) -> Iterator[Any]:
    with client_of(uri) as client:
        yield client.shop


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, uri: str, database: Any) -> TemporaryProject:
    """A project after its first run."""
    database.item.insert_many(documents(COUNT))
    few = [{"$match": {"count": {"$lt": 10}}}]
    database.command("create", "few_seen", viewOn="item", pipeline=few)
    database.event.insert_many([event(1, minutes=60), event(2, minutes=50)])
    return made(tmp_path_factory.mktemp("mongo") / "p", uri, TABLES)


def made(path: Path, uri: str, tables: dict[str, Any]) -> TemporaryProject:
    declared = {name: {"source": "mongo"} | table for name, table in tables.items()}
    project = TemporaryProject.make(path, {"mongo": SOURCE}, declared)
    project.write("credentials", {"mongo": {"uri": uri}}, env="local")
    project.run("ingestion", "cdc_merge")
    return project


def event(number: int, *, minutes: float, **more: Any) -> dict[str, Any]:
    changed = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)
    return {"_id": number, "changed": changed} | more


def values_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows by their `_id`, without the framework's columns."""
    framework = {"_order", "_time", "_batch", "_op"}
    return {r["_id"]: plain({n: v for n, v in r.items() if n not in framework}) for r in rows}


def test_import_equals_the_collection_and_misfits_are_quarantined(project: TemporaryProject) -> None:
    expected = [row_of(d) for n, d in enumerate(documents(COUNT)) if not is_misfit(n)]
    assert values_of(project.rows("mongo.item")) == {row["_id"]: row for row in expected}
    refused = project.rows("mongo.item_quarantine")
    assert len(refused) == misfits(COUNT)
    assert {reason for row in refused for reason in row["_reasons"]} == {"incompatible_type"}
    assert {json.loads(row["_raw"])["_id"]["$oid"] for row in refused} == {
        str(d["_id"]) for n, d in enumerate(documents(COUNT)) if is_misfit(n)
    }


def test_flattened_structs_are_columns_and_mixed_values_text(project: TemporaryProject) -> None:
    rows = {row["_id"]: row for row in project.rows("mongo.flat")}
    held = {str(d["_id"]): d for d in documents(COUNT)}
    nans = {key for key, d in held.items() if str(d["amount"]) == "NaN"}
    assert rows.keys() == held.keys() - nans  # a decimal column holds no NaN
    assert {row["count"] for row in rows.values()} >= {"0", "1", "many"}
    assert "9007199254740993" in {row["price"] for row in rows.values()}
    first = rows[str(documents(2)[1]["_id"])]
    assert json.loads(first["address"])["street"] == "street 1"  # of some documents it is text


def test_raw_documents_stay_as_they_are(project: TemporaryProject) -> None:
    found = {row["_id"]: bson.decode(row["document"]) for row in project.rows("mongo.bytes")}
    assert len(found) == COUNT
    first = documents(1)[0]
    text = json.dumps({"$oid": str(first["_id"])})
    assert found[text]["count"] == first["count"]


def test_views_are_pulled_too_and_declared_types_are_kept(project: TemporaryProject) -> None:
    rows = {row["count"]: row for row in project.rows("mongo.few")}
    held = documents(10)
    assert rows.keys() == set(range(10))
    assert {n: row["price"] for n, row in rows.items()} == {
        n: Decimal(str(d["price"])) for n, d in enumerate(held)
    }
    assert {row["at"] for row in rows.values()} == {dt.date(2024, 1, 1)}
    assert rows[1]["name"] == b"name 1"
    assert [plain(dict(row["rates"])) for row in rows.values()] == [plain(held[n]["rates"]) for n in rows]
    assert rows[1]["address"] == {"street": "street 1"}


@pytest.fixture(scope="module")
def changed(project: TemporaryProject, database: Any) -> TemporaryProject:
    """The project after documents came, changed and went, and a second run."""
    gone, seen = documents(3)[1:3]
    database.item.delete_one({"_id": gone["_id"]})
    database.item.update_one({"_id": seen["_id"]}, {"$set": {"address.zip": "10115", "rank": 7}})
    database.event.insert_one(event(3, minutes=0, note="new"))
    database.event.replace_one({"_id": 1}, event(1, minutes=0, note="changed"))
    database.event.delete_one({"_id": 2})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kedro_lakehouse.ingestion.documents._FEW_BYTES", 0)  # all are many: Spark looks
        project.run("ingestion", "cdc_merge")
    return project


def test_a_window_holds_what_changed(changed: TemporaryProject) -> None:
    rows = values_of(changed.rows("mongo.event"))
    assert {key: row.get("note") for key, row in rows.items()} == {1: "changed", 2: None, 3: "new"}
    assert rows[2].keys() == {"_id", "changed"}  # a window does not see deletes


def test_snapshots_are_kept_beside_each_other(changed: TemporaryProject) -> None:
    states: dict[str, set[int]] = {}
    for row in changed.rows("mongo.state"):
        states.setdefault(row["_snapshot_id"], set()).add(row["_id"])
    assert [sorted(states[one]) for one in sorted(states)] == [[1, 2], [1, 3]]


def test_a_full_pull_deletes_what_is_gone_and_takes_new_fields(changed: TemporaryProject) -> None:
    gone, seen = documents(3)[1:3]
    rows = values_of(changed.rows("mongo.item"))
    assert str(gone["_id"]) not in rows
    assert rows[str(seen["_id"])] == row_of(seen) | {
        "address": row_of(seen)["address"] | {"zip": "10115"}, "rank": 7,
    }  # fmt: skip
    assert "zip" not in rows[str(documents(4)[3]["_id"])]["address"]
