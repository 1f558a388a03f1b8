"""The contract of pulled sources, for resources of dlt that read an API by dlt's own client."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("dlt", reason="`make test-sources` installs dlt")
from a_shop import PASSWORD
from lakehouse_dlt import DltConfig, DltSource, line_of

from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.errors import InexactFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.protocol import Since
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST = Since(mode="full", number=0, to=None)


class Api(ThreadingHTTPServer):
    """Rows over HTTP, for those who know the password."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.rows: dict[int, str | None] = {}
        self.status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, rows: dict[int, str | None]) -> None:
        self.rows |= rows

    def remove(self, *ids: int) -> None:
        for number in ids:
            self.rows.pop(number, None)

    def settle(self) -> None:
        """Every change is seen at once."""

    def make_anew(self) -> bool:
        return False


class Answers(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        begin, count = (int(asked.get(name, ["0"])[0]) for name in ("offset", "limit"))
        known = self.headers["Authorization"] == f"Bearer {PASSWORD}"
        rows = [{"id": n, "name": name} for n, name in sorted(self.server.rows.items())]
        self.send_response(self.server.status if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"rows": rows[begin : begin + count], "n": len(rows)}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class TestDlt(PulledSourceContract):
    @pytest.fixture
    def origin(self) -> Iterator[Api]:
        with Api() as api:
            thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            yield api
            api.shutdown()
            thread.join()

    def declared(self, origin: Any, mode: Any, folder: str, entity: str = "item") -> Any:
        config = DltConfig(
            type="dlt", path=folder, source="a_shop:shop", arguments={"address": origin.address}
        )
        table = TableConfig(source="s", entity=entity, keys=("id",), pull=PullConfig(mode=mode))
        return config, TableName("shop", entity), table

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> DltSource:
        return DltSource(*self.declared(origin, mode, folder), credentials)

    def test_a_crawl_with_wrong_credentials_is_terminal(self) -> None:
        pytest.skip("a crawl asks the source for its resources, and the API for nothing")

    def test_it_tells_what_resources_declare(self, origin: Api, tmp_path: Path) -> None:
        found = {one.name: one.entity for one in self.crawled(origin, tmp_path)}
        assert set(found) == {"item", "arrow"}
        assert found["item"].keys == ("id",)

    def test_tables_of_arrow_land_with_their_values(self, origin: Api, tmp_path: Path) -> None:
        source = DltSource(*self.declared(origin, "full", str(tmp_path), "arrow"), {})
        (chunk,) = source.read(source.plan(FIRST), None)
        assert list(chunk.rows) == [b'{"id": 1, "price": "1.10"}', b'{"id": 2, "price": null}']

    @pytest.mark.parametrize("status", [404, 422])
    def test_what_an_api_refuses_is_terminal(self, origin: Api, tmp_path: Path, status: int) -> None:
        origin.status = status
        with pytest.raises(TerminalFault, match=str(status)):
            self.opened(origin, "full", str(tmp_path)).plan(FIRST)

    def test_no_connection_may_pass(
        self, origin: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RUNTIME__REQUEST_MAX_ATTEMPTS", "1")
        source = self.opened(origin, "full", str(tmp_path))
        origin.server_close()
        with pytest.raises(TransientFault, match="no connection"):
            source.plan(FIRST)

    def test_what_is_not_there_is_named(self, origin: Api, tmp_path: Path) -> None:
        source = DltSource(*self.declared(origin, "full", str(tmp_path), "itme"), {})
        with pytest.raises(TerminalFault, match="no resource 'itme'") as told:
            source.plan(FIRST)
        assert "arrow, item" in told.value.remedy


def test_values_that_json_has_not_are_texts_or_refused() -> None:
    item = {"at": datetime(2024, 1, 31, tzinfo=UTC), "price": Decimal("1.10"), "large": 2**70}
    assert (
        line_of(item)
        == b'{"at": "2024-01-31T00:00:00+00:00", "price": "1.10", "large": 1180591620717411303424}'
    )
    for wrong in ({"x": float("nan")}, {"x": b"\xff"}, [1]):
        with pytest.raises(InexactFault):
            line_of(wrong)
