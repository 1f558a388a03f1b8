"""A Spark of its own that reads a database by JDBC, as a process: ``python -m kedro_lakehouse.session.jdbc``.

It is given a line of JSON with the drivers, then answers each further line with one. The rows of a query go
to a socket while Spark reads them. It ends when its input does, and so with whoever started it, or when
nothing is asked for a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS: Final = 20_000
"""So many rows are one batch."""
_IDLE_SECONDS: Final = 60.0
_SQL_ERROR: Final = "java.sql.SQLException"
_PASSES: Final = (
    "java.sql.SQLTransientException",
    "java.sql.SQLRecoverableException",
    "java.sql.SQLNonTransientConnectionException",
)
"""What drivers throw where it may pass by itself; the last one, where they do not try it again themselves."""
_INIT: Final = "sessioninitstatement"
_OF_SPARK: Final = frozenset({"url", "driver", "fetchsize", "querytimeout", _INIT})
"""Options of Spark that are no property of a driver, in lower case."""
_LISTED: Final = ("TABLE", "VIEW")
_LEFT_OUT: Final = ("SYSTEM", "GLOBAL TEMPORARY", "LOCAL TEMPORARY", "TEMPORARY")
"""How the names of types of tables end and do not begin that a crawl lists."""
_OF_SYSTEM: Final = re.compile(
    r"(?i)information_schema|pg_catalog|sys|sys(cat|fun|ibm\w*|proc|public|stat|tools)|_sys_\w+"
)
"""Schemas of databases themselves."""
_OF_OTHERS: Final = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_REMOTE",
)
"""What leads PySpark to the session of who started this process."""


def main() -> None:
    """Answer until there is no more question."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Java or Spark write is no answer
    if not (line := sys.stdin.readline()):
        return
    given = json.loads(line)
    questions: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions, given["folder"]), daemon=True).start()
    database: _Database | None = None
    while True:
        asked = _next(questions)
        do, options = asked.pop("do"), asked.pop("options")
        try:
            if database is None or database.options != options:
                _close(database)
                database = _Database(_session(given["jars"], given["folder"]), options)
            answer = getattr(database, do)(**asked)
        except Exception as error:  # noqa: BLE001 - the answer reports it
            answer = {"error": _reported(error)}
            _close(database)
            database = None
        print(json.dumps(answer), file=answers, flush=True)


def _next(questions: queue.SimpleQueue[dict[str, Any]]) -> dict[str, Any]:
    """The next question; the process ends if none comes."""
    try:
        return questions.get(timeout=_IDLE_SECONDS)
    except queue.Empty:
        os._exit(0)


def _listen(questions: queue.SimpleQueue[dict[str, Any]], folder: str) -> None:
    """Take questions, also while one is answered: without an input nobody waits for the answer."""
    for line in sys.stdin:
        questions.put(json.loads(line))
    shutil.rmtree(folder, ignore_errors=True)  # who made it may have been killed
    os._exit(0)  # Java ends with the pipe that it reads from


