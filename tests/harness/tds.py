"""A server of SQL Server's protocol for the tests of pulled sources: pysqlbridge, whose tables tests write.

It has rows, WHERE, the catalog and log-ins. What it does not know (versions of rows, transactions of others,
rights) it answers here with recorded rows. Run as a program it serves a folder.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.processes import Server, free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECTED: Final = "connection from"
USER: Final = {"user": "puller", "password": "pulled-well"}
LOADED_BY: Final = "the library of SQL Server's driver is not there: apt-get install libltdl7"


class SqlServer(Server):
    """A server in a process of its own; each table is a file that it reads anew for each query."""

    def __init__(self, folder: Path) -> None:
        """Start it, without tables."""
        self.folder, self.port = folder, free_port()
        (folder / "tables").mkdir(parents=True)
        self.say("snapshot_isolation_state", 1, 0)
        self.say("MIN_ACTIVE_ROWVERSION", "0x00000000000007D1")
        self.say("sys.partitions", 3)
        words = [sys.executable, "-m", "harness.tds", str(self.folder), str(self.port)]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        wait_for(self.port, self._process, self.log)
        while not self.asked(_CONNECTED):  # it writes that down a moment later
            time.sleep(0.01)

    def put(self, name: str, columns: dict[str, str], rows: list[list[Any]]) -> None:
        """Make a table, or give it other rows.

        Args:
            columns: The types by the columns' names: int, bigint, bit, float, nvarchar, varbinary, datetime.
        """
        place = self.folder / "tables" / f"{name}.json"
        written = place.with_suffix(".new")
        written.write_text(json.dumps({"columns": columns, "rows": rows}), encoding="utf-8")
        written.replace(place)

    def say(self, words: str, *row: Any) -> None:
        """Answer each question that has these words with one row."""
        answers = self.folder / "answers.json"
        known = json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}
        answers.write_text(json.dumps({words: row} | known | {words: row}), encoding="utf-8")

    def asked(self, words: str) -> int:
        """How often something with these words was asked, or said by the server."""
        return self.log.read_text(encoding="utf-8").count(words) if self.log.exists() else 0


@contextmanager
def running_sql_server(folder: Path) -> Iterator[SqlServer]:
    """A server, where the driver's library can be loaded."""
    driver = pytest.importorskip("mssql_python", reason="`make test-sources` installs the extra sqlserver")
    pytest.importorskip("pysqlbridge", reason="`make test-sources` installs it")
    with pytest.raises(driver.Error) as refused:
        driver.connect("Server=127.0.0.1,1;UID=nobody;PWD=none;Encrypt=no", timeout=1)
    if "Failed to load the driver" in str(refused.value):
        pytest.skip(LOADED_BY)
    running = SqlServer(folder)
    try:
        yield running
    finally:
        running.stop()


class Written:
    """A table in a file, as pysqlbridge asks for it."""

    def __init__(self, place: Path) -> None:
        self.name, self.place = place.stem, place

    def load(self) -> Any:
        """Read the file."""
        from pysqlbridge.source import Table
        from pysqlbridge.tds.result import Bit, Column, DateTime, Float, Integer, NVarChar, VarBinary

        kinds = {
            "int": Integer(4), "bigint": Integer(8), "bit": Bit(), "float": Float(8), "datetime": DateTime(),
            "nvarchar": NVarChar(4000), "varbinary": VarBinary(8000),
        }  # fmt: skip
        found = json.loads(self.place.read_text(encoding="utf-8"))
        types = list(found["columns"].values())
        rows = [[_value(*pair) for pair in zip(types, row, strict=True)] for row in found["rows"]]
        columns = [Column(name, kinds[kind]) for name, kind in found["columns"].items()]
        return Table(name=self.name, columns=columns, rows=rows)

    schema = load

    def children(self) -> dict[str, Any]:
        """Tables in its values: none."""
        return {}

    child_schemas = children


def _value(kind: str, given: Any) -> Any:
    if given is not None and kind == "datetime":
        return datetime.fromisoformat(given)
    return bytes.fromhex(given) if given is not None and kind == "varbinary" else given


def _recorded(folder: Path, query: str) -> Any:
    """The recorded answer to a question; None if there is none."""
    from pysqlbridge.tds.result import Column, Integer, NVarChar, QueryResult

    answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    row = next((row for words, row in answers.items() if words in query), None)
    if row is None:
        return None
    types = [Integer(8) if isinstance(one, int) else NVarChar(4000) for one in row]
    return QueryResult(columns=[Column(f"c{n}", kind) for n, kind in enumerate(types)], rows=[row])


def serve(folder: Path, port: int) -> None:
    """Serve the folder's tables until the process is ended."""
    from pysqlbridge.catalog import Catalog
    from pysqlbridge.logins import Login, LoginStore
    from pysqlbridge.server import BridgeServer

    def answer(query: Any) -> Any:
        catalog = Catalog()
        for place in sorted((folder / "tables").glob("*.json")):
            catalog.add_source(Written(place))
        return _recorded(folder, query.sql) or catalog.answer(query)

    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    logins = LoginStore([Login(USER["user"], USER["password"], hashed=False)])
    with BridgeServer("127.0.0.1", port, query_handler=answer, logins=logins) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
