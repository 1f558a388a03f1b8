"""Look over places: every dataset that lies there, as it is now."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.catalogs import CatalogTable, glue_tables, iceberg_tables
from kedro_lakehouse.discovery.evidence import evidence_in
from kedro_lakehouse.discovery.file_datasets import datasets_in, name_of
from kedro_lakehouse.discovery.found import KEY, WHY, FoundDataset, identifier_of, key_options
from kedro_lakehouse.discovery.iceberg import iceberg_dataset, iceberg_rows, metadata_file, open_metadata
from kedro_lakehouse.discovery.register import REGISTERED
from kedro_lakehouse.discovery.tree import Tree, file_groups, list_tree, mark_of, table_roots
from kedro_lakehouse.errors import LakehouseError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.table import Table

    from kedro_lakehouse.config.discovery import DatasetKind, PlaceConfig

logger = logging.getLogger(__name__)

_GLUE: Final = "glue"


def look_over(
    places: Sequence[PlaceConfig],
    known: Mapping[tuple[str, str], FoundDataset] | None = None,
    credentials: Callable[[str], Mapping[str, Any]] | None = None,
    *,
    apart: str = "",
    left_alone: list[tuple[str, str]] | None = None,
) -> list[FoundDataset]:
    """Every dataset of these places, by name.

    Args:
        places: Where to look.
        known: What was found before, by location and pattern: what did not change since is not read again.
        credentials: Gives an entry of credentials.yml.
        apart: A folder that is left out wherever it lies: the project's own lakehouse.
        left_alone: Gets the files that are not what their names say, each with the reason.

    Raises:
        SourceNotFoundError: A place is not there.
        UnsupportedError: A table of Delta was found, and the package deltalake is not installed.
    """
    found: list[FoundDataset] = []
    for place in places:
        looked = _Place(place, known or {}, apart, left_alone)
        found += looked.in_folder() if place.path else looked.in_catalog(credentials)
    once = {(one.location, one.kind, one.identity): one for one in reversed(found)}  # places may overlap
    return sorted(with_own_names(list(once.values())), key=lambda one: one.name)


def find_datasets(path: str, *, sample_rows: int = 100_000) -> list[FoundDataset]:
    """Every dataset below a folder, or the one of a file."""
    from kedro_lakehouse.config.discovery import PlaceConfig

    return look_over([PlaceConfig(path=path, sample_rows=sample_rows)])


class _Place:
    """One place, looked over once."""

    def __init__(
        self,
        config: PlaceConfig,
        known: Mapping[tuple[str, str], FoundDataset],
        apart: str,
        left_alone: list[tuple[str, str]] | None,
    ) -> None:
        self._config, self._known, self._apart, self._left_alone = config, known, apart, left_alone

    def in_folder(self) -> Iterator[FoundDataset]:
        """All that lies below the place's path."""
        assert self._config.path is not None  # noqa: S101 - the caller looked
        tree = list_tree(self._config.path, exclude=self._config.exclude, apart=self._apart)
        for one in self._in_tree(tree):
            yield self._named(one, name_of(one.name, tree.root), self._config.namespace)

    def _in_tree(self, tree: Tree) -> Iterator[FoundDataset]:
        """All that lies in a tree; names are paths yet."""
        roots = table_roots(tree)
        for root, kind in roots.items():
            if kind in self._config.formats:
                yield self._readable(tree, root, kind)
        rest = tree.without(list(roots))
        for folder, files in file_groups(rest).items():
            wanted = [file for file in files if file.kind in self._config.formats]
            yield from self._files(tree, folder, wanted)

    def _readable(self, tree: Tree, root: str, kind: DatasetKind) -> FoundDataset:
        """A table, or an error that names it: one that was left out would be reported as gone."""
        try:
            return self._table(tree, root, kind)
        except LakehouseError:
            raise
        except Exception as error:
            raise UnreadableFileError(
                table="discovery",
                file=tree.address(root),
                detail=f"{kind}, {type(error).__name__}; `exclude` in discovery.yml leaves it out",
                landed=False,
            ) from error

    def _table(self, tree: Tree, root: str, kind: DatasetKind) -> FoundDataset:
        if kind == "iceberg":
            opened = open_metadata(metadata_file(tree, root))
            return self._iceberg(opened, root, location=tree.address(root))
        if kind == "delta":
            log = tree.below(f"{root}/_delta_log" if root else "_delta_log")
            changed = max(file.changed for file in log)
            return replace(self._delta(tree.address(root), root), changed=changed)
        from kedro_lakehouse.discovery.hudi import hudi_dataset, hudi_rows

        found = hudi_dataset(tree, root, root)
        return self._with_evidence(found, lambda limit: hudi_rows(tree, root, limit))

    def _iceberg(self, opened: Table, name: str, *, location: str = "") -> FoundDataset:
        found = iceberg_dataset(opened, name)
        found = replace(found, location=location or found.location)
        return self._with_evidence(found, lambda limit: iceberg_rows(opened, limit))

    def _delta(self, location: str, name: str) -> FoundDataset:
        from kedro_lakehouse.discovery.delta import delta_dataset, delta_rows, open_log

        opened = open_log(location)
        found = delta_dataset(opened, name, location)
        return self._with_evidence(found, lambda limit: delta_rows(opened, location, limit))

    def _with_evidence(self, found: FoundDataset, read: Callable[[int], pa.Table]) -> FoundDataset:
        """Add what rows tell; a table as it was at the last look is not read again."""
        known = self._known.get((found.location, found.pattern))
        if known is not None and known.mark == found.mark:
            told = {name: known.options[name] for name in (KEY, WHY) if name in known.options}
            return replace(
                found,
                columns=known.columns,
                keys=known.keys,
                read=known.read,
                note=known.note,
                options={**found.options, **told},
            )
        try:
            rows = read(self._config.sample_rows)
        except Exception as error:  # noqa: BLE001 - readers of three formats raise what they like
            logger.warning("%s: its rows were not read: %s", found.location, type(error).__name__)
            return replace(found, note=found.note or f"its rows could not be read ({type(error).__name__})")
        evidence = evidence_in(rows, found.columns, table=found.name)
        return replace(
            found,
            columns=evidence.columns,
            keys=evidence.keys.candidates,
            read=evidence.rows,
            options={**found.options, **key_options(evidence.keys)},
        )

    def _files(self, tree: Tree, folder: str, files: Sequence[Any]) -> Iterator[FoundDataset]:
        """The datasets of a folder's files; if none of these files changed, as they were found before."""
        location = tree.address(folder)
        known = [one for (place, _), one in self._known.items() if place == location and one.pattern]
        if known and sorted(one.mark for one in known) == _marks_now(known, files):
            yield from (
                one.named("/".join(filter(None, (folder, one.options.get("stem", ""))))) for one in known
            )
            return
        for found in datasets_in(tree, folder, files, self._config.sample_rows) if files else ():
            if isinstance(found, FoundDataset):
                yield found
            else:
                file, reason = found
                if self._left_alone is not None:
                    self._left_alone.append((tree.address(file.path), reason))
                logger.info("%s is left alone: %s.", tree.address(file.path), reason)

    def in_catalog(self, credentials: Callable[[str], Mapping[str, Any]] | None) -> Iterator[FoundDataset]:
        """All tables of the place's catalog."""
        config = self._config
        secret = credentials(config.credentials) if credentials and config.credentials else {}
        properties = {str(k): str(v) for k, v in {**config.catalog, **secret}.items()}
        tables = glue_tables if properties.get("type") == _GLUE else iceberg_tables
        for table in tables(properties, config.databases, config.exclude):
            yield from self._of_catalog(table)

    def _of_catalog(self, table: CatalogTable) -> Iterator[FoundDataset]:
        namespace = identifier_of([table.database])
        if table.opened is not None or table.metadata:
            if "iceberg" in self._config.formats:
                found = self._iceberg(table.opened or open_metadata(table.metadata), table.name)
                yield self._named(found, identifier_of([table.name]), namespace)
            return
        tree = list_tree(table.location)
        all_there = list(self._in_tree(tree))
        for one in all_there:
            parts = [table.name, one.name] if len(all_there) > 1 else [table.name]
            yield self._named(one, identifier_of(parts), namespace)

    def _named(self, found: FoundDataset, table: str, namespace: str) -> FoundDataset:
        kind: Any = found.kind  # a place has no collections
        prefix = self._config.prefix_of(kind)
        if self._config.register_ and found.kind == "iceberg":
            found = replace(found, options={**found.options, REGISTERED: True})
        return found.named(f"{namespace}.{prefix}{table}")


def _marks_now(known: Sequence[FoundDataset], files: Sequence[Any]) -> list[str]:
    """The marks that files would have if they were the same datasets as before."""
    import fnmatch

    left = list(files)
    marks = []
    for one in sorted(known, key=lambda k: -len(k.pattern)):
        its = [f for f in left if f.kind == one.kind and fnmatch.fnmatchcase(f.name, one.pattern)]
        left = [f for f in left if f not in its]
        marks.append(mark_of(its))
    return sorted(marks) if not left else []


def with_own_names(found: Sequence[FoundDataset]) -> list[FoundDataset]:
    """Give datasets of one name names of their own: by their kind, or else by their place."""
    by_name: dict[str, list[FoundDataset]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    named = []
    for name, same in by_name.items():
        kinds = {one.kind for one in same}
        for number, one in enumerate(sorted(same, key=lambda one: (one.location, one.pattern))):
            if len(same) == 1:
                named.append(one)
            elif len(kinds) == len(same):
                named.append(one.named(f"{name}_{one.kind}"))
            else:
                digest = hashlib.sha256(f"{one.location} {one.pattern}".encode()).hexdigest()[:6]
                named.append(one if number == 0 else one.named(f"{name}_{digest}"))
    return named
