"""A back-test: an early snapshot reads the same after many loads, compaction and expiry; others are gone."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
from harness.pulled import CREDENTIALS, Shop, made, make_table, names_in
from harness.served import Served, ServedLake, serving
from harness.soak import only_in_soak

from kedro_lakehouse.config.maintenance import CompactConfig, ExpireConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.maintain import maintain_table
from kedro_lakehouse.service.tokens import hash_of_token, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.project import TemporaryProject

pytestmark = [pytest.mark.sources, only_in_soak]

LOADS, EARLY = 60, 5
"""So many loads, of which this one is read at the end; and the first that keeps a tag is this one, too."""
TABLES: Final = ("shipment", "forecast", "stock")
STOCK: Final = "/v1/datasets/devices.stock/snapshots"


def load(shop: Shop, project: TemporaryProject, number: int) -> None:
    """Change the tables in the database, and pull and publish them."""
    for name in TABLES:
        shop.script(f"UPDATE {name} SET name = '{name} of load {number}', updated_at = now();")
        shop.script(f"INSERT INTO {name} VALUES ({1_000 + number}, 'new in {number}', now());")
    project.run("ingestion", "cdc_merge")


def digest(served: Served, table: str, snapshot: str) -> str:
    """The digest of what a query of one snapshot gives."""
    text = f"select id, name from {table} order by id"
    done = served.query(text, "analyst", format="csv", snapshots={table: snapshot}).json
    assert done["state"] == "done", done
    return hashlib.sha256(served.ask(done["result"], "analyst").body).hexdigest()


def ids(served: Served, name: str) -> list[str]:
    """The published snapshots of a dataset, the oldest first."""
    path = f"/v1/datasets/devices.{name}/snapshots?state=published&limit=1000"
    return [one["id"] for one in reversed(served.ask(path, "analyst").json["items"])]


@pytest.fixture(scope="module")
def token() -> str:
    return new_token()


@pytest.fixture(scope="module")
def project(shops: dict[str, Shop], tmp_path_factory: pytest.TempPathFactory, token: str) -> TemporaryProject:
    """Two datasets of pulled snapshots, and one that is merged: its snapshots are its commits."""
    folder: Path = tmp_path_factory.mktemp("back")
    shop = shops["postgresql"]
    make_table(shop, *TABLES)
    for name in TABLES:
        shop.script(f"INSERT INTO {name} SELECT n, 'first', now() FROM generate_series(1, 200) AS n;")
    snapshot: dict[str, Any] = {"source": "shop", "write": "append", "pull": {"mode": "snapshot"}}
    tables = {
        "devices.shipment": snapshot,
        "devices.forecast": snapshot,
        "devices.stock": {"source": "shop", "keys": ["id"]},
    }
    project = made(folder / "project", {"shop": shop.source(str(folder / "landing"))}, tables)
    credentials = {"postgresql": CREDENTIALS, "service_tokens": {"analyst": hash_of_token(token)}}
    project.write("credentials", credentials, env="local")
    project.write("grants", {"analyst": [{"database": "devices"}]})
    keep = {"devices.stock": LOADS - EARLY + 1}
    query = {"output": str(folder / "results"), "time": "60 s"}
    project.write("service", {"service": {"query": query, "rate": 1_000, "keep": keep}})
    return project


@pytest.fixture(scope="module")
def told(project: TemporaryProject, shops: dict[str, Shop], token: str) -> Iterator[dict[str, Any]]:
    """What the early snapshots said when they were the newest, and the service after all loads."""
    shop, facts = shops["postgresql"], {}
    for number in range(1, EARLY + 1):
        load(shop, project, number)
    lake = ServedLake(project._project, project.path, {"analyst": token})
    with serving(lake) as served:
        facts = {name: digest(served, f"devices.{name}", ids(served, name)[-1]) for name in TABLES}
    names = names_in(shop, "stock")
    for number in range(EARLY + 1, LOADS + 1):
        load(shop, project, number)
    with serving(ServedLake(project._project, project.path, {"analyst": token})) as served:
        stock = ids(served, "stock")
        maintain(project)
        yield {"digests": facts, "names": names, "stock": stock, "served": served}


def maintain(project: TemporaryProject) -> None:
    """Compact the tables, and let all snapshots expire that keep no tag."""
    own = project._project
    changes: dict[str, Any] = {
        "expire": ExpireConfig.model_construct(older_than=dt.timedelta(0), keep=1, most=400),
        "compact": CompactConfig(small_files=2),
    }
    done: set[str] = set()
    for name in TABLES:
        table = TableName("devices", name)
        settings = own.maintenance.of(table).model_copy(update=changes)
        for report in maintain_table(own, own.bind(table), settings):
            done |= {str(action) for action in report.actions}
    assert any("compact" in action for action in done), done
    assert any("expire" in action for action in done), done


def test_an_early_snapshot_has_the_same_digest(told: dict[str, Any]) -> None:
    served: Served = told["served"]
    for name in ("shipment", "forecast"):
        snapshots = ids(served, name)
        assert len(snapshots) == LOADS
        assert digest(served, f"devices.{name}", snapshots[EARLY - 1]) == told["digests"][name]
        assert digest(served, f"devices.{name}", snapshots[-1]) != told["digests"][name]
    early = told["stock"][EARLY - 1]
    assert digest(served, "devices.stock", early) == told["digests"]["stock"]
    text, pinned = "select id, name from devices.stock", {"devices.stock": early}
    done = served.query(text, "analyst", format="json", snapshots=pinned).json
    rows = [json.loads(line) for line in served.ask(done["result"], "analyst").body.splitlines()]
    assert {row["id"]: row["name"] for row in rows} == told["names"]


def test_a_snapshot_without_a_tag_is_gone(told: dict[str, Any]) -> None:
    served: Served = told["served"]
    assert ids(served, "stock") == told["stock"][EARLY - 1 :]
    for number in told["stock"][: EARLY - 1]:
        gone = served.ask(f"{STOCK}/{number}", "analyst")
        assert (gone.status, gone.json["code"]) == (410, "SNAPSHOT_EXPIRED")
        refused = served.query("from devices.stock", "analyst", snapshots={"devices.stock": number})
        assert (refused.status, refused.json["code"]) == (410, "SNAPSHOT_EXPIRED")


def test_a_join_on_two_snapshots_reads_their_files_alone(told: dict[str, Any]) -> None:
    served: Served = told["served"]
    pinned = {
        "devices.shipment": ids(served, "shipment")[EARLY - 1],
        "devices.forecast": ids(served, "forecast")[EARLY],
    }
    text = "select count(*) n from devices.shipment s join devices.forecast f using (id)"
    part = served.query(text, "analyst", format="json", snapshots=pinned).json
    whole = served.query(text, "analyst", format="json").json
    assert (part["state"], whole["state"]) == ("done", "done"), (part, whole)
    assert json.loads(served.ask(part["result"], "analyst").body) == {"n": 200 + EARLY}
    for less, more in zip(part["tables"], whole["tables"], strict=True):
        link = f"/v1/datasets/{less['table']}/snapshots/{pinned[less['table']]}/files"
        own = served.ask(link, "analyst").json["files"]
        assert (less["files"], less["bytes"]) == (len(own), sum(one["bytes"] for one in own))
        assert 0 < less["bytes"] < more["bytes"] / (LOADS / 2)
