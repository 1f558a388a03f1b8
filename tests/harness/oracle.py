"""Oracles that come from the data's origin: the databases' end states, and the extracts themselves."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from harness.project import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

EXPECTED = DATA / "expected/dms_sample"
CONSTITUENTS = DATA / "01_raw/sp500/constituents"
DMS_TABLES = sorted(path.stem for path in EXPECTED.glob("*.csv"))
MAPPED = {"Name": "Security", "Company": "Security", "Sector": "GICS Sector"}
SP500_COLUMNS = (
    "Symbol", "Security", "GICS Sector", "GICS Sub-Industry",
    "Headquarters Location", "Date added", "CIK", "Founded",
)  # fmt: skip


def differences_from_expected(table: str, rows: pa.Table) -> tuple[int, int]:
    """Count rows beside, and missing from, the database's own end state, cast to the table's types."""
    path = EXPECTED / f"{table}.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        names = next(csv.reader(handle))
    with duckdb.connect() as db:
        db.register("found", rows)
        kinds = {r[0]: r[1] for r in db.execute("describe found").fetchall()}
        cast = ", ".join(f'cast("{n}" as {kinds[n]}) as "{n}"' for n in names)
        db.execute(
            f"create table expected as select {cast} "
            f"from read_csv('{path}', header=true, all_varchar=true, nullstr='')"
        )
        listed = ", ".join(f'"{n}"' for n in names)
        return _minus(db, "found", "expected", listed), _minus(db, "expected", "found", listed)


def tables_differing(found: Mapping[str, pa.Table]) -> dict[str, tuple[int, int]]:
    """The tables of the DMS task that are not the database's end state, with the rows beside and missing."""
    assert found, "no table was read"
    counted = {table: differences_from_expected(table, rows) for table, rows in found.items()}
    return {table: counts for table, counts in counted.items() if counts != (0, 0)}


def differences(left: pa.Table, right: pa.Table, columns: list[str]) -> int:
    """Count rows that only one of two tables has, as bags."""
    with duckdb.connect() as db:
        db.register("one", left)
        db.register("two", right)
        listed = ", ".join(f'"{n}"' for n in columns)
        return _minus(db, "one", "two", listed) + _minus(db, "two", "one", listed)


def _minus(db: duckdb.DuckDBPyConnection, left: str, right: str, columns: str) -> int:
    query = f"select count(*) from (select {columns} from {left} except all select {columns} from {right})"
    found = db.execute(query).fetchall()
    return int(found[0][0])


def extract_versions() -> Iterator[tuple[datetime, dict[str, dict[str, Any]], set[str]]]:
    """Give each version's time, its rows by key under the mapped names, and the keys of its ragged rows."""
    for path in sorted(CONSTITUENTS.glob("*.csv.gz")):
        yield _version(path)


def extracts_differing(
    history: pa.Table, stored: Callable[[str], str] = str
) -> tuple[list[datetime], int, int]:
    """The extracts that a history as of their times is not; how many were looked at, and their ragged rows.

    Args:
        history: The history of the bundled extracts.
        stored: The name under which a column of the extracts is stored.
    """
    versions, differing = history.to_pylist(), []
    looked_at = ragged_rows = 0
    for time, rows, ragged in extract_versions():
        found = [
            v
            for v in versions
            if v["effective_from"] <= time and (v["effective_to"] is None or time < v["effective_to"])
        ]
        names = rows[next(iter(rows))]
        seen = {v["Symbol"]: {n: v[stored(n)] for n in names} for v in found if v["Symbol"] not in ragged}
        if seen != rows or len({v["Symbol"] for v in found}) != len(found):
            differing.append(time)
        looked_at, ragged_rows = looked_at + 1, ragged_rows + len(ragged)
    return differing, looked_at, ragged_rows


def _version(path: Path) -> tuple[datetime, dict[str, dict[str, Any]], set[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as handle:
        header, *lines = list(csv.reader(io.StringIO(handle.read())))
    names = [MAPPED.get(n, n) for n in header]
    ragged = {line[0] for line in lines if len(line) != len(names)}
    rows = {
        line[0]: dict.fromkeys(SP500_COLUMNS) | {n: v or None for n, v in zip(names, line, strict=True)}
        for line in lines
        if line[0] not in ragged
    }
    return datetime.strptime(path.name[:18], "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC), rows, ragged
