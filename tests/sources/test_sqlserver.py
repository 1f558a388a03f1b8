"""SQL Server by Microsoft's driver, on a server of its protocol: the contract, windows, faults, one state."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("mssql_python", reason="`make test-sources` installs the extra sqlserver")
from harness.project import TemporaryProject
from harness.proxy import line_to
from harness.pulled import assert_lacks_are_refused, bound, landed, window
from harness.tds import USER, running_sql_server

from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import PullTooLargeError, SourceRefusedError, SourceUnreachableError
from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.sql import sqlserver
from kedro_lakehouse.pulls.sql.source import SqlSource
from kedro_lakehouse.testing.pulls import PulledSourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.proxy import Line
    from harness.tds import SqlServer

pytestmark = pytest.mark.sources

COLUMNS = {"id": "int", "name": "nvarchar", "updated_at": "datetime"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with running_sql_server(tmp_path_factory.mktemp("sqlserver") / "server") as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[SqlServer]:
    """One that a test may stop, or let answer otherwise."""
    with running_sql_server(tmp_path / "server") as running:
        yield running


def connection(server: SqlServer, **more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": server.port, "database": "shop", "Encrypt": "no"} | more


def made(path: Path, server: SqlServer, tables: dict[str, Any], **source: Any) -> TemporaryProject:
    declared = {
        "type": "sql", "dialect": "sqlserver", "path": str(path / "landing"), "credentials": "db",
        "connection": connection(server),
    }  # fmt: skip
    project = TemporaryProject.make(path / "project", {"s": declared | source}, tables)
    project.write("credentials", {"db": USER}, env="local")
    return project


def now() -> str:
    """A time as a table of the server has it: to milliseconds."""
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


class Table:
    """A table of the server that the contract fills."""

    def __init__(self, server: SqlServer) -> None:
        self.server, self.name = server, f"contract_{next(_numbers)}"
        self.rows: dict[int, list[Any]] = {}
        self._write()

    def _write(self) -> None:
        self.server.put(self.name, COLUMNS, list(self.rows.values()))

    def put(self, rows: dict[int, str | None]) -> None:
        self.rows |= {number: [number, name, now()] for number, name in rows.items()}
        self._write()

    def remove(self, *ids: int) -> None:
        for number in ids:
            self.rows.pop(number, None)
        self._write()

    def settle(self) -> None:
        time.sleep(0.05)

    def make_anew(self) -> bool:
        return False  # its number of a table is made of its name


class TestSqlServer(PulledSourceContract):
    """The contract; windows overlap, since this server does not know transactions."""

    @pytest.fixture
    def origin(self, server: SqlServer) -> Table:
        return Table(server)

    def declared(self, origin: Any, mode: Any, folder: str) -> tuple[SqlSourceConfig, TableName, TableConfig]:
        config = SqlSourceConfig(
            type="sql", dialect="sqlserver", path=folder, connection=connection(origin.server)
        )
        more: dict[str, Any] = {"cursor": "updated_at", "late": {"overlap": "1 s"}}
        pull = SqlPullConfig(mode=mode, **(more if mode == "incremental" else {}))
        table = TableConfig(source="s", entity=f"dbo.{origin.name}", keys=("id",), pull=pull)
        return config, TableName("shop", origin.name), table

    def credentials(self, origin: Any) -> Mapping[str, Any]:
        del origin
        return USER

    def opened(self, origin: Any, mode: Any, folder: str, **credentials: str) -> SqlSource:
        return SqlSource(*self.declared(origin, mode, folder), {**USER, **credentials})


def test_values_arrive_as_they_are(server: SqlServer, tmp_path: Path) -> None:
    """Those of types that this server has; others are recorded in tests/unit/test_sql_dialects.py."""
    columns = {"id": "int", "big": "bigint", "flag": "bit", "f": "float", "t": "nvarchar", "b": "varbinary"}
    columns |= {"at": "datetime"}
    rows = [
        [1, 2**63 - 1, True, 1.7976931348623157e308, "é ' \"\n", "00ff", "9999-12-31T23:59:59.997"],
        [2, -(2**63), False, -5e-324, "", "", "1753-01-01T00:00:00"],
        [3, None, None, None, None, None, None],
    ]
    server.put("value_types", columns, rows)
    project = made(tmp_path, server, {"a.value_types": {"source": "s", "keys": ["id"]}})
    pull_now(bound(project, "a.value_types"))
    expected = [
        dict(
            zip(
                columns,
                [*row[:5], row[5] and bytes.fromhex(row[5]), row[6] and datetime.fromisoformat(row[6])],
                strict=True,
            )
        )
        for row in rows
    ]
    expected[1]["b"] = b""
    assert landed(project, "a.value_types") == expected


def test_a_wrong_password_is_tried_once_and_told_nowhere(
    own_server: SqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "wr0ng-and-long;enough}"
    project = made(tmp_path, own_server, {"a.b": {"source": "s", "keys": ["id"]}})
    project.write("credentials", {"db": USER | {"password": secret}}, env="local")
    before = own_server.asked("connection from")
    with pytest.raises(SourceRefusedError, match="Login failed") as refused:
        pull_now(bound(project, "a.b"))
    assert secret not in f"{refused.value} {refused.value.__cause__} {caplog.text}"
    assert own_server.asked("connection from") == before + 1


def test_a_server_that_is_not_there_is_asked_within_the_budget(
    own_server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlserver, "_CONNECT_SECONDS", 1)  # the driver tries again as long as it may
    project = made(tmp_path, own_server, {"a.b": {"source": "s", "keys": ["id"]}}, retry={"budget": "1 s"})
    own_server.kill()
    with pytest.raises(SourceUnreachableError, match="no connection to it"):
        pull_now(bound(project, "a.b"))


def test_a_certificate_that_is_not_trusted_is_refused(server: SqlServer, tmp_path: Path) -> None:
    tables = {"a.b": {"source": "s", "keys": ["id"]}}
    for given, words in (({"Encrypt": "yes"}, "certificate"), ({"Encrpyt": "no"}, "does not take")):
        project = made(tmp_path / words[:4], server, tables, connection=connection(server) | given)
        with pytest.raises(SourceRefusedError, match=words):
            pull_now(bound(project, "a.b"))


LONG = 30_000
"""So many rows of a table are a chunk and a half."""


@pytest.fixture
def line(own_server: SqlServer, tmp_path: Path) -> Iterator[Line]:
    """A line to a server with a long table. Its ``passed`` is the bytes of a whole pull of that."""
    own_server.put("long", COLUMNS, [[number, "x" * 50, now()] for number in range(LONG)])
    with line_to(own_server.port) as made_line:
        pull_now(bound(behind(made_line, own_server, tmp_path / "first"), "a.long"))
        yield made_line


def behind(line: Line, server: SqlServer, path: Path, **source: Any) -> TemporaryProject:
    """A project that reads the long table by the line."""
    by_line = {"connection": connection(server, port=line.port)}
    return made(path, server, {"a.long": {"source": "s", "keys": ["id"]}}, **by_line, **source)


def test_a_lost_connection_begins_again(own_server: SqlServer, tmp_path: Path, line: Line) -> None:
    project = behind(line, own_server, tmp_path)
    line.restart(cut_at=line.passed * 5 // 6)
    (manifest,) = pull_now(bound(project, "a.long")).values()
    assert (manifest.rows, line.cuts) == (LONG, 1)
    assert len([f for f in (tmp_path / "landing").rglob("pull=*/*") if f.is_file()]) == 1


def test_a_read_from_a_server_that_stops_answering_ends(
    own_server: SqlServer, tmp_path: Path, line: Line
) -> None:
    """The time of a pull is over while its second chunk has not come."""
    project = behind(line, own_server, tmp_path, limits={"time": "5 s"})
    line.restart(silent_at=line.passed * 5 // 6)
    begun = time.monotonic()
    with pytest.raises(PullTooLargeError):
        pull_now(bound(project, "a.long"))
    assert line.silent.is_set()
    assert time.monotonic() - begun < 20


def test_a_window_ends_before_the_oldest_open_transaction(own_server: SqlServer, tmp_path: Path) -> None:
    """The transactions are recorded; which rows come is the server's answer."""
    begun = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=1)
    rows = [[n, "x", (begun + timedelta(seconds=n)).isoformat(timespec="milliseconds")] for n in (-9, 5)]
    own_server.put("late", COLUMNS, [*rows, [3, "no time", None]])
    own_server.say("dm_tran_active_transactions", str(begun + timedelta(minutes=1)), str(begun))
    project = made(tmp_path, own_server, {"a.late": {"source": "s"} | window()})
    with pytest.raises(SourceRefusedError, match="replica does not tell"):
        pull_now(bound(project, "a.late"))
    own_server.say("HAS_PERMS_BY_NAME", 0, 0)
    with pytest.raises(SourceRefusedError, match=r"VIEW SERVER STATE.*overlap"):
        pull_now(bound(project, "a.late"))
    own_server.say("HAS_PERMS_BY_NAME", 1, 0)
    (manifest,) = pull_now(bound(project, "a.late")).values()
    assert manifest.to == (begun - timedelta(seconds=1)).isoformat() + "+00:00"
    assert {row["id"] for row in landed(project, "a.late")} == {-9, 3}
    assert pull_now(bound(project, "a.late")) == {}
    own_server.say("dm_tran_active_transactions", str(begun + timedelta(minutes=1)), None)
    pull_now(bound(project, "a.late"))
    assert {row["id"] for row in landed(project, "a.late")} == {-9, 3, 5}


