"""What a role sees of datasets, snapshots and queries, as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.grants.frame import GrantedFrame
from kedro_lakehouse.service.problems import Problem, not_found

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.snapshots import Dataset, Datasets, DatasetSnapshot
    from kedro_lakehouse.query.states import QueryState, TableRead

    Shown = dict[str, Any]


class LakeViews:
    """The project as each role sees it."""

    def __init__(self, project: Project, datasets: Datasets, roles: Collection[str]) -> None:
        """Settle what each role may see.

        Raises:
            ConfigurationError: grants.yml does not declare a role, or something is wrong in it.
        """
        self._datasets = datasets
        self._access = {role: RoleAccess.of(project, role) for role in roles}

    def list_datasets(self, role: str, limit: int, after: str | None) -> Shown:
        """The datasets that a role sees, by their names."""
        names = sorted(map(str, self._access[role].tables))
        shown = [name for name in names if after is None or name > after]
        listed = [{"dataset": name, "link": _link(name)} for name in shown[:limit]]
        return _page(listed, "dataset", is_last=len(shown) <= limit, base="/v1/datasets", limit=limit)

    def dataset(self, role: str, name: str) -> Shown:
        """One dataset: the columns that the role sees, and its newest snapshot."""
        access = self._granted(role, name)
        dataset = self._datasets.of(access.table)
        shown: Shown = {
            "dataset": name,
            "columns": _columns(access, dataset),
            "reads": access.reads,
            "link": _link(name),
        }
        if access.reads:
            newest = dataset.latest
            shown["latest"] = _snapshot(newest, access) if newest else None
            shown["snapshots"] = f"{_link(name)}/snapshots"
        return shown

    def list_snapshots(self, role: str, name: str, limit: int, after: str | None, state: str | None) -> Shown:
        """Published snapshots and rejected loads, the newest first."""
        access, dataset = self._read(role, name)
        start = 0
        if after is not None:
            if after not in dataset.by_id:
                raise Problem(400, "AFTER_UNKNOWN", "`after` is the id of no snapshot in this list.")
            start = dataset.by_id[after][0] + 1
        shown = dataset.snapshots[start:]
        if state is not None:
            shown = [one for one in shown if one.state == state]
        listed = [_snapshot(one, access) for one in shown[:limit]]
        base = f"{_link(name)}/snapshots"
        also = {"state": state} if state else {}
        return _page(listed, "id", is_last=len(shown) <= limit, base=base, limit=limit, also=also)

    def snapshot(self, role: str, name: str, wanted: str) -> Shown:
        """One snapshot or rejected load, or the newest snapshot."""
        access, dataset = self._read(role, name)
        return _snapshot(_found(dataset, wanted), access)

    def files(self, role: str, name: str, wanted: str) -> Shown:
        """The data files of a snapshot, for a role that sees all of the table: for they hold all of it."""
        from pyiceberg import expressions as ex

        access, dataset = self._read(role, name)
        one = _found(dataset, wanted)
        if not sees_all(access) or one.pin is None or dataset.table is None:
            raise not_found("such snapshot with files")
        built: Any = ex  # its constructors are typed for pydantic, not for callers
        where = built.EqualTo(one.pin.column, one.pin.snapshot) if one.pin.column else ex.AlwaysTrue()
        tasks = dataset.table.scan(where, snapshot_id=one.pin.state).plan_files()
        files = [
            {
                "path": task.file.file_path,
                "format": str(task.file.file_format.value).lower(),
                "rows": task.file.record_count,
                "bytes": task.file.file_size_in_bytes,
                "deletes": sorted(deletes.file_path for deletes in task.delete_files),
            }
            for task in tasks
        ]
        return {"dataset": name, "id": one.id, "files": sorted(files, key=lambda file: file["path"])}

    def query(self, state: QueryState) -> Shown:
        """The state of a query of a role.

        Of the result's place it holds only the name, and no sizes of tables that the role does not see whole.
        """
        shown = {key: value for key, value in asdict(state).items() if key not in ("role", "location")}
        shown["tables"] = [self._table_read(str(state.role), one) for one in state.tables]
        shown["link"] = f"/v1/queries/{state.id}"
        if state.state == "done" and "://" in state.location:
            shown["result"] = state.location
        elif state.state == "done":
            shown["output"] = Path(state.location).name
            shown["result"] = f"/v1/queries/{state.id}/result"
        return shown

    def _table_read(self, role: str, one: TableRead) -> Shown:
        access = self._access[role].by_name.get(one.table)
        if access is not None and sees_all(access):
            return asdict(one)
        return {"table": one.table, "snapshot": one.snapshot}

    def _granted(self, role: str, name: str) -> TableAccess:
        by_text = {str(table): access for table, access in self._access[role].tables.items()}
        if name not in by_text:
            raise not_found("such dataset")
        return by_text[name]

    def _read(self, role: str, name: str) -> tuple[TableAccess, Dataset]:
        access = self._granted(role, name)
        if not access.reads:
            raise not_found("such dataset with snapshots")
        return access, self._datasets.of(access.table)


def sees_all(access: TableAccess) -> bool:
    """Whether a role sees every row and column of a table as it is stored."""
    restricted = access.rows is not None or access.include is not None or access.exclude or access.masks
    return access.reads and not restricted


def _found(dataset: Dataset, wanted: str) -> DatasetSnapshot:
    if wanted != "latest":
        return dataset.snapshot(wanted)
    if dataset.latest is None:
        raise not_found("published snapshot")
    return dataset.latest


def _columns(access: TableAccess, dataset: Dataset) -> list[Mapping[str, str]]:
    """The columns that a role sees, with the types that it sees."""
    if dataset.table is None:
        return []
    schema = dataset.table.schema()
    frame = GrantedFrame(access, dataset.table, schema)
    shown = frame.empty().schema
    stored = {field.name: str(field.field_type) for field in schema.fields}
    return [
        {"name": field.name, "type": stored[field.name] if field.name in frame.unmasked else str(field.type)}
        for field in shown
    ]


def _snapshot(one: DatasetSnapshot, access: TableAccess) -> Shown:
    link = f"{_link(one.dataset)}/snapshots/{quote(one.id, safe='')}"
    shown: Shown = {
        "dataset": one.dataset,
        "id": one.id,
        "partition": one.partition,
        "time": one.time.isoformat(timespec="milliseconds"),
        "state": one.state,
        "link": link,
    }
    if one.state == "rejected":
        shown["codes"] = list(one.codes)
    elif sees_all(access):
        shown["files"] = f"{link}/files"
        if one.rows is not None:  # of rows that are not all granted the number tells something
            shown["rows"] = one.rows
    return shown


def _page(  # noqa: PLR0913 - what a page is made of
    listed: Sequence[Shown],
    key: str,
    *,
    is_last: bool,
    base: str,
    limit: int,
    also: Mapping[str, str] | None = None,
) -> Shown:
    shown: Shown = {"items": list(listed)}
    if listed and not is_last:
        more = "".join(f"&{name}={quote(value)}" for name, value in (also or {}).items())
        shown["next"] = f"{base}?limit={limit}&after={quote(listed[-1][key], safe='')}{more}"
    return shown


def _link(name: TableName | str) -> str:
    return f"/v1/datasets/{quote(str(name), safe='')}"
