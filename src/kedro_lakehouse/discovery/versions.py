"""The versions of discovered datasets in ``lake.ops.discovered``; the newest is what was found last."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.changes import FoundVersion
from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset
from kedro_lakehouse.ops.store import DISCOVERED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.ops.store import OpsStore

_AS_THEY_ARE: Final = (
    "kind", "location", "pattern", "identity", "mark", "rows", "rows_exact", "size", "files", "changed",
    "read", "note",
)  # fmt: skip


def all_versions(store: OpsStore) -> list[FoundVersion]:
    """Every version ever found, the oldest first."""
    rows = sorted(store.read(DISCOVERED), key=lambda row: (row["discovered_at"], row["version"]))
    return [_version(row) for row in rows]


def newest_versions(store: OpsStore) -> list[FoundVersion]:
    """The newest version of each dataset, by name; also of those that are gone."""
    newest = {one.dataset.name: one for one in all_versions(store)}
    return [newest[name] for name in sorted(newest)]


def record_versions(store: OpsStore, versions: Sequence[FoundVersion], run_id: str) -> None:
    """Write versions in one commit; without any, nothing is written."""
    at = datetime.now(UTC)
    store.append(DISCOVERED, [_row(replace(one, run_id=run_id, at=at)) for one in versions])


def _row(one: FoundVersion) -> dict[str, Any]:
    found = one.dataset
    return {name: getattr(found, name) for name in _AS_THEY_ARE} | {
        "table": found.name,
        "version": one.version,
        "status": one.status,
        "columns": [asdict(column) for column in found.columns],
        "partitions": list(found.partitions),
        "keys": [json.dumps(key) for key in found.keys],
        "options": json.dumps(found.options, sort_keys=True),
        "changes": list(one.changes),
        "run_id": one.run_id,
        "discovered_at": one.at,
    }


def _version(row: Mapping[str, Any]) -> FoundVersion:
    changed: datetime | None = row["changed"]
    dataset = FoundDataset(
        **{name: row[name] for name in _AS_THEY_ARE if name != "changed"},
        changed=changed.astimezone(UTC) if changed else None,
        name=row["table"],
        columns=tuple(FoundColumn(**column) for column in row["columns"] or ()),
        partitions=tuple(row["partitions"] or ()),
        keys=tuple(tuple(json.loads(key)) for key in row["keys"] or ()),
        options=json.loads(row["options"] or "{}"),
    )
    return FoundVersion(
        dataset=dataset, version=row["version"], status=row["status"], changes=tuple(row["changes"] or ()),
        run_id=row["run_id"], at=row["discovered_at"],
    )  # fmt: skip
