"""The shop that several processes write at once: its tables, its files, and what its tables must hold."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

FEW = 16
KILLS = int(os.environ.get("KEDRO_LAKEHOUSE_KILLS") or FEW)
"""How many commits of a format are killed, at a phase or with a run at a random time."""
MANY = KILLS > 100
"""Whether the tests take their time, as in `make crash KILLS=200`."""
KEYS = 10
SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
TABLES: dict[str, dict[str, Any]] = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True},
    "shop.line": {"source": "shop", "keys": [], "write": "append"},
}
EVERY_VERSION = ("shop.item_changes", "shop.item_history", "shop.line_changes", "shop.line")
"""The stored tables that hold each landed record once."""
_SCHEMA = {
    "Op": pa.string(), "id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string(),
}  # fmt: skip


class NoLease:
    """What a run has where nothing can be leased: it believes that it works alone."""

    def check(self) -> None:
        """Believe it."""

    confirm = check


def no_lease(*_: object) -> contextlib.AbstractContextManager[NoLease]:
    """What stands in the place of ``Project.lease`` where no file can be locked: only the commits decide."""
    return contextlib.nullcontext(NoLease())


def lease_nothing() -> None:
    """Let this process plan beside the others, without leases."""
    from kedro_lakehouse.project import Project

    Project.lease = no_lease  # type: ignore[method-assign, assignment]


def make_shop(path: Path, *, max_files: int) -> TemporaryProject:
    """The project, with empty landing folders."""
    project = TemporaryProject.make(path, {"shop": SOURCES["shop"] | {"max_files": max_files}}, TABLES)
    for table in TABLES:
        _folder(project, table).mkdir(parents=True)
    return project


def _folder(project: TemporaryProject, table: str) -> Path:
    return project.landing / table.replace(".", "/")


def land(project: TemporaryProject, seq: int, name: str) -> None:
    """Land a file for each table: an update of each key to ``name``, of an order that no other file has."""
    at = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=seq)  # noqa: DTZ001 - zone-less, as DMS writes it
    rows: list[dict[str, object]] = [
        {"Op": "U", "id": key, "name": name, "ts": at, "seq": f"{seq:06}"} for key in range(KEYS)
    ]
    for table in TABLES:
        hidden = project.path / f"{table}-{seq}"
        write_parquet(hidden, rows, _SCHEMA)
        hidden.rename(_folder(project, table) / f"20260101-{seq:09}.parquet")


def assert_each_is_there_once(project: TemporaryProject, names: list[str], trace: str = "") -> None:
    """Every landed record is applied once, and the newest file, the last of ``names``, is current."""
    once = Counter((key, name) for key in range(KEYS) for name in names)
    for table in EVERY_VERSION:
        assert _versions(project, table) == once, f"{table}\n{trace}"
    assert _versions(project, "shop.item") == Counter((key, names[-1]) for key in range(KEYS)), trace


def _versions(project: TemporaryProject, table: str) -> Counter[tuple[int, str]]:
    return Counter((r["id"], r["name"]) for r in project.rows(table))
