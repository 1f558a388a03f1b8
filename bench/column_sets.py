"""Published sets for the column search, read as they are laid out where they are published."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kedro_lakehouse.column_search.files import read_batches
from kedro_lakehouse.column_search.profile import ColumnProfile, profile_table
from kedro_lakehouse.column_search.sketch import ColumnSketch, sketch_batches
from kedro_lakehouse.column_search.words import expanded


@dataclass
class SetTable:
    """A table of a set: its columns' profiles, and all their distinct values with counts."""

    name: str
    profiles: list[ColumnProfile]
    values: list[dict[str, int]] = field(default_factory=list)


def read_table(path: Path, name: str | None = None) -> SetTable:
    """Read a csv file, its values kept for baselines that embed every row."""
    batches = list(read_batches(path))
    return make_table(name or path.name, sketch_batches(batches), batches)


def make_table(
    name: str, sketches: dict[str, ColumnSketch], batches: list[pa.RecordBatch | pa.Table]
) -> SetTable:
    """Profile a table, personal data or not: sets are public, and values are what they are about."""
    profiles = profile_table(sketches, table=Path(name).stem)
    values: list[dict[str, int]] = []
    for profile in profiles:
        counts: dict[str, int] = {}
        for batch in batches:
            for value in batch.column(profile.name).to_pylist():
                if value not in (None, ""):
                    counts[str(value)] = counts.get(str(value), 0) + 1
        values.append(counts)
    return SetTable(name, profiles, values)


@dataclass
class UnionSet:
    """Union search: query tables, the lake's tables, and which of them are right for which query."""

    queries: list[SetTable]
    lake: list[SetTable]
    truth: dict[str, set[str]]


def read_ugen(folder: Path) -> UnionSet:
    """``query/*.csv``, ``datalake/*.csv``, ``groundtruth.csv`` (query_table, data_lake_table, unionable)."""
    truth: dict[str, set[str]] = {}
    with (folder / "groundtruth.csv").open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["unionable"].strip() == "1":
                truth.setdefault(row["query_table"].strip(), set()).add(row["data_lake_table"].strip())
    queries = [read_table(path) for path in sorted((folder / "query").glob("*.csv"))]
    lake = [read_table(path) for path in sorted((folder / "datalake").glob("*.csv"))]
    return UnionSet([table for table in queries if table.name in truth], lake, truth)


@dataclass
class PropertySet:
    """Column search: tables whose columns bear the name of what they mean, as (table, place) -> property."""

    tables: list[SetTable]
    meaning: dict[tuple[str, int], str]

    def phrase(self, meaning: str) -> str:
        """A property as a user would ask for it."""
        return expanded(meaning.rstrip("/").rpartition("/")[2].rpartition("#")[2])


def read_t2d(folder: Path) -> PropertySet:
    """``tables*/*.json`` (columns in ``relation``) and ``property/*.csv`` (URI, header, key, place)."""
    tables, meaning = [], {}
    for path in sorted(folder.glob("property/*.csv")):
        found = next(iter(sorted(folder.glob(f"tables*/{path.stem}.json"))), None)
        if found is None:
            continue
        columns = json.loads(found.read_text(encoding="utf-8", errors="replace"))["relation"]
        headers = [column[0] for column in columns]
        names = [
            header if header and headers.count(header) == 1 else f"{header or 'column'}#{place}"
            for place, header in enumerate(headers)
        ]
        rows = pa.table({name: column[1:] for name, column in zip(names, columns, strict=True)})
        tables.append(make_table(path.stem, sketch_batches([rows]), [rows]))
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.reader(lines):
                if len(row) >= 4:  # noqa: PLR2004 - the set's four fields
                    meaning[path.stem, int(row[3])] = row[0]
    return PropertySet(tables, meaning)