class _Database:
    """One database: its catalog by a connection of its own, and its rows by Spark."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        self._session, self.options = session, options
        java: Any = session._jvm
        if "driver" in self.options:
            java.java.lang.Class.forName(self.options["driver"])
        properties = java.java.util.Properties()
        for name, value in self.options.items():
            if name.lower() not in _OF_SPARK:
                properties.setProperty(name, value)
        self.connection = java.java.sql.DriverManager.getConnection(self.options["url"], properties)
        for name, value in self.options.items():
            if name.lower() == _INIT:
                self.connection.createStatement().execute(value)

    def tables(self) -> dict[str, Any]:
        """Schema, whether that is the connection's, name, whether it is a view, and no id, of each table."""
        own, found = self.connection.getSchema(), []
        rows = self.connection.getMetaData().getTables(self.connection.getCatalog(), None, "%", None)
        while rows.next():
            schema, kind = rows.getString("TABLE_SCHEM"), (rows.getString("TABLE_TYPE") or "").upper()
            if (
                kind.endswith(_LISTED)
                and not kind.startswith(_LEFT_OUT)
                and not _OF_SYSTEM.fullmatch(schema or "")
            ):
                name = rows.getString("TABLE_NAME")
                found.append((schema, schema in (None, own), name, kind.endswith("VIEW"), None))
        rows.close()
        return {"tables": found}

    def describe(self, schema: str, table: str) -> dict[str, Any]:
        """The columns of a table as the driver describes a query of it, and how it is named in a query."""
        about = self.connection.getMetaData()
        mark = about.getIdentifierQuoteString().strip()
        self._require_same(mark)
        names = [name.replace(mark, 2 * mark) for name in (*schema.split("."), table) if name]
        relation = ".".join(f"{mark}{name}{mark}" for name in names)
        statement = self.connection.createStatement()
        try:
            found = statement.executeQuery(f"SELECT * FROM {relation} WHERE 1 = 0").getMetaData()  # noqa: S608
            columns = [
                {
                    "name": found.getColumnName(number),
                    "type": found.getColumnTypeName(number),
                    "code": found.getColumnType(number),
                    "digits": found.getPrecision(number),
                    "scale": found.getScale(number),
                    "signed": found.isSigned(number),
                    "nullable": found.isNullable(number) != 0,
                }
                for number in range(1, found.getColumnCount() + 1)
            ]
        finally:
            statement.close()
        product = about.getDatabaseProductName()
        return {"columns": columns, "mark": mark, "relation": relation, "product": product}

    def _require_same(self, mark: str) -> None:
        """Refuse a database in which Spark would quote names wrongly: its rows could be the names."""
        java: Any = self._session._jvm
        dialects = java.org.apache.spark.sql.jdbc.JdbcDialects
        of_spark = dialects.get(self.options["url"]).quoteIdentifier("a")
        if not mark or of_spark != f"{mark}a{mark}":
            raise ValueError(f"Spark writes {of_spark} for a name, and the database reads {mark}a{mark}")

    def keys(self, schema: str, table: str) -> dict[str, Any]:
        """The columns of the primary key; some databases call catalog what others call schema."""
        about = self.connection.getMetaData()
        own = schema.rpartition(".")[2]
        places = [(self.connection.getCatalog(), own or self.connection.getSchema())]
        if own:
            places.append((own, None))
        for place in places:
            rows, found = about.getPrimaryKeys(*place, table), {}
            while rows.next():
                found[rows.getShort("KEY_SEQ")] = rows.getString("COLUMN_NAME")
            rows.close()
            if found:
                return {"keys": [found[number] for number in sorted(found)]}
        return {"keys": []}

    def clock(self, query: str) -> dict[str, Any]:
        """The time that a query gives, in UTC or, without a zone, as it is."""
        statement = self.connection.createStatement()
        try:
            rows = statement.executeQuery(query)
            found = rows.getTimestamp(1) if rows.next() else None
            return {"time": found.toLocalDateTime().toString() if found is not None else None}
        finally:
            statement.close()

    def read(self, query: str, types: Mapping[str, str], to: str) -> dict[str, Any]:
        """Send the rows of a query to a socket; say afterwards how many they were."""
        schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
        reader = self._session.read.format("jdbc").options(**self.options)
        frame = reader.option("query", query).option("customSchema", schema).load()
        send: Any = _sent_to(to)
        sent = frame.mapInArrow(send, "number BIGINT").collect()
        return {"rows": sum(row[0] for row in sent)}


def _close(database: _Database | None) -> None:
    """Give the connection back, also a broken one."""
    if database is not None:
        with contextlib.suppress(Exception):
            database.connection.close()


def _sent_to(place: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Sends batches to a socket, in Arrow's stream format; gives the number of their rows."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows, writer = 0, None
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(place)
            with line.makefile("wb") as file:
                for batch in batches:
                    writer = writer or pa.ipc.new_stream(file, batch.schema)
                    writer.write_batch(batch)
                    rows += batch.num_rows
                if writer is not None:
                    writer.close()
        yield pa.record_batch([pa.array([rows], pa.int64())], names=["number"])

    return send


def _session(jars: list[str], folder: str) -> SparkSession:
    """A session of one core that knows nothing of the project; what it writes lies in a folder."""
    from pyspark.sql import SparkSession

    from kedro_lakehouse.session.java import require_java

    require_java()
    for name in _OF_OTHERS:
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.chdir(folder)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": os.pathsep.join(jars),  # where Java's own DriverManager looks
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.legacy.charVarcharAsString": "true",  # else a text of a CHAR is filled up with blanks
        "spark.sql.warehouse.dir": str(Path(folder) / "warehouse"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    builder = SparkSession.builder.master("local[1]").appName("kedro-lakehouse-jdbc")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _reported(error: Exception) -> dict[str, str | None]:
    """What went wrong: the class of the error and, if the database says it, its state and words."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    found: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    gateway = SparkContext._gateway
    while found is not None:
        if is_instance_of(gateway, found, _SQL_ERROR):
            kind = "passing" if any(is_instance_of(gateway, found, name) for name in _PASSES) else "sql"
            return {"kind": kind, "state": found.getSQLState(), "words": found.getMessage()}
        if found.getCause() is None:  # its words may hold a value
            return {"kind": found.getClass().getSimpleName(), "state": None, "words": None}
        found = found.getCause()
    return {"kind": type(error).__name__, "state": None, "words": str(error)}


if __name__ == "__main__":
    main()
