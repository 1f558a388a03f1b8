"""A dimension as an AWS DMS task lands it: its full load, then batches of changes of which some are late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "file_format": "parquet",
        "sequence_column": "change_seq", "timestamp_column": "commit_time", "max_files": 1,
    },
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.customer": {"source": "shop", "keys": ["id"], "current": False, "history": True, "sort_by": ["id"]},
}
FOLDER = "customer"
STEP = 10  # positions in the log between two events in order; a late event takes one in between
START = "TIMESTAMP '2026-01-01'"


def land_full_load(landing: Path, keys: int) -> None:
    """Write the rows that the dimension has at first, ordered by key."""
    (landing / FOLDER).mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"""
        COPY (
          SELECT range AS id, 'Customer ' || range AS name, 'City ' || range % 1000 AS city,
                 'segment ' || range % 7 AS segment, range AS amount, NULL::VARCHAR AS change_seq,
                 {START} AS commit_time
          FROM range({keys})
        ) TO '{landing / FOLDER}/LOAD00000001.parquet' (FORMAT parquet)""")


class Changes:
    """Makes batches one after the other; a late event precedes the last one of its key."""

    def __init__(self, landing: Path, keys: int, *, seed: int = 1) -> None:
        """Start after the full load."""
        self._folder, self._keys = landing / FOLDER, keys
        self._random = np.random.default_rng(seed)
        self._position, self._batch = 0, 0
        self._last_ids = self._last_positions = np.empty(0, dtype=np.int64)

    def land(
        self, count: int, *, late: float = 0.0, keys: Literal["scattered", "clustered"] = "scattered"
    ) -> Path:
        """Write a file of changes: of those in order 5 % are deletes and 5 % are of new keys."""
        self._batch += 1
        behind = min(round(count * late), len(self._last_ids))
        ahead = count - behind
        if keys == "clustered":
            first = int(self._random.integers(0, max(1, self._keys - ahead)))
            ids = np.arange(first, first + ahead, dtype=np.int64)
        else:
            ids = self._random.choice(self._keys, ahead, replace=False)
        kinds = self._random.random(ahead)
        if keys == "scattered":
            ids = np.where(kinds < 0.05, self._keys * (1 + self._batch) + ids, ids)  # noqa: PLR2004 - share
        positions = (self._position + 1 + np.arange(ahead)) * STEP
        self._position += ahead
        again = self._random.choice(len(self._last_ids), behind, replace=False) if behind else []
        late_ids, late_positions = self._last_ids[again], self._last_positions[again] - STEP // 2
        self._last_ids, self._last_positions = ids, positions
        deleted = np.concatenate([kinds > 0.95, np.zeros(behind, dtype=bool)])  # noqa: PLR2004 - share
        events = pa.table({  # noqa: F841 - DuckDB reads it by its name
            "id": np.concatenate([ids, late_ids]),
            "position": np.concatenate([positions, late_positions]),
            "deleted": deleted,
        })  # fmt: skip
        path = self._folder / f"20260101-{self._batch:09d}.parquet"
        rows = duckdb.sql(f"""
            SELECT CASE WHEN deleted THEN 'D' ELSE 'U' END AS "Op", id,
                   CASE WHEN NOT deleted THEN 'Customer ' || id END AS name,
                   CASE WHEN NOT deleted THEN 'City ' || (id + position) % 1000 END AS city,
                   CASE WHEN NOT deleted THEN 'segment ' || id % 7 END AS segment,
                   CASE WHEN NOT deleted THEN position END AS amount,
                   position::VARCHAR AS change_seq, {START} + to_seconds(position) AS commit_time
            FROM events ORDER BY hash(id)""")
        pq.write_table(rows.to_arrow_table(), path)
        return path

    def seconds_after(self, share: float) -> int:
        """Seconds from the start to a point of what was landed so far; no event has this very time."""
        return int(self._position * share) * STEP + 1


def oracle_as_of(landing: Path, seconds: int) -> Any:
    """The dimension as of a time, from the landed files alone: the last event of each key, unless deleted."""
    return duckdb.sql(f"""
        WITH events AS (
          SELECT 'U' AS "Op", 0 AS position, id, name, city, segment, amount, commit_time
          FROM '{landing / FOLDER}/LOAD*.parquet'
          UNION ALL BY NAME
          SELECT "Op", change_seq::BIGINT AS position, id, name, city, segment, amount, commit_time
          FROM '{landing / FOLDER}/2026*.parquet'
        )
        SELECT id, last.name, last.city, last.segment, last.amount FROM (
          SELECT id, arg_max(events, position) AS last FROM events
          WHERE commit_time <= {START} + to_seconds({seconds}) GROUP BY id
        ) WHERE last."Op" <> 'D'""").to_arrow_table()


def as_of(history: Any, seconds: int) -> Any:
    """The versions of a history in effect at a time, by their half-open intervals."""
    moment = f"{START} + to_seconds({seconds})"
    with duckdb.connect() as connection:
        connection.register("history", history)
        rows = connection.sql(f"""
            SELECT id, name, city, segment, amount FROM history
            WHERE effective_from <= {moment} AND (effective_to IS NULL OR {moment} < effective_to)""")
        return rows.to_arrow_table()
