"""A topic into one Iceberg table by Spark's Structured Streaming: ``foreachBatch`` and a MERGE each.

The floor that streams.py holds the project to: current rows only, no history, no record of changes. A record
of the topic is an object in JSON, ``id`` its key and ``at`` its order. Prints the seconds from the start of
the query to its end, and the rows.

Usage: ``plain_stream.py BROKER TOPIC FOLDER [--at-once 250000]``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from plain_merge import newest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[1]
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
SCHEMA = "id long, at long, n long, pad string"


def started(folder: Path) -> SparkSession:
    """A session with Iceberg and Kafka, of the project's size."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", f"{ICEBERG},{KAFKA}")
        .config("spark.jars.ivy", str(ROOT / ".cache/ivy"))
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.plain", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.plain.type", "hadoop")
        .config("spark.sql.catalog.plain.cache-enabled", "false")
        .config("spark.sql.catalog.plain.warehouse", str(folder / "warehouse"))
        .getOrCreate()
    )


def merge(batch: DataFrame, _: int) -> None:
    """Merge the newest row of each key of a micro-batch."""
    newest(batch.withColumn("_order", F.col("at")), ["id"]).drop("_order").createOrReplaceTempView("batch")
    batch.sparkSession.sql(
        """
        MERGE INTO plain.shop.item t USING batch s ON t.id = s.id
        WHEN MATCHED AND s.at > t.at THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        """
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("broker")
    parser.add_argument("topic")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at-once", type=int, default=250_000)
    asked = parser.parse_args()
    session = started(asked.folder)
    session.sql(f"CREATE TABLE plain.shop.item ({SCHEMA}) USING iceberg")
    # Warm, as the other side is.
    merge(session.range(1000).selectExpr("-id - 1 AS id", "id AS at", "id AS n", "'x' AS pad"), 0)
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", asked.broker)
        .option("subscribe", asked.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", asked.at_once)
        .load()
        .select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r"))
        .select("r.*")
    )
    writer = records.writeStream.foreachBatch(merge).option(
        "checkpointLocation", str(asked.folder / "checkpoint")
    )
    begun = time.perf_counter()
    writer.trigger(availableNow=True).start().awaitTermination()
    taken = time.perf_counter() - begun
    rows = session.table("plain.shop.item").where("id >= 0").count()
    print(json.dumps({"seconds": taken, "rows": rows}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
