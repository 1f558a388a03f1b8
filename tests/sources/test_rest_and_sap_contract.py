"""Sources of type rest and sap keep the contract of all pulled sources."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyrfc", reason="`make test-sources` installs the extra sap")

import pyrfc
from harness.rest_api import SECRET, USER, RestApi, rest_api
from harness.sap import FakeSap, SapField

from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.rest import RestSourceConfig
from kedro_lakehouse.config.sap import SapPullConfig, SapSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.rest.source import RestSource
from kedro_lakehouse.pulls.sap.source import SapSource
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.testing.pulls import Rows

pytestmark = pytest.mark.sources

START = 1_800_000_000


class Resource:
    """A resource of an API, whose clock a test sets."""

    def __init__(self, api: RestApi) -> None:
        self.api, self.names = api, {}
        api.now = START

    def put(self, rows: Rows) -> None:
        self.names |= rows
        self.api.changed = {**self.api.changed, **dict.fromkeys(rows, self.api.now)}
        self._write()

    def remove(self, *ids: int) -> None:
        for one in ids:
            self.names.pop(one, None)
        self._write()

    def _write(self) -> None:
        self.api.rows = [
            json.dumps({"id": n, "name": self.names[n], "changed": self.api.changed[n]})
            for n in sorted(self.names)
        ]

    def settle(self) -> None:
        self.api.now += 700

    def make_anew(self) -> bool:
        return False


class _RestContract(PulledSourceContract):
    paging: dict[str, Any]

    @pytest.fixture
    def origin(self) -> Iterator[Resource]:
        with rest_api(RestApi([], paging=self.paging["type"], auth="basic", size=500)) as api:
            yield Resource(api)

    def declared(
        self, origin: Any, mode: Any, folder: str
    ) -> tuple[RestSourceConfig, TableName, TableConfig]:
        config = RestSourceConfig.model_validate({
            "type": "rest", "path": folder, "base_url": origin.api.address, "credentials": "api",
            "auth": {"type": "basic"}, "paging": self.paging, "records": "data.items", "verify": "twice",
            "window": {"from": "since", "to": "before", "format": "unix"},
        })  # fmt: skip
        pull = PullConfig(mode=mode, cursor="changed" if mode == "incremental" else None)
        table = TableConfig(source="s", entity="parcels", keys=("id",), pull=pull)
        return config, TableName("devices", "parcel"), table

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> RestSource:
        secrets = {"username": USER, "password": SECRET, **credentials}
        return RestSource(*self.declared(origin, mode, folder), secrets)


class TestRestByCursor(_RestContract):
    """The contract with a cursor."""

    paging = {"type": "cursor", "next": "meta.next", "parameter": "after"}  # noqa: RUF012 - a constant


class TestRestByOffset(_RestContract):
    """The contract with an offset."""

    paging = {"type": "offset"}  # noqa: RUF012 - a constant


class SapItems:
    """A table in SAP: it has no nulls, and dates without times."""

    def __init__(self) -> None:
        kinds = [
            SapField("grp"),
            SapField("id", "I", 11),
            SapField("name", length=120),
            SapField("day", "D", 8),
        ]
        self.sap = FakeSap(kinds, name="ITEMS")
        self.today = dt.date(2027, 1, 15)
        self.names: dict[int, dict[str, str]] = {}
        self._tell()

    def _tell(self) -> None:
        self.sap.answer = f"Date: {self.today:%Y%m%d}   Time: 120000"
        self.sap.rows = list(self.names.values())

    def put(self, rows: Rows) -> None:
        for n, name in rows.items():
            self.names[n] = {
                "grp": f"{n // 100:05d}", "id": f"{n:10d} ", "name": name or "", "day": f"{self.today:%Y%m%d}"
            }  # fmt: skip
        self._tell()

    def remove(self, *ids: int) -> None:
        for one in ids:
            self.names.pop(one, None)
        self._tell()

    def settle(self) -> None:
        self.today += dt.timedelta(days=2)
        self._tell()

    def make_anew(self) -> bool:
        return False


class TestSap(PulledSourceContract):
    """The contract on the double of RFC_READ_TABLE."""

    @pytest.fixture
    def origin(self, monkeypatch: pytest.MonkeyPatch) -> SapItems:
        items = SapItems()

        def connect(**given: str) -> FakeSap:
            if given["passwd"] != SECRET:
                raise pyrfc.LogonError(f"wrong: {given['passwd']}", 2, "RFC_LOGON_FAILURE")
            return items.sap

        monkeypatch.setattr(pyrfc, "Connection", connect)
        return items

    def declared(self, origin: Any, mode: Any, folder: str) -> tuple[SapSourceConfig, TableName, TableConfig]:
        del origin
        config = SapSourceConfig.model_validate({
            "type": "sap", "path": folder, "credentials": "erp", "rows": 500,
            "connection": {"ashost": "sap.example.com", "sysnr": "00", "client": "100"},
        })  # fmt: skip
        pull = SapPullConfig(mode=mode, cursor="day" if mode == "incremental" else None)
        table = TableConfig(source="s", entity="ITEMS", keys=("grp", "id"), pull=pull)
        return config, TableName("sap", "item"), table

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> SapSource:
        secrets = {"user": USER, "passwd": credentials.get("password", SECRET)}
        return SapSource(*self.declared(origin, mode, folder), secrets)

    def test_a_full_pull_holds_every_row(self, origin: Any, tmp_path: Any) -> None:
        """A text of SAP is never null, and has no blanks at its end."""
        rows = {n: f"name {n}" for n in range(300)} | {8: "", 9: "é ' \" \\ \n|"}
        origin.put(rows)
        origin.remove(3)
        del rows[3]
        assert self.pulled(origin, "full", tmp_path) == rows
        origin.remove(*range(200))
        origin.settle()
        assert self.pulled(origin, "full", tmp_path) == {n: f"name {n}" for n in range(200, 300)}
