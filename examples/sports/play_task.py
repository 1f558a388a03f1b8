"""Play the AWS DMS task whose files the example reads: ``play_task.py load | changes | repair``."""

from __future__ import annotations

import argparse
import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
DATABASE = HERE.parents[1] / "data/01_raw/dms_sample"
SCHEMA = "dms_sample"
COPIES = {"nfl_stadium_data_upd": "nfl_stadium_data"}
TABLES = ("mlb_data", "nfl_stadium_data_upd", "sport_division", "sport_team", "sporting_event")
COMMITTED = dt.datetime(2026, 11, 21, 0, 30)  # noqa: DTZ001 - DMS writes times without a zone
CHANGES = "20261121-003000123.parquet"
BROKEN = "sport_team"


def load(landing: Path) -> None:
    """Write the full load of each table: no Op, and the columns that transformation rules add."""
    for table in TABLES:
        _write(landing, table, "LOAD00000001.parquet", _rows(table))


def changes(landing: Path) -> None:
    """Write one file of changes for each table; that of ``sport_team`` breaks off in the middle."""
    for table, events in _events().items():
        _write(landing, table, CHANGES, events)
    broken = landing / SCHEMA / BROKEN / CHANGES
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])


def repair(landing: Path) -> None:
    """Write the broken file again, whole."""
    _write(landing, BROKEN, CHANGES, _events()[BROKEN])


def _rows(table: str) -> pa.Table:
    """The rows of a table's full load, without the sequence that this task does not write."""
    return pq.read_table(DATABASE / COPIES.get(table, table) / "LOAD00000001.parquet").drop_columns(
        "change_seq"
    )


def _events() -> dict[str, pa.Table]:
    division = {
        "sport_type_name": "football", "sport_league_short_name": "NFL", "short_name": "Intl",
        "long_name": "to be named", "description": None,
    }  # fmt: skip
    return {
        "mlb_data": _updated("mlb_data", {"mlb_id": 506560}, {"bats": "R"}),
        "nfl_stadium_data_upd": _updated(
            "nfl_stadium_data_upd",
            {"team": "Los Angeles Rams", "sport_location_id": 31},
            {"seating_capacity": 93703},
        ),
        # One key three times in one transaction: the rows share their commit time.
        "sport_division": _logged(
            "sport_division",
            [("I", division), ("U", division | {"long_name": "NFL Europe"}),
             ("U", division | {"long_name": "NFL International"})],
        ),
        "sport_team": _updated("sport_team", {"id": 591}, {"abbreviated_name": "LAR"}),
        "sporting_event": _updated("sporting_event", {"id": 11}, {"start_date": dt.date(2026, 11, 20)}),
    }  # fmt: skip


def _updated(table: str, key: dict[str, Any], values: dict[str, Any]) -> pa.Table:
    found = [row for row in _rows(table).to_pylist() if key.items() <= row.items()]
    return _logged(table, [("U", row | values) for row in found])


def _logged(table: str, events: list[tuple[str, dict[str, Any]]]) -> pa.Table:
    """Rows as the task writes changes: Op first, the commit time last."""
    schema = pa.schema([("Op", pa.string()), *_rows(table).schema])
    rows = [{"Op": op, **row, "last_update_time": COMMITTED} for op, row in events]
    return pa.Table.from_pylist(rows, schema=schema)


def _write(landing: Path, table: str, name: str, rows: pa.Table) -> None:
    folder = landing / SCHEMA / table
    folder.mkdir(parents=True, exist_ok=True)
    for column, text in (("schema_name", SCHEMA), ("table_name", table)):
        rows = rows.append_column(column, pa.array([text] * rows.num_rows, pa.string()))
    pq.write_table(rows, folder / name)


def main() -> None:
    """Write the files of one step."""
    steps = {"load": load, "changes": changes, "repair": repair}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=steps)
    steps[parser.parse_args().step](HERE / "data/01_raw/dms_task")


if __name__ == "__main__":
    main()
