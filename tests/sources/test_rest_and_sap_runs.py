"""`kedro run` with an API and with SAP: snapshots, windows, a whole table with its history, and refusals."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyrfc", reason="`make test-sources` installs the extra sap")

import pyrfc
from harness.project import TemporaryProject
from harness.rest_api import SECRET, USER, RestApi, rest_api
from harness.sap import FakeSap, SapField

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sources

START = 1_800_000_000
ITEM = [
    SapField("VBELN"), SapField("POSNR", "N", 6),
    SapField("ARKTX", length=300), SapField("ZZNOTE", length=300),
    SapField("NETWR", "P", 16), SapField("ERDAT", "D", 8),
]  # fmt: skip


def item(number: int, amount: str) -> dict[str, str]:
    """A row as SAP's answers hold it."""
    return {
        "VBELN": "0000000042", "POSNR": f"{number:06d}", "ARKTX": "Bolt | M8", "ZZNOTE": "'", "NETWR": amount,
        "ERDAT": "00000000",
    }  # fmt: skip


@pytest.fixture
def api() -> Iterator[RestApi]:
    """An API whose fault rate and clock are the test's."""
    with rest_api(RestApi([], auth="oauth2", paging="cursor", fault_rate=0.05, now=START)) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, api: RestApi) -> TemporaryProject:
    """A snapshot and a current table of an API, and a table of SAP with its history."""
    rest: dict[str, Any] = {
        "type": "rest", "path": "${globals:landing}/logistics", "base_url": f"{api.address}/v1",
        "layout": "InputDataSetName={entity}/Year=%Y/Month=%m/Date=%d", "credentials": "logistics",
        "auth": {"type": "oauth2", "token_url": f"{api.address}/token"},
        "paging": {"type": "cursor", "next": "meta.next", "parameter": "after"}, "records": "data.items",
        "window": {"from": "since", "to": "before", "format": "unix"}, "rate": "1000/s",
    }  # fmt: skip
    sap = {
        "type": "sap", "path": "${globals:landing}/sap", "credentials": "erp_sap",
        "connection": {"ashost": "sap.example.com", "sysnr": "00", "client": "100"},
    }  # fmt: skip
    tables = {
        "devices.shipment": {
            "source": "logistics", "entity": "shipments", "write": "append", "pull": {"mode": "snapshot"},
            "types": {"id": "bigint", "price": "decimal(12,2)"},
        },
        "devices.parcel": {
            "source": "logistics", "entity": "parcels", "keys": ["id"],
            "types": {"id": "bigint", "price": "decimal(12,2)"},
            "pull": {"mode": "incremental", "cursor": "changed"},
        },
        "sap.item": {
            "source": "erp_sap", "entity": "VBAP", "keys": ["VBELN", "POSNR"], "history": True,
            "pull": {"fields": ["ARKTX", "ZZNOTE", "NETWR", "ERDAT"]},
        },
    }  # fmt: skip
    made = TemporaryProject.make(tmp_path / "project", {"logistics": rest, "erp_sap": sap}, tables)
    secrets = {"client_id": USER, "client_secret": SECRET}
    made.write(
        "credentials", {"logistics": secrets, "erp_sap": {"user": USER, "passwd": SECRET}}, env="local"
    )
    return made


def fill(api: RestApi, prices: dict[int, str], now: float) -> None:
    """Give parcels these prices at a time."""
    api.now = now
    known = {json.loads(row)["id"]: row for row in api.rows}
    for number, price in prices.items():
        known[number] = f'{{"id": {number}, "price": {price}, "changed": "{int(now)}"}}'
    api.changed = {**api.changed, **dict.fromkeys(prices, now)}
    api.rows = [known[number] for number in sorted(known)]


def test_pulls_become_tables(
    project: TemporaryProject, api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    sap = FakeSap(ITEM, [item(10, "      12.50 "), item(20, "       7.00-")], name="VBAP")
    monkeypatch.setattr(pyrfc, "Connection", lambda **_: sap)
    fill(api, dict.fromkeys(range(120), "1.10"), START)
    api.now = START + 60
    project.run()
    first = project.rows("devices.shipment")
    assert len(first) == len(project.rows("devices.parcel")) == 120
    assert {row["price"] for row in first} == {Decimal("1.10")}
    assert {(row["POSNR"], row["NETWR"], row["ERDAT"], row["ARKTX"]) for row in project.rows("sap.item")} == {
        ("000010", Decimal("12.50"), None, "Bolt | M8"), ("000020", Decimal("-7.00"), None, "Bolt | M8")
    }  # fmt: skip

    sap.rows = [item(10, "      99.00 ")]
    sap.answer = "Date: 20270201   Time: 120000"
    fill(api, {5: "2.20", 500: "3.30"}, START + 1_000)
    api.now = START + 1_060
    project.run()
    snapshots = project.rows("devices.shipment")
    assert len(snapshots) == 120 + 121
    assert len({row["_snapshot_id"] for row in snapshots}) == 2
    parcels = {row["id"]: row["price"] for row in project.rows("devices.parcel")}
    assert len(parcels) == 121
    assert (parcels[5], parcels[6], parcels[500]) == (Decimal("2.20"), Decimal("1.10"), Decimal("3.30"))
    assert len(project.rows("sap.item_history")) == 3
    landed = sorted(project.landing.glob("logistics/InputDataSetName=shipments/Year=*/Month=*/Date=*/*/*"))
    assert len(landed) == 2
    texts = [path.read_text(encoding="utf-8") for path in project.landing.rglob("*.json")]
    assert not any(SECRET in text for text in texts)


def test_a_wrong_secret_fails_its_tables_alone_and_is_not_shown(
    project: TemporaryProject, api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**given: str) -> None:
        raise pyrfc.LogonError(f"wrong: {given['passwd']}", 2, "RFC_LOGON_FAILURE")

    monkeypatch.setattr(pyrfc, "Connection", refuse)
    fill(api, {1: "1.10"}, START)
    api.now = START + 60
    failed = project.failures()
    assert set(failed) == {"sap.item"}
    assert failed["sap.item"].code == "SOURCE_REFUSED"
    assert SECRET not in str(failed["sap.item"])
    assert len(project.rows("devices.parcel")) == 1
