"""The other ways to read what ``sources.py`` pulls, each in a process of its own, into one parquet file.

Usage: ``python bench/plain_sources.py READER DIALECT PORT FILE``, with what the reader imports at hand;
prints rows, seconds without imports, and the peak of memory in MB as JSON. ``sources.py`` starts it so.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR")

QUERY: Final = "SELECT * FROM bench"
USERS: Final = {"postgresql": ("postgres", "x", "postgres"), "mariadb": ("puller", "pulled-well", "shop")}
"""User, password and database; PostgreSQL asks nobody for a password."""
BATCH: Final = 50_000
JARS: Final = {
    "postgresql": ("org.postgresql:postgresql:42.7.8", "org.postgresql.Driver"),
    "mariadb": ("org.mariadb.jdbc:mariadb-java-client:3.5.6", "org.mariadb.jdbc.Driver"),
}


def adbc(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """The driver that our pull uses, without anything around it."""
    import pyarrow.parquet as pq
    from adbc_driver_postgresql import dbapi

    assert dialect == "postgresql"  # noqa: S101 - sources.py asks for no other

    def read() -> int:
        rows = 0
        with dbapi.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres") as connection:
            cursor = connection.cursor()
            cursor.execute(QUERY)
            reader = cursor.fetch_record_batch()
            with pq.ParquetWriter(file, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    rows += batch.num_rows
            cursor.close()
        return rows

    return read


def pymysql(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """The driver that our pull uses, with its own types."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pymysql as driver

    def read() -> int:
        user, password, database = USERS[dialect]
        connection = driver.connect(
            host="127.0.0.1", port=port, user=user, password=password, database=database
        )
        rows, writer = 0, None
        with connection.cursor(driver.cursors.SSCursor) as cursor:
            cursor.execute(QUERY)
            names = [column[0] for column in cursor.description or ()]
            while found := cursor.fetchmany(BATCH):
                table = pa.table([pa.array(column) for column in zip(*found, strict=True)], names=names)
                writer = writer or pq.ParquetWriter(file, _with_room(table.schema))
                writer.write_table(table.cast(writer.schema))
                rows += len(found)
        if writer is not None:
            writer.close()
        return rows

    return read


def _with_room(schema: pa.Schema) -> pa.Schema:
    """The schema of a first batch; its decimals have room for longer ones in later batches."""
    import pyarrow as pa

    def wide(kind: Any) -> Any:
        return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind

    return pa.schema([field.with_type(wide(field.type)) for field in schema])