def test_tables_in_one_state_are_read_in_one_transaction(own_server: SqlServer, tmp_path: Path) -> None:
    for name in ("parent", "child"):
        own_server.put(name, COLUMNS, [[1, name, now()]])
    own_server.say("dm_tran_active_transactions", now(), None)
    own_server.say("HAS_PERMS_BY_NAME", 1, 0)
    tables = {f"a.{name}": {"source": "s", "keys": ["id"]} for name in ("parent", "child")}
    project = made(tmp_path, own_server, tables, one_state=True)
    before = own_server.asked("logged in as")
    found = pull_now(bound(project, "a.parent"))
    assert sorted(found) == ["a.child", "a.parent"]
    assert len({manifest.to for manifest in found.values()}) == 1
    assert own_server.asked("query: BEGIN TRANSACTION") == own_server.asked("logged in as") - before == 1
    own_server.say("snapshot_isolation_state", 0, 1)
    with pytest.raises(SourceRefusedError, match="ALLOW_SNAPSHOT_ISOLATION"):
        pull_now(bound(project, "a.parent"))


def test_what_a_table_lacks_is_refused(server: SqlServer, tmp_path: Path) -> None:
    server.put("numbered", {"id": "int"}, [[1]])
    numbered = {"source": "s", "entity": "dbo.numbered"}
    tables = {
        "a.no_table": {"source": "s", "keys": ["id"]},
        "a.no_column": numbered | {"keys": ["id"], "pull": {"fields": ["nothing"]}},
        "a.no_time": numbered | window(cursor="id", late={"overlap": "1 min"}),
    }
    project = made(tmp_path, server, tables)
    assert_lacks_are_refused(project)
