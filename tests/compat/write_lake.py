"""Write a project and its lake with the version that is installed, to be kept for later versions to read.

Usage: ``python write_lake.py FORMAT CACHE ARCHIVE`` makes a Kedro project with ``kedro new`` and ``kedro
lakehouse init``, lands files, runs what an operator runs, and packs the project into ``ARCHIVE``. ``CACHE``
holds Spark's jars. The project lies in a fixed folder, for Iceberg's metadata holds whole paths.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PLACE = Path("/tmp/kedro-lakehouse-earlier")  # noqa: S108 - a fixed place: see above
CONF = Path(__file__).resolve().parents[2] / "conf"
ITEM = {
    "Op": pa.string(), "id": pa.int64(), "name": pa.string(), "price": pa.int64(),
    "ts": pa.timestamp("us"), "seq": pa.string(),
}  # fmt: skip
SOURCES = """
shop:
  type: dms
  path: ${globals:landing}/shop
  sequence_column: seq
  timestamp_column: ts
lists:
  type: extract
  path: ${globals:landing}/lists
  pattern: "*.csv"
  extract_time: {from: name, pattern: "%Y-%m-%d"}
  file_format: csv
crm:
  type: changes
  path: ${globals:landing}/crm
  pattern: "*.csv"
  file_format: csv
  op_column: status
"""
TABLES = """
shop.item:
  source: shop
  keys: [id]
  history: {view: {name: item_versions}}
  expectations:
    - {type: expect_column_values_to_be_between, column: price, min_value: 0, severity: block}
shop.line: {source: shop, keys: [], write: append}
shop.old: {source: shop, keys: [id], changes_retention: 10 days}
lists.price: {source: lists, keys: [sku], types: {amount: "decimal(10,2)"}, history: true}
crm.customer:
  source: crm
  keys: [customer_id]
  order_by: [changed_at]
  types: {customer_id: bigint, changed_at: timestamp}
  history: true
shop.report:
  keys: [id]
  derive: {inputs: {i: shop.item}, sql: "SELECT id, upper(name) AS title, price FROM i"}
"""


def land(project: Path, table: str, file: str, rows: list[tuple[Any, ...]]) -> None:
    """Land a file of changes of a table of the source ``shop``: op, id, name, price, day, seq."""
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
    names = list(ITEM)
    full = file.startswith("LOAD")
    shape = {k: v for k, v in ITEM.items() if not (full and k == "Op")}
    records = [
        dict(zip(names, (op, key, name, price, start + dt.timedelta(days=day), seq), strict=True))
        for op, key, name, price, day, seq in rows
    ]
    path = project / "data/01_raw/shop" / table / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records, schema=pa.schema(list(shape.items()))), path)


def write(project: Path, place: str, text: str) -> None:
    """Write a file of the project."""
    path = project / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def kedro(project: Path, env: str, *words: str, code: int = 0) -> str:
    """Run a command of Kedro in the project."""
    command = [sys.executable, "-m", "kedro", *words]
    variables = os.environ | {"KEDRO_LOGGING_CONFIG": str(CONF / "logging.yml")}
    variables |= {"KEDRO_ENV": env} if env else {}
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def make(table_format: str, cache: str) -> Path:
    """Make the project, without anything in it."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    kedro(PLACE, "", "new", f"--name={table_format} lake", "--tools=none", "--example=n", "--telemetry=no")
    project = PLACE / f"{table_format}-lake"
    told = json.loads(kedro(project, "", "lakehouse", "init", "--json"))
    for step in told["next"]:
        words, _, code = step.partition(":\n\n")
        if file := re.search(r"src/\S+\.py", words):
            kept = (project / file[0]).read_text(encoding="utf-8").partition("\ndef register_pipelines")[0]
            # As told then, `kedro run --pipelines=maintenance` found no module of that name and failed.
            code = textwrap.dedent(code).replace("find_pipelines(raise_errors=True)", "find_pipelines()")
            (project / file[0]).write_text(f"{kept}\n{code}\n", encoding="utf-8")
    write(project, "conf/base/sources.yml", SOURCES)
    write(project, "conf/base/tables.yml", TABLES)
    for env in ("delta", "hudi"):
        for file in ("globals.yml", "spark.yml"):
            write(project, f"conf/{env}/{file}", (CONF / env / file).read_text(encoding="utf-8"))
    (project / ".cache").symlink_to(Path(cache).resolve())
    return project


def fill(project: Path, env: str) -> None:
    """Land files and run what an operator runs; each of the steps leaves something in the lake."""
    land(project, "item", "LOAD00000001.parquet", [(None, i, f"n{i}", i, 0, None) for i in range(1, 7)])
    land(project, "old", "LOAD00000001.parquet", [(None, i, f"n{i}", i, 0, None) for i in range(1, 4)])
    land(project, "line", "20260101-000010000.parquet", [("I", 1, "a", 1, 0, "1"), ("I", 1, "a", 1, 0, "2")])
    write(project, "data/01_raw/lists/price/2026-01-01.csv", "sku,amount\na,1.00\nb,2.50\nc,x\n")
    first = "status,customer_id,name,changed_at\nI,1,Ann,2026-01-01 10:00:00\nI,2,Bob,2026-01-01 10:00:00\n"
    write(project, "data/01_raw/crm/customer/1.csv", first)
    kedro(project, env, "run")

    changed = [("U", 1, "new", 10, 1, "1"), ("D", 2, None, None, 1, "2"), ("?", 3, "x", 3, 1, "3")]
    land(project, "item", "20260102-000010000.parquet", [*changed, ("U", 4, "n4", -1, 1, "4")])
    land(
        project, "old", "20260102-000010000.parquet", [("U", 1, "b", 1, 1, "1"), ("D", 2, None, None, 1, "2")]
    )
    write(project, "data/01_raw/lists/price/2026-01-02.csv", "sku,amount\na,1.10\nb,2.50\n")
    kedro(project, env, "run", code=1)  # the price of item 4 is refused
    kedro(project, env, "lakehouse", "quarantine", "shop.item", "--batch", "2")
    kedro(project, env, "run")

    late = "status,customer_id,name,changed_at\nU,1,Anna,2026-01-03 10:00:00\nU,2,Rob,2025-12-31 10:00:00\n"
    write(project, "data/01_raw/crm/customer/2.csv", late)
    land(project, "old", "20260201-000010000.parquet", [("U", 3, "c", 3, 31, "1")])
    kedro(project, env, "run")
    kedro(project, env, "run", "--pipelines=maintenance")
    kedro(project, env, "lakehouse", "rebuild", "lists.price", "--from-landing", "--yes")
    kedro(project, env, "run")


def main(table_format: str, cache: str, archive: str) -> None:
    """Make, fill and pack."""
    project = make(table_format, cache)
    fill(project, "" if table_format == "iceberg" else table_format)
    (project / ".cache").unlink()
    without = {
        "data/lakehouse/logs",
        "data/lakehouse/leases",
        ".viz",
        ".telemetry",
        "conf/local/credentials.yml",
    }

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        inside = entry.name.partition("/")[2]
        return None if inside in without or inside.endswith(("__pycache__", ".crc")) else entry

    with tarfile.open(archive, "w:gz") as out:
        out.add(project, project.name, filter=kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