def connectorx(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """connectorx, which holds the whole table."""
    import connectorx as cx
    import pyarrow.parquet as pq

    user, password, database = USERS[dialect]
    scheme = "postgresql" if dialect == "postgresql" else "mysql"

    def read() -> int:
        table = cx.read_sql(
            f"{scheme}://{user}:{password}@127.0.0.1:{port}/{database}", QUERY, return_type="arrow"
        )
        pq.write_table(table, file)
        return int(table.num_rows)

    return read


def duckdb(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """DuckDB's scanner of the database, which is an extension in a package of its own."""
    import duckdb as engine

    user, password, database = USERS[dialect]
    kind, name = ("postgres", "dbname") if dialect == "postgresql" else ("mysql", "database")
    extension = importlib.import_module(f"duckdb_extension_{kind}_scanner")
    (library,) = Path(str(extension.__file__)).parent.rglob("*.duckdb_extension")
    connection = engine.connect(config={"threads": 1})
    connection.execute(f"LOAD '{library}'")
    words = f"host=127.0.0.1 port={port} user={user} password={password} {name}={database}"
    connection.execute(f"ATTACH '{words}' AS source (TYPE {kind}, READ_ONLY)")
    table = "source.public.bench" if dialect == "postgresql" else f"source.{database}.bench"

    def read() -> int:
        connection.execute(f"COPY (SELECT * FROM {table}) TO '{file}' (FORMAT parquet)")
        return int((connection.sql(f"SELECT count(*) FROM read_parquet('{file}')").fetchone() or (0,))[0])

    return read


def spark(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """Spark's JDBC with one reader."""
    from pyspark.sql import SparkSession

    user, password, database = USERS[dialect]
    package, driver = JARS[dialect]
    settings = {
        "spark.jars.packages": package, "spark.driver.memory": "2g", "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "localhost",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.range(10).write.mode("overwrite").parquet(f"{file}.warm")
    options = {"user": user, "password": password, "driver": driver, "fetchsize": str(BATCH)}
    # Spark quotes names as MariaDB reads them only where the address says mysql.
    scheme, asked = ("postgresql", "") if dialect == "postgresql" else ("mysql", "?permitMysqlScheme")
    address = f"jdbc:{scheme}://127.0.0.1:{port}/{database}{asked}"

    def read() -> int:
        found = session.read.jdbc(address, "bench", properties=options)
        found.write.mode("overwrite").parquet(str(file))
        return session.read.parquet(str(file)).count()

    return read


def dlt(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """Dlt's sql_database, without its pipeline: as rows of Arrow, with its default backend."""
    import pyarrow.parquet as pq
    from dlt.sources.sql_database import sql_table

    user, password, database = USERS[dialect]
    scheme = "postgresql+psycopg2" if dialect == "postgresql" else "mysql+pymysql"
    address = f"{scheme}://{user}:{password}@127.0.0.1:{port}/{database}"

    def read() -> int:
        rows, writer = 0, None
        for table in sql_table(address, table="bench", backend="pyarrow", chunk_size=BATCH):
            writer = writer or pq.ParquetWriter(file, _with_room(table.schema))
            writer.write_table(table.cast(writer.schema))
            rows += table.num_rows
        if writer is not None:
            writer.close()
        return rows

    return read


def dlt_rest(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """Dlt's REST client, whose records become lines of JSON."""
    del dialect
    from dlt.sources.helpers.rest_client import RESTClient
    from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator

    pages = JSONResponseCursorPaginator(cursor_path="next", cursor_param="after")

    def read() -> int:
        client, rows = RESTClient(f"http://127.0.0.1:{port}", paginator=pages, data_selector="items"), 0
        with file.open("w", encoding="utf-8") as lines:
            for page in client.paginate("/v1/records"):
                lines.writelines(f"{json.dumps(record)}\n" for record in page)
                rows += len(page)
        return rows

    return read


def pymongo(dialect: str, port: int, file: Path) -> Callable[[], int]:
    """pymongo, whose documents become extended JSON."""
    del dialect
    from bson.json_util import dumps
    from pymongo import MongoClient

    def read() -> int:
        rows = 0
        address = f"mongodb://127.0.0.1:{port}"
        with MongoClient[dict[str, Any]](address) as client, file.open("w", encoding="utf-8") as lines:
            for document in client["bench"]["documents"].find():
                lines.write(dumps(document) + "\n")
                rows += 1
        return rows

    return read


READERS: Final = {
    "adbc": adbc, "pymysql": pymysql, "connectorx": connectorx, "duckdb": duckdb, "spark": spark, "dlt": dlt,
    "dlt_rest": dlt_rest, "pymongo": pymongo,
}  # fmt: skip


def peak() -> float:
    """The most memory that this process held, with what those that it has started (Java) held, in MB."""
    # Not ru_maxrss: a process begins with that of the one that started it.
    own, total = str(os.getpid()), 0
    for place in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            lines = place.read_text(encoding="utf-8").splitlines()
            facts = dict(line.split(":", 1) for line in lines if ":" in line)
            if own in (facts["Pid"].strip(), facts["PPid"].strip()):
                total += int(facts.get("VmHWM", "0 kB").split()[0])
    return total / 1024


def main() -> None:
    """Read once, and print what it took."""
    name, dialect, port, file = sys.argv[1:5]
    read = READERS[name](dialect, int(port), Path(file))
    begun = time.perf_counter()
    rows = read()
    seconds = time.perf_counter() - begun
    print(json.dumps({"rows": rows, "seconds": seconds, "peak": peak()}))


if __name__ == "__main__":
    main()
