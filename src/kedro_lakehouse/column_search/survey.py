"""What there is to index, and what of it changed since the last index: from metadata alone."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.column_search.files import suffix_of, table_files
from kedro_lakehouse.column_search.signature import FILES, TableVersion
from kedro_lakehouse.names import OPS_NAMESPACE, TableName
from kedro_lakehouse.ops.report import CommitReport, bookmark_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.session.catalog import MetadataCatalog

_DERIVED: Final = ("_changes", "_quarantine", "_history")


@dataclass(frozen=True)
class Survey:
    """Which tables a model has not seen as they are now, and the keys of columns whose tables are gone."""

    changed: Sequence[TableVersion]
    gone: Collection[tuple[str, str]]


def lake_tables(catalog: MetadataCatalog, declared: Mapping[TableName, TableConfig]) -> list[TableVersion]:
    """The current tables of the lake, also those that the project does not own; no row is read."""
    with catalog.listed():
        names = {
            (namespace, table) for namespace, table in catalog.all_tables() if namespace != OPS_NAMESPACE
        }
        derived = {(namespace, table + end) for namespace, table in names for end in _DERIVED}
        found = [_lake_table(catalog, *name, declared) for name in names - derived]
    return sorted(filter(None, found), key=lambda table: (table.namespace, table.table))


def _lake_table(
    catalog: MetadataCatalog, namespace: str, table: str, declared: Mapping[TableName, TableConfig]
) -> TableVersion | None:
    stored = catalog.outline_at((namespace, table))
    if stored is None or stored.snapshot_id is None:
        return None
    report: CommitReport | None = bookmark_of(stored.properties)
    if report is not None and report.stage != "current":
        return None
    config = next((c for name, c in declared.items() if name.identifier == (namespace, table)), None)
    return table_version(
        namespace, table, location=stored.location, snapshot=stored.snapshot_id, config=config
    )


def table_version(
    namespace: str, table: str, *, location: str, snapshot: int, config: TableConfig | None
) -> TableVersion:
    """A table of the lake as it is now; its declaration is a part of what it is."""
    personal, tags = (config.personal_columns, config.tags) if config else (frozenset[str](), ())
    said: list[Any] = [sorted(personal), sorted(tags)]
    if config and config.rename:  # a column that gets another name is in no new snapshot
        said.append(sorted(config.rename.items()))
    mark = f"+{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]}" if any(said) else ""
    return TableVersion(
        namespace=namespace,
        table=table,
        location=location,
        version=f"{snapshot}{mark}",
        tags=tags,
        personal=personal,
    )


def file_tables(added: Iterable[str]) -> list[TableVersion]:
    """The tables in the files and folders that were added; a path that is gone has none."""
    found: dict[str, TableVersion] = {}
    names: dict[str, int] = {}
    for root in sorted(set(added)):
        if not Path(root).exists():
            continue
        for path in table_files(Path(root)):
            if str(path) in found:
                continue
            facts = path.stat()
            name = _table_name(path, Path(root))
            names[name] = names.get(name, 0) + 1
            if names[name] > 1:
                name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:6]}"
            found[str(path)] = TableVersion(
                namespace=FILES,
                table=name,
                location=str(path),
                added=root,
                version=f"{facts.st_size}-{facts.st_mtime_ns}",
            )
    return list(found.values())


def _table_name(path: Path, root: Path) -> str:
    """A table's name out of a file's place below what was added, as an identifier."""
    inside = path.relative_to(root) if root.is_dir() else Path(path.name)
    stem = path.name.removesuffix(".gz").removesuffix(suffix_of(path))
    text = "_".join([*inside.parts[:-1], stem]).lower()
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_") or "table"


def survey(
    tables: Sequence[TableVersion], stored: Sequence[Mapping[str, Any]], model_ids: Sequence[str]
) -> Survey:
    """Compare tables with what stands in the index, for every model that is wanted.

    Args:
        tables: As they are now; together they are all there is.
        stored: Rows of the signature table.
        model_ids: The models that every table is to be indexed with; others keep what they have, but for
            the columns of tables that are gone.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for row in stored:
        seen.setdefault((row["location"], row["model_id"]), set()).add(row["version"])
    there = {table.location for table in tables}
    changed = [
        table
        for table in tables
        if any(seen.get((table.location, model)) != {table.version} for model in model_ids)
    ]
    gone = {(row["column_id"], row["model_id"]) for row in stored if row["location"] not in there}
    return Survey(changed, gone)
