"""Metadata of tables is parsed once: that of an SQL catalog after a change, and each manifest."""

from __future__ import annotations

import json
import threading
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from sqlalchemy import text

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.schema import Schema
    from pyiceberg.table import CommitTableResponse
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

_MOST_ENTRIES: Final = 20
"""Larger manifests are those of large tables, of which few batches are small: they are parsed each time."""
_KEPT_ENTRIES: Final = 10_000
"""An entry takes 4 KB. The loop makes some ten manifests a cycle, of which the next ones need the newest."""
_PLACE: Final = text(
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name"
)
_manifests: Final[LRUCache[tuple[Any, ...], list[ManifestEntry]]] = LRUCache(
    _KEPT_ENTRIES, getsizeof=lambda entries: len(entries) + 1
)
_lock: Final = threading.Lock()


def parse_manifests_once() -> None:
    """Let pyiceberg keep what it has parsed of manifests, and of their schemas: such a file never changes.

    A small commit looks at the same manifests eight times. pyiceberg keeps only which manifests there are.
    """
    parse = ManifestFile.fetch_manifest_entry
    if hasattr(parse, "__wrapped__"):
        return

    @wraps(parse)
    def known(self: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:  # noqa: FBT001, FBT002 - as pyiceberg has it
        key = self.manifest_path, self.sequence_number, self.added_snapshot_id, discard_deleted
        with _lock:
            found = _manifests.get(key)
        if found is None:
            found = parse(self, io, discard_deleted)
            if len(found) <= _MOST_ENTRIES:
                with _lock:
                    _manifests[key] = found
        return list(found)

    ManifestFile.fetch_manifest_entry = known  # type: ignore[method-assign]
    AvroFileHeader.get_schema = _schema_of  # type: ignore[assignment, method-assign]


def _schema_of(header: AvroFileHeader) -> Schema:
    return _avro_schema(header.meta["avro.schema"])


@lru_cache(maxsize=256)
def _avro_schema(text: str) -> Schema:
    """The schema in an Avro file's header: all manifests of a kind have the same."""
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


class KnownMetadataCatalog(SqlCatalog):
    """Pyiceberg's SQL catalog, which keeps the newest metadata of each table that it has parsed.

    Every lookup asks the catalog where the newest metadata is. A file of metadata never changes, so what was
    parsed from that place, or written to it, is as good as new. Whoever gets a table must not change its
    metadata in place.
    """

    def __init__(self, name: str, **properties: str) -> None:
        """Open the catalog; no table is known yet."""
        super().__init__(name, **properties)
        self._known: dict[tuple[str | None, str | None], Table] = {}

    def load_table(self, identifier: str | Identifier) -> Table:
        """Find a table; of one that is known only the place of its metadata is asked, in plain SQL."""
        name = _name_of(identifier)
        if name in self._known:
            with self.engine.connect() as connection:
                place = connection.execute(
                    _PLACE, {"catalog": self.name, "namespace": name[0], "name": name[1]}
                ).scalar()
            if place:
                row = IcebergTables(
                    catalog_name=self.name,
                    table_namespace=name[0],
                    table_name=name[1],
                    metadata_location=place,
                    previous_metadata_location=None,
                )
                return self._convert_orm_to_iceberg(row)
        return super().load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table, and keep the metadata that were written."""
        done = super().commit_table(table, requirements, updates)
        identifier = table.name()
        self._known[_name_of(identifier)] = Table(
            identifier=identifier,
            metadata=done.metadata,
            metadata_location=done.metadata_location,
            io=self._load_file_io(done.metadata.properties, done.metadata_location),
            catalog=self,
        )
        return done

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        name = orm_table.table_namespace, orm_table.table_name
        known = self._known.get(name)
        if known is None or known.metadata_location != orm_table.metadata_location:
            known = self._known[name] = super()._convert_orm_to_iceberg(orm_table)
        return Table(
            identifier=Catalog.identifier_to_tuple(known.name()),
            metadata=known.metadata,
            metadata_location=known.metadata_location,
            io=known.io,
            catalog=self,
        )


def _name_of(identifier: str | Identifier) -> tuple[str, str]:
    """The namespace and the name of a table, as the catalog's rows have them."""
    namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
    return namespace, Catalog.table_name_from(identifier)
