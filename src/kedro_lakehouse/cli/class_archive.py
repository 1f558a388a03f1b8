"""Archive the classes that Spark loads, once: ``python -m kedro_lakehouse.cli.class_archive``.

A session with the archive (Java's class data sharing) starts in some two thirds of the time. Java ignores an
archive of other jars or of another Java, and so does a session that finds none.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS: Final = "spark.driver.extraJavaOptions"
LAKE: Final = "spark.sql.catalog.lake"
_ARCHIVE: Final = re.compile(r'-XX:SharedArchiveFile=("[^"]+"|\S+)')


def archive_of(java_options: str) -> Path | None:
    """The archive that a session with these options of Java looks for."""
    found = _ARCHIVE.search(java_options)
    return Path(found[1].strip('"')) if found else None


def main() -> int:
    """Start a session that writes its archive when it ends, and have it do what every pipeline does."""
    from kedro_lakehouse.project import found_project
    from kedro_lakehouse.session.spark import get_session

    conf = dict(found_project().spark_conf)
    archive = archive_of(conf.get(OPTIONS, ""))
    if archive is None:
        return 0
    sys.stderr.write("Archiving Spark's classes (once, 20 to 60 s), for sessions to start sooner ...\n")
    begun = perf_counter()
    archive.parent.mkdir(parents=True, exist_ok=True)
    # A session that starts meanwhile never finds half of it.
    fresh = archive.with_suffix(".new")
    conf[OPTIONS] = _ARCHIVE.sub(lambda _: f'-XX:ArchiveClassesAtExit="{fresh}"', conf[OPTIONS])
    with tempfile.TemporaryDirectory() as folder:
        conf[f"{LAKE}.uri"] = f"jdbc:sqlite:file:{folder}/catalog.db"
        conf[f"{LAKE}.warehouse"] = f"{folder}/warehouse"
        try:
            session = get_session(conf)
        except LakehouseError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        _touch_files(session, folder)
        if conf.get(f"{LAKE}.type") == "jdbc":
            _touch_tables(session)
        _end(session)
    if not fresh.is_file():
        sys.stderr.write("Java wrote no archive. Sessions start without it, and later.\n")
        return 0
    fresh.replace(archive)
    sys.stderr.write(f"Archived ({perf_counter() - begun:.0f} s).\n")
    return 0


def _touch_files(session: SparkSession, folder: str) -> None:
    """Read and write files, join, aggregate and number rows: most of Spark that a run ever loads."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = {
        "key": F.col("id") % 7,
        "at": F.current_timestamp(),
        "name": F.lit("x"),
        "price": F.lit("1.5"),
        "tags": F.create_map(F.lit("a"), F.lit("b")),
        "whole": F.struct("id"),
    }
    rows = session.range(100).withColumns(columns)
    rows.write.partitionBy("key").parquet(f"{folder}/parquet")
    for kind in ("csv", "json"):
        rows.select("id", "name", "at").write.format(kind).save(f"{folder}/{kind}")
        session.read.format(kind).load(f"{folder}/{kind}").collect()
    stored = session.read.parquet(f"{folder}/parquet").persist()
    newest = Window.partitionBy("key").orderBy(F.desc("at"), "id")
    first = stored.withColumn("nth", F.row_number().over(newest)).filter("nth = 1")
    joined = first.join(rows.select("id", F.col("name").alias("other")), "id", "left")
    joined.withColumn("price", F.col("price").cast("decimal(10, 2)")).groupBy("key").agg(
        F.max_by("name", "at"), F.sum("price"), F.sha2(F.concat_ws("|", F.collect_list("other")), 256)
    ).collect()
    first.unionByName(stored, allowMissingColumns=True).toPandas()
    session.createDataFrame([(1, "x")], "id long, name string").exceptAll(rows.select("id", "name")).collect()


def _touch_tables(session: SparkSession) -> None:
    """Commit to a table as a run does: stage on a branch, merge, delete, publish, read its metadata."""
    from pyspark.sql import functions as F

    session.sql("CREATE NAMESPACE lake.classes")
    rows = session.range(100).select("id", F.lit("x").alias("name"))
    rows.writeTo("lake.classes.t").tableProperty("write.merge.mode", "merge-on-read").create()
    session.sql("ALTER TABLE lake.classes.t CREATE BRANCH staged")
    rows.selectExpr("id + 50 AS id", "'y' AS name").createOrReplaceTempView("changes")
    session.sql(
        "MERGE INTO lake.classes.t.branch_staged t USING changes c ON t.id = c.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql("DELETE FROM lake.classes.t.branch_staged WHERE id > 120")
    session.sql("CALL lake.system.fast_forward('classes.t', 'main', 'staged')")
    for part in ("", ".snapshots", ".files", ".refs"):
        session.table(f"lake.classes.t{part}").groupBy().count().collect()


def _end(session: SparkSession) -> None:
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway  # PySpark leaves its Java running to the end of Python
    if gateway is None:
        return
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait()


if __name__ == "__main__":
    raise SystemExit(main())
