"""A lake whose datasets are served over HTTP, made without Spark; and a client that may say anything."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import uvicorn
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from harness.catalogs import embedded_conf
from harness.granted import ONE, Secrets, customers
from harness.processes import free_port
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.names import SNAPSHOT_ID
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, ERASURES, QUALITY_RESULTS
from kedro_lakehouse.project import Project
from kedro_lakehouse.service.app import made_app
from kedro_lakehouse.service.server import settings
from kedro_lakehouse.service.tokens import hash_of_token, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

TABLES: dict[str, Any] = {
    "shop.customer": {"source": "shop", "keys": ["id"], "personal": ["name"], "payment": ["card"]},
    "shop.secret": {"source": "shop", "keys": ["id"]},
    "shop.order": {"source": "shop", "keys": ["id"]},
    "devices.shipment": {"source": "shop", "write": "append"},
    "devices.forecast": {"source": "shop", "write": "append"},
    "devices.nothing": {"source": "shop", "write": "append"},
}
GRANTS: dict[str, Any] = {
    "analyst": [
        {
            "table": "shop.customer", "columns": {"exclude": ["email", "salary"]},
            "mask": {"phone": "last4", "born": "hide", "home": "hide"}, "rows": "region = 'EU'",
        },
        {"table": "shop.order", "can": "describe"},
    ],
    "planner": [{"database": "devices"}, {"table": "shop.order"}],
    "auditor": [{"database": "shop"}, {"tag": "personal"}, {"tag": "payment"}],
    "nobody": [],
}  # fmt: skip
FIRST = datetime(2024, 1, 31, 6, tzinfo=UTC)


def pulled_id(number: int) -> str:
    """The id of the snapshot that a pull made."""
    return f"{FIRST + timedelta(days=number - 1):%Y%m%dT%H%M%SZ}-{number:06d}"


@dataclass(frozen=True)
class ServedLake:
    """The project, its folder, and the token of each role."""

    project: Project
    folder: Path
    tokens: Mapping[str, str]

    @property
    def results(self) -> Path:
        """The folder of results."""
        return self.folder / "results"

    def table(self, name: str) -> Any:
        """A stored table, to write to as other runs do."""
        return self.project.catalog.catalog.load_table(name)


def served_lake(folder: Path, secret: Secrets = ONE, *, pulls: int = 8, **service: Any) -> ServedLake:
    """A lake with people, an order table of three commits, and two tables of pulled snapshots."""
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, TABLES, {"dms": DmsSourceConfig})
    tokens = {role: new_token() for role in GRANTS}
    query = {"output": str(folder / "results"), "time": "60 s", "memory": "1 GiB"} | service.pop("query", {})
    own = {"rate": 10_000, "query": query} | service
    hashes = {role: hash_of_token(token) for role, token in tokens.items()}
    project = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(folder / "lake"),
        lakehouse=str(folder / "lake"), cache=str(folder), _grants=lambda: GRANTS,
        _service=lambda: {"service": own}, _credentials=lambda: {"service_tokens": hashes},
    )  # fmt: skip
    made = ServedLake(project, folder, tokens)
    _fill(made, secret, pulls)
    return made


def _fill(lake: ServedLake, secret: Secrets, pulls: int) -> None:
    catalog = lake.project.catalog
    for space in ("shop", "devices"):
        catalog.ensure_namespace(space)
    people = pa.Table.from_pylist(customers(secret))
    catalog.catalog.create_table("shop.customer", schema=people.schema).append(people)
    hidden = pa.Table.from_pylist([{"id": 1, "word": secret.word}])
    catalog.catalog.create_table("shop.secret", schema=hidden.schema).append(hidden)
    orders = pa.schema({"id": pa.int64(), "amount": pa.int64()})
    catalog.catalog.create_table("shop.order", schema=orders)
    for batch in (1, 2, 3):
        commit_orders(lake, batch)
    for name in ("shipment", "forecast"):
        make_pulled(lake, f"devices.{name}")
        for number in range(1, pulls + 1):
            pull(lake, f"devices.{name}", number)
    reject(lake, "devices.shipment", "Year=2024/Month=03/Date=01/pull=000099/a.parquet", "INCOMPATIBLE_TYPE")
    block(lake, "devices.shipment", 90)


def commit_orders(lake: ServedLake, batch: int) -> int:
    """Publish one more batch of orders; the state that it made."""
    table = lake.table("shop.order")
    rows = [{"id": number, "amount": batch} for number in range(batch)]
    write = table.overwrite if batch > 1 else table.append
    write(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    return record(lake, "shop.order", batch)


def record(lake: ServedLake, name: str, batch: int) -> int:
    """Record the newest state of a table as that of a batch."""
    state = lake.table(name).current_snapshot()
    committed = datetime.fromtimestamp(state.timestamp_ms / 1000, UTC)
    report = CommitReport(
        table=name, stage="current", batch=batch, batches=1, content_hash=f"h{batch}", run_id="r",
        committed_at=committed.isoformat(timespec="milliseconds"),
    )  # fmt: skip
    lake.project.ops.append(BATCHES, [report.row(state.snapshot_id)])
    return int(state.snapshot_id)


def make_pulled(lake: ServedLake, name: str) -> None:
    """A table of snapshots, partitioned by their ids."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "site", StringType()),
        NestedField(3, SNAPSHOT_ID, StringType()),
    )
    by_snapshot = PartitionField(3, 1000, IdentityTransform(), SNAPSHOT_ID)
    lake.project.catalog.catalog.create_table(name, schema=schema, partition_spec=PartitionSpec(by_snapshot))


