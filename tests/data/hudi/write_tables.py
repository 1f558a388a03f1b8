"""Write the Hudi tables that discovery's tests read: run by hand, with Spark 3.5 and Hudi's jar.

Usage: ``.venv-spark35/bin/python tests/data/hudi/write_tables.py JAR FOLDER`` writes into FOLDER one archive
for each state: ``before.tar.gz`` and ``after.tar.gz``. Each holds ``stock`` (copy on write, partitioned by
``site``, with an update and a replaced partition) and ``meter`` (merge on read, with a log file). After,
``stock`` has one more column, ``checked_by``, and one more row.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

_WRITE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "at",
    "hoodie.metadata.enable": "false",
    "hoodie.schema.on.read.enable": "false",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
}


def main(jar: str, folder: Path) -> None:
    """Write both states, and pack each."""
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)

        def write(
            table: str, rows: list[tuple[object, ...]], schema: str, operation: str, **more: str
        ) -> None:
            frame = session.createDataFrame(rows, schema)
            options = _WRITE | more | {
                "hoodie.table.name": table, "hoodie.datasource.write.operation": operation,
            }  # fmt: skip
            frame.write.format("hudi").options(**options).mode("append").save(str(place / table))

        stock = {"hoodie.datasource.write.partitionpath.field": "site"}
        schema = "id bigint, part string, price decimal(10,2), at timestamp, site string"
        first = [(n, f"part {n}", None, None, "north" if n % 2 else "south") for n in range(1, 9)]
        rows = [(i, p, None, _time(i), s) for i, p, _, _, s in first]
        write("stock", rows, schema, "insert", **stock)
        write("stock", [(1, "part 1 b", None, _time(20), "north")], schema, "upsert", **stock)
        write("stock", [(2, "part 2 b", None, _time(21), "south"), (9, "part 9", None, _time(9), "south")],
              schema, "insert_overwrite", **stock)  # fmt: skip
        log = {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.compact.inline": "false",
        }
        write(
            "meter",
            [(n, n * 1.5, _time(n)) for n in range(1, 6)],
            "id int, kwh double, at timestamp",
            "insert",
            **log,
        )
        write("meter", [(1, 9.0, _time(30))], "id int, kwh double, at timestamp", "upsert", **log)
        _pack(place, folder / "before.tar.gz")
        checked = [(10, "part 10", None, _time(22), "north", "Ann")]
        write("stock", checked, f"{schema}, checked_by string", "upsert", **stock)
        _pack(place, folder / "after.tar.gz")
    session.stop()


def _time(second: int) -> object:
    import datetime as dt

    return dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def _pack(place: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as packed:
        for file in sorted(place.rglob("*")):
            if file.is_file() and not file.name.endswith(".crc"):
                packed.add(file, file.relative_to(place))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