def pull(lake: ServedLake, name: str, number: int) -> None:
    """Append the rows of one pull."""
    table = lake.table(name)
    rows = [{"id": n, "site": f"s{number}", SNAPSHOT_ID: pulled_id(number)} for n in range(50)]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))


def reject(lake: ServedLake, name: str, path: str, code: str) -> None:
    """Record that a landed file was refused."""
    row = {
        "table": name,
        "refused": [{"path": path, "code": code}],
        "planned_at": datetime(2024, 3, 1, 7, tzinfo=UTC),
    }
    lake.project.ops.append(BATCH_LEDGER, [row])


def block(lake: ServedLake, name: str, batch: int) -> None:
    """Record that an expectation keeps a batch from being published."""
    row = {
        "suite": name, "table": name, "stage": "current", "batch": batch, "severity": "block",
        "success": False, "judged_at": datetime(2024, 3, 2, 7, tzinfo=UTC),
    }  # fmt: skip
    lake.project.ops.append(QUALITY_RESULTS, [row])


def erased(lake: ServedLake, name: str) -> None:
    """Record that somebody was erased from a table."""
    row = {"erasure": "e", "status": "begun", "table": name, "subject": "h", "recorded_at": datetime.now(UTC)}
    lake.project.ops.append(ERASURES, [row])


@dataclass(frozen=True)
class Answer:
    """What the service answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A lake and the address of its service."""

    lake: ServedLake
    port: int

    def ask(
        self,
        path: str,
        role: str | None = "planner",
        *,
        method: str = "GET",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with a role's token; ``body`` is sent as JSON unless it is bytes."""
        told = {} if role is None else {"Authorization": f"Bearer {self.lake.tokens[role]}"}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            told["Content-Type"] = "application/json"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, data, told | dict(headers or {}))
            found = connection.getresponse()
            return Answer(found.status, found.read(), {k.lower(): v for k, v in found.getheaders()})

    def raw(self, sent: bytes) -> bytes:
        """What is answered to these very bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            found = b""
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    found += part
            except OSError:  # the service has closed the connection
                return found
            return found

    def query(self, text: str, role: str = "planner", **words: Any) -> Answer:
        """Start a query, and wait for its end."""
        begun = self.ask("/v1/queries", role, method="POST", body={"query": text, **words})
        return self.ended(begun.json["id"], role) if begun.status == 202 else begun

    def ended(self, number: str, role: str = "planner") -> Answer:
        """The state of a query that has ended."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self.ask(f"/v1/queries/{number}", role)
            if found.json["state"] != "running":
                return found
            threading.Event().wait(0.05)
        raise AssertionError(number)


@contextmanager
def serving(lake: ServedLake) -> Iterator[Served]:
    """Serve a lake on this machine, by uvicorn, for as long as the block lasts."""
    port = free_port()
    server = uvicorn.Server(settings(made_app(lake.project), "127.0.0.1", port))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.02)
        yield Served(lake, port)
    finally:
        server.should_exit = True
        thread.join(10)
